// Continuous batching scheduler: selects the tokens of the next pass and allocates KV cache pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/prefix_cache.hpp"
#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

/// One pass: plan(); copies_before(), feed chunks(), copies_after(); draw draws(); accept() the drawn tokens. Sequences
/// are added and removed between passes.
///
/// Sequences start in order of priority and arrival, as long as slots, pages and the token budget of a pass allow. A
/// pass feeds the decode tokens first, then prefills in start order. In a group (adjacent sequences with the same
/// prompt) the first sequence, the leader, prefills the prompt. Sequences that start before the prefill is complete
/// follow the leader: they draw their first token from the same logits, share the full pages and copy the last, partly
/// filled page. Sequences that start later feed the prompt's last token again. Other sequences reuse the cached full
/// pages of a common prefix. If pages run out, the last sequence is preempted: it frees its pages and feeds its tokens
/// again later. A page that is written has one user; any further users read only the beginning of a prompt's last page,
/// which was written before.
class schedule {
 public:
  /// The number of pages of a sequence of `longest` tokens. Its last token is never fed.
  static std::int64_t pages_of(std::int64_t longest) noexcept { return kv_pages(longest - 1); }

  /// Resets to no sequences. `pool` must have enough pages for any single sequence and outlive this.
  void start(const schedule_limits& limits, page_pool& pool) {
    limits_ = limits, pool_ = &pool;
    preemptions_ = passes_ = fed_ = drawn_ = 0;
    growing_ = following_ = 0;
    running_.clear(), waiting_.clear(), held_.clear();
    prefixes_.start(limits.share_prefixes ? pool.pages() : 0, pool);
    table_row_ = static_cast<std::size_t>(std::max<std::int64_t>(1, pages_of(limits.longest)));
    table_.resize(table_row_ * static_cast<std::size_t>(limits.max_sequences));
    free_slots_.clear();
    for (std::int64_t s = limits.max_sequences; s-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(s));
    running_.reserve(free_slots_.size());
  }

  /// Queues a sequence. It must live until it ends or is removed.
  void add(sequence& s) {
    s.will_read();
    s.plan.where = state::waiting;
    waiting_.add(s);
  }
  /// Removes a sequence; call between passes.
  void remove(sequence& s) {
    if (s.plan.where == state::waiting) waiting_.remove(s);
    if (s.plan.where == state::running) {
      for (std::size_t i = running_.size(); i-- > 0;)  // followers need a new leader
        if (running_[i]->plan.leader == &s) send_back(i);
      leave(s);
      std::erase(running_, &s);
    }
    s.plan.where = state::open;
    s.has_read();
    if (!held_.empty() && !is_next(held_group_)) drop_held();
  }
  /// Invalidates all keys and values; all sequences are prefilled again. Call between passes.
  void forget_pages() {
    while (!running_.empty()) send_back(running_.size() - 1);
    drop_held();
    prefixes_.clear();
  }

  bool idle() const noexcept { return running_.empty() && waiting_.empty(); }
  std::size_t running() const noexcept { return running_.size(); }
  std::size_t waiting() const noexcept { return waiting_.size(); }
  std::size_t preemptions() const noexcept { return preemptions_; }
  std::size_t passes() const noexcept { return passes_; }
  std::size_t tokens_fed() const noexcept { return fed_; }
  std::size_t tokens_drawn() const noexcept { return drawn_; }
  /// Tokens served from the prefix cache.
  std::size_t prefix_hits() const noexcept { return prefixes_.hits(); }

  void plan() {
    chunks_.clear(), before_.clear(), after_.clear(), draws_.clear(), scores_.clear();
    room_ = limits_.max_batched_tokens, score_room_ = limits_.score_rows, image_room_ = limits_.image_rows;
    for (std::size_t i = 0; limits_.chunk_prompts && i < running_.size(); ++i)  // the vector may shrink at its end
      if (running_[i]->draws_next()) feed(*running_[i]);
    if (limits_.prompt_tokens > 0) room_ = std::min(room_, limits_.prompt_tokens);
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (running_[i]->plan.fed < std::ssize(running_[i]->tokens)) feed(*running_[i]);
    while (admit()) {
    }
    if (chunks_.empty()) throw std::logic_error("rlcore: rollout::schedule: nothing can be fed");
    chunks_.order();
    share_read_prompts();
    ++passes_;
  }
  std::span<const nn::decode_chunk> chunks() const noexcept { return chunks_.all(); }
  /// The sequence that chunks()[chunk] belongs to.
  const sequence& sequence_of(std::size_t chunk) const { return *chunks_.owners()[chunk]; }
  std::span<const page_copy> copies_before() const noexcept { return before_; }
  std::span<const page_copy> copies_after() const noexcept { return after_; }
  /// The draws of this pass, ordered by turn, then by row.
  std::span<const scheduled_draw> draws() const noexcept { return draws_; }
  /// The prompt tokens that this pass scores, ordered by row.
  std::span<const scheduled_score> scores() const noexcept { return scores_; }

