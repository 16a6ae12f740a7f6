// Decides which tokens of which sequences the next pass feeds, and which pages hold their keys and values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/decode_chunk.hpp"
#include "rlcore/rollout/page_pool.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/same_prompt.hpp"

RLCORE_BEGIN
namespace rollout {

/// A token to draw. `row` is the row of the pass's logits, `turn` the number of earlier draws from it, `slot` the slot
/// of the sequence, `request` the number of the request, `token` the number of the token in the response.
struct scheduled_draw {
  std::int32_t row = 0, turn = 0, slot = 0;
  std::uint32_t request = 0, token = 0;
};

/// Page `from` is to be copied to page `to`.
struct page_copy {
  std::int32_t to = 0, from = 0;
};

/// A pass is plan(); copies_before(), feeding chunks(), copies_after(); drawing draws(); accept() with the drawn
/// tokens.
///
/// Sequences start in the order of the requests, as many as slots, pages and the tokens of a pass allow. In a pass the
/// older ones come first. Of neighbours with the same prompt the first feeds it. Those that start before it is read
/// follow it: they draw their first token from the same logits, read the same full pages and copy the last, partly
/// filled one. Those that start later feed the prompt's last token again. If pages run out, the youngest sequence gives
/// its pages back; its prompt and generated tokens are fed again later. A page that is written has one user, or other
/// users that read only the beginning of a prompt's last page, written before.
class schedule {
 public:
  /// The pages of a sequence at its longest. Its last token is never fed.
  static std::int64_t pages_of(const request& r, const generation& settings) noexcept {
    return kv_pages(std::ssize(r.prompt) + settings.max_new_tokens - 1);
  }

  /// Begins anew. `responses` has one element per request; `pool` has enough free pages for any one request. At most
  /// `slots` sequences run together. All arguments must live until done().
  void start(std::span<const request> requests, std::span<response> responses, const generation& settings,
             std::int64_t slots, page_pool& pool) {
    requests_ = requests, responses_ = responses, settings_ = &settings, pool_ = &pool;
    next_ = finished_ = preemptions_ = passes_ = fed_ = 0;
    growing_ = following_ = 0;
    running_.clear(), waiting_.clear(), held_.clear();
    group_.clear(), members_running_.clear();
    std::int64_t most = 1;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (i == 0 || !settings.share_prompts || !same_prompt(requests[i], requests[i - 1]))
        members_running_.push_back(0);
      group_.push_back(static_cast<std::uint32_t>(members_running_.size() - 1));
      most = std::max(most, pages_of(requests[i], settings));
    }
    table_row_ = static_cast<std::size_t>(most);
    table_.resize(table_row_ * static_cast<std::size_t>(slots));
    sequence_.assign(static_cast<std::size_t>(slots), {});
    free_slots_.clear();
    for (std::int64_t s = slots; s-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(s));
  }

  bool done() const noexcept { return finished_ == requests_.size(); }
  std::size_t finished() const noexcept { return finished_; }
  std::size_t preemptions() const noexcept { return preemptions_; }
  std::size_t passes() const noexcept { return passes_; }
  std::size_t tokens_fed() const noexcept { return fed_; }

  void plan() {
    chunks_.clear(), chunk_slot_.clear(), before_.clear(), after_.clear(), draws_.clear();
    room_ = settings_->max_batched_tokens;
    for (std::size_t i = 0; i < running_.size(); ++i) feed(running_[i]);  // the vector may shrink at its end
    while (admit()) {
    }
    if (chunks_.empty()) throw std::logic_error("rlcore: rollout::schedule: nothing can be fed");
    share_read_prompts();
    ++passes_;
  }
  std::span<const nn::decode_chunk> chunks() const noexcept { return chunks_; }
  /// The number of the request that chunks()[chunk] belongs to.
  std::uint32_t request_of(std::size_t chunk) const {
    return sequence_[static_cast<std::size_t>(chunk_slot_[chunk])].request;
  }
  /// Has one of the requests [first, last) still to start or to feed tokens of its prompt? Those that gave their pages
  /// back do not count.
  bool reads_prompt(std::size_t first, std::size_t last) const {
    return last > next_ || std::ranges::any_of(running_, [&](std::int32_t slot) {
             const sequence& s = sequence_[static_cast<std::size_t>(slot)];
             return s.request >= first && s.request < last && s.fed < prompt_length(s);
           });
  }
  std::span<const page_copy> copies_before() const noexcept { return before_; }
  std::span<const page_copy> copies_after() const noexcept { return after_; }
  /// The draws of this pass, by turn, then by row.
  std::span<const scheduled_draw> draws() const noexcept { return draws_; }

