// A sequence of a session.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "rlcore/rollout/job.hpp"
#include "rlcore/rollout/picture_prompt.hpp"
#include "rlcore/rollout/ruled_logits.hpp"
#include "rlcore/rollout/token_history.hpp"

RLCORE_BEGIN
namespace rollout {

/// The tokens of a job, and where it stands.
struct sequence {
  ticket number = 0;  ///< later ones are larger
  job asked;          ///< but its prompt, which begins the tokens
  std::vector<std::int32_t> tokens;
  std::int64_t prompt_length = 0;
  std::int64_t turn = 0, longest = 0;          ///< tokens at the begin of this turn, and at its end at most
  std::uint64_t group = 0;                     ///< neighbours with the same prompt have the same
  std::shared_ptr<picture_prompt> shown = {};  ///< unless the prompt is of words alone
  finish reason = finish::length;              ///< of the last turn
  bool cancelled = false;
  token_history history = {};  ///< of the turn, if the rules look at it

  /// What schedule keeps about it.
  struct scheduled {
    /// open: between two turns, or ended.
    enum class state { open, waiting, running };
    state where = state::open;
    std::int32_t slot = 0;
    std::int32_t first_page = 0;  ///< pages before it are still to come from the leader
    std::int32_t pages = 0, most_pages = 0;
    std::int64_t fed = 0;                        ///< tokens whose keys and values are in the cache, this pass included
    sequence* leader = nullptr;                  ///< the one that feeds this one's prompt
    std::int32_t chunk = 0, row = 0, draws = 0;  ///< of this pass
    bool reads_prompt = false;                   ///< this pass feeds the prompt's last token
    bool counted = false;                        ///< as a reader of the prompt's pictures
    std::int64_t remembered = 0;                 ///< pages that the prefix cache has been told about,
    std::uint64_t last_page = 0;                 ///< and the number of the last one's content
    std::int64_t scored = 0;                     ///< tokens of the prompt whose successor has a log-prob
  } plan;

  /// What its next row of logits is under.
  ruled_row rules() const noexcept {
    return {asked.rules.get(), &history, std::span(tokens).subspan(static_cast<std::size_t>(turn))};
  }
  /// Appends a drawn token.
  void append(std::int32_t token) {
    tokens.push_back(token);
    if (asked.rules && asked.rules->penalises()) history.add(token);
  }
  /// Tokens behind the prompt.
  std::int64_t response_length() const noexcept { return std::ssize(tokens) - prompt_length; }
  /// Draws up to `max_new_tokens` tokens from now on.
  void begin_turn(std::int64_t max_new_tokens) {
    turn = std::ssize(tokens);
    longest = turn + max_new_tokens;
    if (asked.rules && asked.rules->penalises()) history.start(tokens);
  }
  /// Has it fed all but the token that it drew last? Only such a one may need a page more.
  bool draws_next() const noexcept {
    return response_length() > 0 && plan.fed >= prompt_length && plan.fed + 1 == std::ssize(tokens);
  }
  /// Are log-probs of the prompt wanted that no pass has given yet?
  bool unscored() const noexcept { return asked.prompt_logprobs && plan.scored + 1 < prompt_length; }
  /// It has still to feed tokens of its prompt.
  void will_read() {
    if (!std::exchange(plan.counted, true) && shown) ++shown->readers;
  }
  /// It has not.
  void has_read() {
    if (std::exchange(plan.counted, false) && shown) --shown->readers;
  }
  /// What its logits are read with.
  std::tuple<float, std::int64_t, float, float, float, bool> reading() const noexcept {
    const rollout::sampling& s = asked.sampling;
    return {s.temperature, s.top_k, s.top_p, s.min_p, asked.logprob_temperature.value_or(0), asked.processed_logprobs};
  }
  /// Of two with the same prompt: may the later one follow the other?
  bool shares_with(const sequence& other) const noexcept {
    return asked.salt == other.asked.salt && asked.priority == other.asked.priority && !asked.prompt_logprobs &&
           !other.asked.prompt_logprobs;
  }
  /// Does it start before the other one?
  bool before(const sequence& other) const noexcept {
    return asked.priority != other.asked.priority ? asked.priority < other.asked.priority : number < other.number;
  }
};

/// A heap by (priority, arrival). A sequence that gave its pages back takes the place of its arrival again.
class waiting_list {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  /// The one that starts next.
  sequence& next() const { return *heap_.front(); }

  /// Adds a sequence that has to live until it is taken or removed.
  void add(sequence& s) {
    heap_.push_back(&s);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  /// Takes next() off the list.
  void take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  /// Takes a sequence off the list, wherever it stands.
  void remove(const sequence& s) {
    std::erase(heap_, &s);
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  void clear() { heap_.clear(); }

 private:
  static bool later(const sequence* a, const sequence* b) { return b->before(*a); }

  std::vector<sequence*> heap_;
};

}  // namespace rollout

RLCORE_END