  /// Appends the drawn tokens. Ends the turns that drew one of their stop_ids, reached their maximum length, or got
  /// token -1 (every token was excluded), and pauses those that have drawn enough.
  void accept(std::span<const std::int32_t> tokens) {
    for (sequence* s : chunks_.owners()) prefixes_.remember(*s, pages_of_slot(s->plan.slot));
    for (const scheduled_score& s : scores_) s.of->plan.scored = s.number;
    bool ended = false;
    for (std::size_t i = 0; i < draws_.size(); ++i) {
      sequence& s = *draws_[i].of;
      const bool drawn = tokens[i] >= 0;
      if (drawn) s.append(tokens[i]);
      const bool stops = std::ranges::find(s.asked.stop_ids, tokens[i]) != s.asked.stop_ids.end();
      const std::int64_t length = std::ssize(s.tokens);
      if (drawn && !stops && length < s.longest && length != s.pause_at) continue;
      s.reason = !drawn ? finish::failed : stops ? finish::eos : length == s.longest ? finish::length : finish::paused;
      leave(s);
      s.plan.where = state::open;
      ended = true;
    }
    drawn_ += draws_.size();
    if (ended) std::erase_if(running_, [](const sequence* s) { return s->plan.where == state::open; });
  }

 private:
  using state = sequence::scheduled::state;
  static constexpr std::int64_t page = kv_page;

  std::int32_t* pages_of_slot(std::int32_t slot) { return table_.data() + static_cast<std::size_t>(slot) * table_row_; }

  /// Feeds as many of the sequence's tokens as the pass has room for; false if none.
  bool feed(sequence& s) {
    s.plan.reads_prompt = false;
    if (s.plan.leader != nullptr || room_ <= 0) return false;
    const std::int64_t all = std::ssize(s.tokens), fed = s.plan.fed;
    if (s.unscored() && fed >= s.plan.scored) return score(s);
    const bool in_prompt = fed < s.prompt_length;
    const std::int64_t left = (s.unscored() ? s.plan.scored : in_prompt ? s.prompt_length : all) - fed;
    std::int64_t take = std::min(left, room_);
    if (take < left && !limits_.chunk_prompts) {
      if (!chunks_.empty()) return false;
      take = left;
    }
    if (!make_pages(s, fed + take) || !show(s, take)) return false;
    push_chunk(s, take, fed + take == all);
    s.plan.reads_prompt = in_prompt && s.plan.fed == s.prompt_length;
    if (s.plan.fed >= s.prompt_length) s.has_read();
    return true;
  }
  void push_chunk(sequence& s, std::int64_t take, bool wants_logits) {
    const auto first = static_cast<std::size_t>(s.plan.fed), n = static_cast<std::size_t>(take);
    chunks_.push({std::span<const std::int32_t>(s.tokens).subspan(first, n), s.plan.fed,
                  std::span(pages_of_slot(s.plan.slot), static_cast<std::size_t>(s.plan.pages)), wants_logits},
                 s);
    s.plan.fed += take;
    room_ -= take;
    fed_ += n;
  }

  /// Reserves image rows for the sequence's next `take` tokens; false if the pass has none left.
  bool show(sequence& s, std::int64_t take) {
    if (!s.shown || s.shown->last_pass == passes_ + 1 || !s.shown->shows(s.plan.fed, s.plan.fed + take)) return true;
    if (s.shown->rows() > image_room_) return false;
    image_room_ -= s.shown->rows();
    s.shown->last_pass = passes_ + 1;
    return true;
  }

  /// Feeds prompt tokens as chunks of one, to get the logits after each.
  bool score(sequence& s) {
    const std::int64_t take = std::min({s.prompt_length - 1 - s.plan.fed, room_, score_room_});
    if (take <= 0 || !make_pages(s, s.plan.fed + take) || !show(s, take)) return false;
    for (std::int64_t i = 0; i < take; ++i) push_chunk(s, 1, true);
    score_room_ -= take;
    return true;
  }

  /// Allocates pages for the sequence's first `tokens` tokens; false if it was the last sequence and was preempted
  /// itself.
  bool make_pages(sequence& s, std::int64_t tokens) {
    while (s.plan.pages < kv_pages(tokens)) {
      const std::int32_t got = prefixes_.acquire();
      if (got >= 0) {
        add_page(s, got);
      } else if (!make_room(s)) {
        return false;
      }
    }
    return true;
  }
  void add_page(sequence& s, std::int32_t got) {
    pages_of_slot(s.plan.slot)[s.plan.pages++] = got;
    growing_ -= s.plan.pages == s.plan.most_pages;
  }
  /// Frees held pages or preempts the last sequence; false if that was this sequence itself.
  bool make_room(const sequence& s) {
    if (!held_.empty()) {
      drop_held();
      return true;
    }
    if (running_.size() == 1)
      throw std::logic_error("rlcore: rollout::schedule: one sequence needs more than all pages");
    const sequence* last = running_.back();
    send_back(running_.size() - 1);
    ++preemptions_;
    return last != &s;
  }

