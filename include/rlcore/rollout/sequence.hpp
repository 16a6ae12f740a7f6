// A sequence of a session, with its scheduling state.
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

/// The tokens of a job and its progress.
struct sequence {
  ticket number = 0;  ///< later ones are larger
  job asked;          ///< without its prompt, which is in the tokens
  std::vector<std::int32_t> tokens;
  std::int64_t prompt_length = 0;
  std::int64_t turn = 0, longest = 0;          ///< tokens at the start of this turn; maximum at its end
  std::uint64_t group = 0;                     ///< equal for adjacent sequences with the same prompt
  std::shared_ptr<picture_prompt> shown = {};  ///< null for a text-only prompt
  finish reason = finish::length;              ///< of the last turn
  bool cancelled = false;
  token_history history = {};  ///< of the turn, if the rules need it

  /// State owned by schedule.
  struct scheduled {
    /// open: between two turns, or finished.
    enum class state { open, waiting, running };
    state where = state::open;
    std::int32_t slot = 0;
    std::int32_t first_page = 0;  ///< the leader still has to fill the pages before it
    std::int32_t pages = 0, most_pages = 0;
    std::int64_t fed = 0;                        ///< tokens in the KV cache, including this pass
    sequence* leader = nullptr;                  ///< the sequence that prefills the prompt
    std::int32_t chunk = 0, row = 0, draws = 0;  ///< of this pass
    bool reads_prompt = false;                   ///< this pass feeds the prompt's last token
    bool counted = false;                        ///< as a reader of the prompt's images
    std::int64_t remembered = 0;                 ///< pages known to the prefix cache,
    std::uint64_t last_page = 0;                 ///< and the number of the last one's content
    std::int64_t scored = 0;                     ///< prompt tokens whose next token is scored
  } plan;

  /// The rules of its next logits row.
  ruled_row rules() const noexcept {
    return {asked.rules.get(), &history, std::span(tokens).subspan(static_cast<std::size_t>(turn))};
  }
  /// Appends a drawn token.
  void append(std::int32_t token) {
    tokens.push_back(token);
    if (asked.rules && asked.rules->penalises()) history.add(token);
  }
  /// Number of tokens after the prompt.
  std::int64_t response_length() const noexcept { return std::ssize(tokens) - prompt_length; }
  /// Starts a turn of up to `max_new_tokens` tokens.
  void begin_turn(std::int64_t max_new_tokens) {
    turn = std::ssize(tokens);
    longest = turn + max_new_tokens;
    if (asked.rules && asked.rules->penalises()) history.start(tokens);
  }
  /// Is it decoding, with only the last drawn token to feed? Only such a sequence may need another page.
  bool draws_next() const noexcept {
    return response_length() > 0 && plan.fed >= prompt_length && plan.fed + 1 == std::ssize(tokens);
  }
  /// Are requested prompt log-probs still missing?
  bool unscored() const noexcept { return asked.prompt_logprobs && plan.scored + 1 < prompt_length; }
  /// Registers as a reader of the prompt's images.
  void will_read() {
    if (!std::exchange(plan.counted, true) && shown) ++shown->readers;
  }
  /// Unregisters as a reader of the prompt's images.
  void has_read() {
    if (std::exchange(plan.counted, false) && shown) --shown->readers;
  }
  /// Its sampling and log-prob settings.
  std::tuple<float, std::int64_t, float, float, float, bool> reading() const noexcept {
    const rollout::sampling& s = asked.sampling;
    return {s.temperature, s.top_k, s.top_p, s.min_p, asked.logprob_temperature.value_or(0), asked.processed_logprobs};
  }
  /// Given the same prompt: may the later sequence follow the earlier one?
  bool shares_with(const sequence& other) const noexcept {
    return asked.salt == other.asked.salt && asked.priority == other.asked.priority && !asked.prompt_logprobs &&
           !other.asked.prompt_logprobs;
  }
  /// Does it start before `other`?
  bool before(const sequence& other) const noexcept {
    return asked.priority != other.asked.priority ? asked.priority < other.asked.priority : number < other.number;
  }
};

/// A heap ordered by (priority, arrival). A preempted sequence keeps its arrival position.
class waiting_list {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  /// The sequence that starts next.
  sequence& next() const { return *heap_.front(); }

  /// Adds a sequence; it must live until it is taken or removed.
  void add(sequence& s) {
    heap_.push_back(&s);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  /// Removes next().
  void take() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  /// Removes a sequence at any position.
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