  /// Appends the drawn tokens; ends the sequences that have drawn EOS or reached their length.
  void accept(std::span<const std::int32_t> tokens, std::span<const float> logp, std::span<const float> entropy) {
    const std::size_t before = finished_;
    for (std::size_t i = 0; i < draws_.size(); ++i) {
      response& text = responses_[draws_[i].request];
      text.tokens.push_back(tokens[i]);
      text.logp.push_back(logp[i]);
      text.entropy.push_back(entropy[i]);
      const bool ended = std::ranges::find(settings_->eos_ids, tokens[i]) != settings_->eos_ids.end();
      if (!ended && std::ssize(text.tokens) < settings_->max_new_tokens) continue;
      text.reason = ended ? finish::eos : finish::length;
      leave(draws_[i].slot);
      sequence_[static_cast<std::size_t>(draws_[i].slot)].pages = gone;
      ++finished_;
    }
    if (finished_ != before)
      std::erase_if(running_, [&](std::int32_t s) { return sequence_[static_cast<std::size_t>(s)].pages == gone; });
  }

 private:
  static constexpr std::int64_t page = kv_page;
  static constexpr std::int32_t gone = -1;

  struct sequence {
    std::uint32_t request = 0;
    std::int32_t first_page = 0;  // pages before it are still to come from the leader
    std::int32_t pages = 0, most_pages = 0;
    std::int64_t fed = 0;                        // tokens whose keys and values are in the cache, this pass included
    std::int32_t leader = -1;                    // the slot that feeds this one's prompt
    std::int32_t chunk = 0, row = 0, draws = 0;  // of this pass
    bool reads_prompt = false;                   // this pass feeds the prompt's last token
  };

  sequence& at(std::int32_t slot) { return sequence_[static_cast<std::size_t>(slot)]; }
  std::int32_t* pages_of_slot(std::int32_t slot) { return table_.data() + static_cast<std::size_t>(slot) * table_row_; }
  std::int64_t prompt_length(const sequence& s) const { return std::ssize(requests_[s.request].prompt); }

  /// Feeds as many of the sequence's tokens as this pass takes; false if it takes none.
  bool feed(std::int32_t slot) {
    sequence& s = at(slot);
    s.reads_prompt = false;
    if (s.leader >= 0 || room_ <= 0) return false;
    const std::span<const std::int32_t> prompt = requests_[s.request].prompt;
    const std::vector<std::int32_t>& tokens = responses_[s.request].tokens;
    const std::int64_t length = std::ssize(prompt);
    const bool in_prompt = s.fed < length;
    const std::int64_t left = (in_prompt ? length : length + std::ssize(tokens)) - s.fed;
    std::int64_t take = std::min(left, room_);
    if (take < left && !settings_->chunk_prompts) {
      if (!chunks_.empty()) return false;
      take = left;
    }
    while (s.pages < kv_pages(s.fed + take)) {
      const std::int32_t got = pool_->acquire();
      if (got >= 0) {
        add_page(slot, got);
      } else if (!make_room(slot)) {
        return false;
      }
    }
    const auto first = static_cast<std::size_t>(in_prompt ? s.fed : s.fed - length), n = static_cast<std::size_t>(take);
    chunks_.push_back({in_prompt ? prompt.subspan(first, n) : std::span(tokens).subspan(first, n), s.fed,
                       std::span(pages_of_slot(slot), static_cast<std::size_t>(s.pages)), !in_prompt && take == left});
    chunk_slot_.push_back(slot);
    s.fed += take;
    s.reads_prompt = in_prompt && take == left;
    room_ -= take;
    fed_ += n;
    return true;
  }

  void add_page(std::int32_t slot, std::int32_t got) {
    sequence& s = at(slot);
    pages_of_slot(slot)[s.pages++] = got;
    growing_ -= s.pages == s.most_pages;
  }