  /// Preempts running_[i]: frees its pages and queues it again.
  void send_back(std::size_t i) {
    sequence& s = *running_[i];
    leave(s);
    s.has_read();
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    s.plan.where = state::waiting;
    waiting_.add(s);
  }
  /// Releases the last page first, so that LRU eviction keeps the prefix longest.
  void leave(sequence& s) {
    const std::int32_t* pages = pages_of_slot(s.plan.slot);
    for (std::int32_t i = s.plan.pages; i-- > s.plan.first_page;) pool_->release(pages[i]);
    growing_ -= s.plan.pages < s.plan.most_pages;
    following_ -= s.plan.leader != nullptr;
    free_slots_.push_back(s.plan.slot);
  }
  void drop_held() {
    for (std::size_t i = held_.size(); i-- > 0;) pool_->release(held_[i]);
    held_.clear();
  }

  /// The source of a starting sequence's prefix.
  struct beginning {
    std::span<const std::int32_t> pages = {};  ///< pages filled in earlier passes
    std::int64_t tokens = 0;
    sequence* leader = nullptr;  ///< is prefilling the prompt
    bool found = false;          ///< in the prefix cache
  };

  /// Starts the next waiting sequence; false if none waits or it cannot start yet.
  bool admit() {
    if (free_slots_.empty() || waiting_.empty()) return false;
    sequence& s = waiting_.next();
    const beginning from = beginning_of(s);
    if (from.leader == nullptr && room_ <= 0) return false;
    const std::int64_t shared = from.tokens / page, fresh = kv_pages(std::ssize(s.tokens)) - shared;
    const auto revived = std::ranges::count_if(from.pages.first(from.leader ? 0 : static_cast<std::size_t>(shared)),
                                               [&](std::int32_t p) { return pool_->users(p) == 0; });
    if (pool_->available() - revived < fresh + growing_) {  // reserves one page per sequence that may still grow
      if (!running_.empty()) return false;
      if (held_.empty()) throw std::logic_error("rlcore: rollout::schedule: one sequence needs more than all pages");
      drop_held();
      return true;
    }
    waiting_.take();
    if (from.found) prefixes_.count(from.tokens);
    place(s, from);
    for (std::int64_t i = 0; i < fresh; ++i) add_page(s, prefixes_.acquire());
    if (!from.leader && from.tokens % page != 0)
      before_.push_back({pages_of_slot(s.plan.slot)[shared], from.pages[static_cast<std::size_t>(shared)]});
    if (!held_.empty() && !is_next(held_group_)) drop_held();
    if (s.plan.fed >= s.prompt_length) s.has_read();
    if (from.leader != nullptr || feed(s)) return true;
    return s.plan.where == state::running && s.unscored() && score_room_ <= 0;  // does not block the sequences after it
  }
  /// Adds the sequence to the running ones, with its shared pages.
  void place(sequence& s, const beginning& from) {
    sequence::scheduled& plan = s.plan;
    s.tokens.reserve(static_cast<std::size_t>(s.longest));
    plan.where = state::running;
    plan.slot = free_slots_.back();
    free_slots_.pop_back();
    running_.insert(std::ranges::upper_bound(running_, &s, [](auto* a, auto* b) { return a->before(*b); }), &s);
    plan.pages = static_cast<std::int32_t>(from.tokens / page);
    plan.most_pages = static_cast<std::int32_t>(pages_of(s.longest));
    plan.fed = from.tokens;
    if (plan.fed < s.prompt_length) s.will_read();
    plan.leader = from.leader;
    plan.remembered = 0, plan.last_page = 0;
    plan.first_page = from.leader != nullptr ? plan.pages : 0;
    growing_ += plan.pages < plan.most_pages;
    following_ += from.leader != nullptr;
    for (std::int32_t i = plan.first_page; i < plan.pages; ++i)
      pool_->share(pages_of_slot(plan.slot)[i] = from.pages[static_cast<std::size_t>(i)]);
  }

  /// Without a leader at least one token is left to feed, for the logits. A prompt that is scored needs all its logits
  /// rows, so it has no leader.
  beginning beginning_of(const sequence& s) {
    const std::int64_t fed_before = s.prompt_length - (s.response_length() == 0);
    beginning from;
    if (!s.unscored() && !held_.empty() && held_group_ == s.group) from = {held_, fed_before};
    if (!s.unscored() && from.pages.empty()) {
      const auto after = std::ranges::upper_bound(running_, &s, [](auto* a, auto* b) { return a->before(*b); });
      sequence* const m = after == running_.begin() ? nullptr : *std::prev(after);
      if (m != nullptr && m->group == s.group) {
        const sequence::scheduled& plan = m->plan;
        if (plan.leader != nullptr) return {{}, s.prompt_length, plan.leader};
        if (plan.reads_prompt || plan.fed < m->prompt_length) return {{}, s.prompt_length, m};
        from = {std::span(pages_of_slot(plan.slot), static_cast<std::size_t>(plan.pages)), fed_before};
      }
    }
    const auto found = prefixes_.find(s, s.unscored() ? s.plan.scored : std::ssize(s.tokens) - 1);
    if (const std::int64_t tokens = std::ssize(found) * page; tokens > from.tokens)
      from = {found, tokens, nullptr, true};
    return from;
  }
  bool is_next(std::uint64_t group) const { return !waiting_.empty() && waiting_.next().group == group; }

  /// Shares the pages of prompts prefilled in this pass with followers, then sets the logits rows and draws.
  void share_read_prompts() {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      sequence& s = *chunks_.owners()[i];
      s.plan.chunk = static_cast<std::int32_t>(i);
      s.plan.draws = 0;
      if (!s.plan.reads_prompt || !is_next(s.group) || (!held_.empty() && held_group_ == s.group)) continue;
      drop_held();
      const std::int32_t* pages = pages_of_slot(s.plan.slot);
      held_.assign(pages, pages + kv_pages(s.prompt_length));
      held_group_ = s.group;
      for (const std::int32_t p : held_) pool_->share(p);
    }
    forked_.clear();
    for (std::size_t i = 0; following_ > 0 && i < running_.size(); ++i) {
      sequence& s = *running_[i];
      if (s.plan.leader != nullptr && s.plan.leader->plan.reads_prompt) take_prompt(s, *s.plan.leader);
    }
    set_rows();
  }
  /// The follower shares the pages of the prompt that its leader prefills in this pass.
  void take_prompt(sequence& s, const sequence& leader) {
    const std::int32_t *theirs = pages_of_slot(leader.plan.slot), shared = s.plan.first_page;
    std::int32_t* mine = pages_of_slot(s.plan.slot);
    for (std::int32_t k = 0; k < shared; ++k) pool_->share(mine[k] = theirs[k]);
    if (s.prompt_length % page != 0) after_.push_back({mine[shared], theirs[shared]});
    if (s.response_length() == 0) {
      chunks_[static_cast<std::size_t>(leader.plan.chunk)].wants_logits = true;
      forked_.push_back({leader.plan.chunk, &s});
    }
    s.plan.first_page = 0;
    s.plan.leader = nullptr;
    --following_;
  }
  void set_rows() {
    std::int32_t row = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (!chunks_[i].wants_logits) continue;
      sequence& s = *chunks_.owners()[i];
      s.plan.row = row++;
      const std::int64_t end = chunks_[i].first_position + std::ssize(chunks_[i].ids);
      if (s.unscored() && end < s.prompt_length) scores_.push_back({s.plan.row, &s, end});
      if (end == std::ssize(s.tokens)) draw(s, s);
    }
    for (const auto& [chunk, s] : forked_) draw(*s, *chunks_.owners()[static_cast<std::size_t>(chunk)]);
    if (!forked_.empty())
      std::ranges::sort(draws_, {}, [](const scheduled_draw& d) { return std::pair(d.turn, d.row); });
  }
  /// The sequence draws from the logits row of `reader`, in the next turn.
  void draw(sequence& s, sequence& reader) {
    draws_.push_back({reader.plan.row, reader.plan.draws++, &s, static_cast<std::uint32_t>(s.response_length())});
  }

  schedule_limits limits_;
  page_pool* pool_ = nullptr;
  prefix_pages prefixes_;
  std::size_t preemptions_ = 0, passes_ = 0, fed_ = 0, drawn_ = 0;
  std::int64_t room_ = 0, score_room_ = 0, image_room_ = 0;  // remaining tokens, scores and image rows of the pass
  std::int32_t growing_ = 0, following_ = 0;                 // running sequences that may need more pages; followers
  std::vector<sequence*> running_;                           // in start order
  waiting_list waiting_;
  std::vector<std::int32_t> table_, free_slots_;  // the page table of each slot
  std::size_t table_row_ = 0;
  std::vector<std::int32_t> held_;  // prompt pages held for samples of held_group_ that have not started
  std::uint64_t held_group_ = 0;
  pass_chunks chunks_;
  std::vector<page_copy> before_, after_;
  std::vector<scheduled_draw> draws_;
  std::vector<scheduled_score> scores_;
  std::vector<std::pair<std::int32_t, sequence*>> forked_;
};

}  // namespace rollout
RLCORE_END