  /// Frees pages for the sequence in `slot`; false if it was the youngest and had to leave itself.
  bool make_room(std::int32_t slot) {
    if (!held_.empty()) {
      drop_held();
      return true;
    }
    const std::int32_t youngest = running_.back();
    if (running_.size() == 1)
      throw std::logic_error("rlcore: rollout::schedule: one sequence needs more than all pages");
    following_ -= at(youngest).leader >= 0;
    waiting_.push_back(at(youngest).request);
    leave(youngest);
    running_.pop_back();
    ++preemptions_;
    return youngest != slot;
  }

  void leave(std::int32_t slot) {
    sequence& s = at(slot);
    const std::int32_t* pages = pages_of_slot(slot);
    for (std::int32_t i = s.first_page; i < s.pages; ++i) pool_->release(pages[i]);
    growing_ -= s.pages < s.most_pages;
    --members_running_[group_[s.request]];
    free_slots_.push_back(slot);
  }

  void drop_held() {
    for (const std::int32_t p : held_) pool_->release(p);
    held_.clear();
  }

  /// Starts the next waiting sequence; false if there is none or it has to wait.
  bool admit() {
    if (free_slots_.empty() || (waiting_.empty() && next_ == requests_.size())) return false;
    const auto number = waiting_.empty() ? static_cast<std::uint32_t>(next_) : waiting_.back();
    const std::int64_t prompt = std::ssize(requests_[number].prompt), drawn = std::ssize(responses_[number].tokens);
    const prompt_source from = source_of(number);
    if (from.leader < 0 && room_ <= 0) return false;
    // Without a leader, a sequence that has drawn no token yet feeds the prompt's last token for its logits.
    const std::int64_t reused = from.leader >= 0 ? prompt : from.pages == nullptr ? 0 : prompt - (drawn == 0);
    const std::int64_t shared = reused / page, fresh = kv_pages(prompt + drawn) - shared;
    if (pool_->available() < fresh + growing_) {  // every running sequence that may still grow has a page in hand
      if (!running_.empty()) return false;
      if (held_.empty()) throw std::logic_error("rlcore: rollout::schedule: one sequence needs more than all pages");
      drop_held();
      return true;
    }

    const std::int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    running_.push_back(slot);
    sequence& s = at(slot);
    s = {.request = number, .pages = static_cast<std::int32_t>(shared), .fed = reused, .leader = from.leader};
    s.most_pages = static_cast<std::int32_t>(pages_of(requests_[number], *settings_));
    growing_ += s.pages < s.most_pages;
    ++members_running_[group_[number]];
    if (from.leader >= 0) {
      s.first_page = s.pages;
      ++following_;
    }
    for (std::int32_t i = s.first_page; i < s.pages; ++i) {
      pages_of_slot(slot)[i] = from.pages[i];
      pool_->share(from.pages[i]);
    }
    for (std::int64_t i = 0; i < fresh; ++i) add_page(slot, pool_->acquire());
    if (from.pages != nullptr && reused % page != 0)
      before_.push_back({pages_of_slot(slot)[shared], from.pages[shared]});
    if (waiting_.empty()) {
      response& text = responses_[number];
      const auto most = static_cast<std::size_t>(std::min<std::int64_t>(settings_->max_new_tokens, 1024));
      text.tokens.reserve(most), text.logp.reserve(most), text.entropy.reserve(most);
      ++next_;
      if (!is_next(held_group_)) drop_held();
    } else {
      waiting_.pop_back();
    }
    return from.leader >= 0 || feed(slot);
  }

  struct prompt_source {
    const std::int32_t* pages = nullptr;  ///< the prompt's, read in an earlier pass
    std::int32_t leader = -1;             ///< the slot that is about to read it
  };
  prompt_source source_of(std::uint32_t number) {
    const std::uint32_t group = group_[number];
    if (!held_.empty() && held_group_ == group) return {held_.data(), -1};
    if (members_running_[group] == 0) return {};
    const auto member = std::find_if(running_.rbegin(), running_.rend(),
                                     [&](std::int32_t slot) { return group_[at(slot).request] == group; });
    const sequence& m = at(*member);
    if (m.leader >= 0) return {nullptr, m.leader};
    if (m.reads_prompt || m.fed < prompt_length(m)) return {nullptr, *member};
    return {pages_of_slot(*member), -1};
  }
  bool is_next(std::uint32_t group) const { return next_ < requests_.size() && group_[next_] == group; }

  /// Gives followers the pages of the prompts that this pass reads, then sets the rows of logits and their draws.
  void share_read_prompts() {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      sequence& s = at(chunk_slot_[i]);
      s.chunk = static_cast<std::int32_t>(i);
      s.draws = 0;
      if (!s.reads_prompt) continue;
      chunks_[i].wants_logits = responses_[s.request].tokens.empty();
      const std::uint32_t group = group_[s.request];
      if (settings_->share_prompts && is_next(group) && (held_.empty() || held_group_ != group)) {
        drop_held();
        held_.assign(pages_of_slot(chunk_slot_[i]), pages_of_slot(chunk_slot_[i]) + kv_pages(prompt_length(s)));
        held_group_ = group;
        for (const std::int32_t p : held_) pool_->share(p);
      }
    }
    forked_.clear();
    for (std::size_t i = 0; following_ > 0 && i < running_.size(); ++i) {
      sequence& s = at(running_[i]);
      if (s.leader < 0 || !at(s.leader).reads_prompt) continue;
      const sequence& leader = at(s.leader);
      const std::int32_t *theirs = pages_of_slot(s.leader), shared = s.first_page;
      std::int32_t* mine = pages_of_slot(running_[i]);
      for (std::int32_t k = 0; k < shared; ++k) pool_->share(mine[k] = theirs[k]);
      if (prompt_length(s) % page != 0) after_.push_back({mine[shared], theirs[shared]});
      if (responses_[s.request].tokens.empty()) {
        chunks_[static_cast<std::size_t>(leader.chunk)].wants_logits = true;
        forked_.push_back({leader.chunk, running_[i]});
      }
      s.first_page = 0;
      s.leader = -1;
      --following_;
    }

    std::int32_t row = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      sequence& s = at(chunk_slot_[i]);
      const bool wanted = chunks_[i].wants_logits;
      s.row = wanted ? row++ : -1;
      if (wanted && (!s.reads_prompt || responses_[s.request].tokens.empty())) draw(chunk_slot_[i], s);
    }
    for (const auto& [chunk, slot] : forked_) draw(slot, at(chunk_slot_[static_cast<std::size_t>(chunk)]));
    if (!forked_.empty())
      std::ranges::sort(draws_, {}, [](const scheduled_draw& d) { return std::pair(d.turn, d.row); });
  }
  /// The sequence in `slot` draws from the row of `reader`, as the next in turn.
  void draw(std::int32_t slot, sequence& reader) {
    const std::uint32_t number = at(slot).request;
    draws_.push_back(
        {reader.row, reader.draws++, slot, number, static_cast<std::uint32_t>(responses_[number].tokens.size())});
  }

  std::span<const request> requests_;
  std::span<response> responses_;
  const generation* settings_ = nullptr;
  page_pool* pool_ = nullptr;
  std::size_t next_ = 0, finished_ = 0, preemptions_ = 0, passes_ = 0, fed_ = 0;
  std::int64_t room_ = 0;                      // tokens that the pass still takes
  std::int32_t growing_ = 0, following_ = 0;   // running sequences that may need more pages; that have a leader
  std::vector<std::uint32_t> group_;           // of each request: number of its run of equal prompts
  std::vector<std::int32_t> members_running_;  // of each group
  std::vector<sequence> sequence_;             // by slot
  std::vector<std::int32_t> table_, free_slots_, running_;  // running: slots, oldest first
  std::size_t table_row_ = 0;
  std::vector<std::uint32_t> waiting_;  // requests that were sent back, the next one last
  std::vector<std::int32_t> held_;      // a prompt's pages, kept for samples of held_group_ that could not start yet
  std::uint32_t held_group_ = 0;
  std::vector<nn::decode_chunk> chunks_;
  std::vector<std::int32_t> chunk_slot_;  // whose they are
  std::vector<page_copy> before_, after_;
  std::vector<scheduled_draw> draws_;
  std::vector<std::pair<std::int32_t, std::int32_t>> forked_;
};

}  // namespace rollout
RLCORE_END
