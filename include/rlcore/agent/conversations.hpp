// The agent loop: reads a turn of the policy, runs the tools that it calls or asks the environment, and appends the
// answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/agent/answer_pool.hpp"
#include "rlcore/agent/dialogue.hpp"
#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace agent {

/// Runs the conversations of calls of engine::generate(), as verl's tool_agent_loop does:
///
///   append the turn; stop if the response has its full length, or a limit of turns is reached;
///   calls: run the first max_parallel_calls of them at once; otherwise ask the simulated user, or stop without one;
///   append what they say; stop before that if it does not fit.
///
/// With an agent it is the loop of OpenRLHF's MultiTurnAgentExecutor: the agent answers every turn, the last one too.
/// Answers are awaited in threads of their own while other responses are drawn. An answer depends on (row, sample,
/// turn) and its source alone, so the tokens do not depend on threads or latencies. With a `group` of ranks that draw
/// the same responses together, its first rank asks, and all wait until everything is answered.
///
/// A response that has paused is resumed by another object, in any process: a tool has no state, and an environment is
/// asked about the earlier turns again.
class conversations final : public rollout::turn_source {
 public:
  /// All references must outlive this object. `replies` may be null where every row has an agent. `of_row` says what a
  /// row brings.
  conversations(const text::tokenizer& tokenizer, const reply_tokens* replies, const conversation_settings& settings,
                std::function<row_setup(std::uint32_t)> of_row, parallel::any_communicator* group = nullptr);
  ~conversations() override;
  conversations(const conversations&) = delete;
  conversations& operator=(const conversations&) = delete;

  /// Before prepare(): the responses of its requests, one for each; those with request::written have paused.
  void resume(std::vector<paused_conversation> paused) { paused_ = std::move(paused); }
  /// Opens the environments. A prompt that an agent changes, and that is too long, loses its beginning; a resumed one
  /// is that of its paused_conversation. Throws what the environments throw, and data_error if one that is asked again
  /// answers something else.
  void prepare(std::span<rollout::request> requests) override;
  void begin(std::span<const rollout::request> requests) override;
  void end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) override;
  /// Throws what a tool threw if failures do not become text, and what an environment threw.
  std::optional<continuation> next(bool wait) override;

  /// What happened in the responses of all calls of generate(), in the order of their requests.
  std::span<const conversation_record> records() const noexcept { return records_; }
  /// The environment's reward for each turn of response `i` of these, in order; none where it gave none.
  std::span<const double> turn_rewards(std::size_t i) const noexcept { return kept_[i].turn_rewards; }
  /// An agent's last turn_reply::logs as JSON; empty: none.
  const std::string& logs(std::size_t i) const noexcept { return kept_[i].logs; }
  /// JSON of what was replied to each turn that has ended, a text of the environment or a list of texts of tools; empty
  /// without an environment.
  std::string replies(std::size_t i) const {
    return talks_[i].row.environment == nullptr ? "" : text::json_text(kept_[i].replies);
  }
  /// The first failure of an agent that counted 0; empty: none.
  const std::string& failure() const noexcept { return failure_; }

 private:
  /// Of one response, beside its record.
  struct kept_response {
    std::vector<double> turn_rewards;
    std::string logs;
    nlohmann::ordered_json replies = nlohmann::ordered_json::array();
  };
  static constexpr std::int32_t failed = -1;  ///< instead of a number of tokens

  /// Adds talks for more requests.
  void add(std::span<const rollout::request> requests);
  /// Opens the environments and asks for their prompts: request, number of tokens or `failed`, tokens; and so on.
  std::vector<std::int32_t> open_environments(std::span<const rollout::request> requests);
  dialogue& talk_of(std::size_t request) { return talks_[first_ + request]; }
  /// Has this request paused before?
  bool is_resumed(std::size_t i, const rollout::request& r) const { return i < paused_.size() && !r.written.empty(); }
  bool goes_on(const conversation_record& r, std::int64_t response_length) const;
  /// The tokens of an answer.
  std::vector<std::int32_t> context_of(const open_turn& t);
  continuation finish(open_turn& t);
  /// Adds the reward of the last turn of response `i`.
  void note_reward(std::size_t i);
  void answer_group();
  void note_failure(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }
  bool asks() const { return group_ == nullptr || group_->rank() == 0; }
  /// The first rank's values on all ranks of the group.
  template <class T>
  void share(std::vector<T>& values);

  static inline std::atomic<std::uint64_t> last_number_{0};  ///< of the process's conversations
  const text::tokenizer& tokenizer_;
  const reply_tokens* replies_;
  conversation_settings settings_;
  std::function<row_setup(std::uint32_t)> of_row_;
  parallel::any_communicator* group_;
  std::vector<rollout::request> requests_;
  std::vector<paused_conversation> paused_;  ///< of the prepared requests, if some are resumed
  std::vector<conversation_record> records_;
  std::vector<kept_response> kept_;  ///< of each record
  std::string failure_;
  std::deque<dialogue> talks_;                     ///< of the prepared requests, then of all
  std::deque<std::vector<std::int32_t>> prompts_;  ///< that agents have changed
  std::size_t first_ = 0, open_ = 0;               ///< record of the first request; turns without their answers
  std::deque<continuation> complete_;
  std::deque<open_turn> turns_;      ///< addresses stay valid
  std::optional<answer_pool> pool_;  ///< last: its threads use the others
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <chrono>
#include <utility>

#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE conversations::conversations(const text::tokenizer& tokenizer, const reply_tokens* replies,
                                           const conversation_settings& settings,
                                           std::function<row_setup(std::uint32_t)> of_row,
                                           parallel::any_communicator* group)
    : tokenizer_(tokenizer),
      replies_(replies),
      settings_(settings),
      of_row_(std::move(of_row)),
      group_(group != nullptr && group->size() > 1 ? group : nullptr) {
  require(settings_.max_parallel_calls > 0, "conversations: max_parallel_calls must be positive");
  if (asks()) pool_.emplace(settings_);
}

RLCORE_INLINE conversations::~conversations() {
  pool_.reset();
  for (dialogue& t : talks_) t.close();
}

RLCORE_INLINE void conversations::add(std::span<const rollout::request> requests) {
  for (const rollout::request& r : requests)
    talks_.emplace_back(of_row_(r.prompt_number), r, ++last_number_, tokenizer_);
}

RLCORE_INLINE std::vector<std::int32_t> conversations::open_environments(std::span<const rollout::request> requests) {
  std::vector<std::optional<std::vector<std::int32_t>>> prompts(requests.size());
  run_all(requests.size(), settings_.workers, [&](std::size_t i) {
    dialogue& t = talks_[i];
    if (t.row.environment == nullptr) return;
    const bool resumed = is_resumed(i, requests[i]);
    if (resumed && t.row.has_agent() && paused_[i].record.failures > 0) {
      t.failure = "row " + std::to_string(t.asked.row) + ": the agent failed before the response paused";
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    prompts[i] = t.open_environment(tokenizer_, settings_);
    if (!resumed || !t.open) return;
    t.replay(paused_[i], requests[i].written, tokenizer_, settings_);
    paused_[i].record.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  std::vector<std::int32_t> changed;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i]) {
      changed.push_back(static_cast<std::int32_t>(i)), changed.push_back(static_cast<std::int32_t>(prompts[i]->size()));
      changed.insert(changed.end(), prompts[i]->begin(), prompts[i]->end());
    }
    if (!talks_[i].failure.empty()) changed.push_back(static_cast<std::int32_t>(i)), changed.push_back(failed);
  }
  return changed;
}

RLCORE_INLINE void conversations::prepare(std::span<rollout::request> requests) {
  require(talks_.empty() && (paused_.empty() || paused_.size() == requests.size()),
          "conversations: prepare() is called once, with a request for each resumed response");
  add(requests);
  if (std::ranges::none_of(talks_, [](const dialogue& t) { return t.row.environment != nullptr; })) return;
  std::vector<std::int32_t> changed;
  if (asks()) changed = open_environments(requests);
  if (group_ != nullptr) share(changed);
  for (std::size_t at = 0; at < changed.size();) {
    const auto i = static_cast<std::size_t>(changed[at]);
    if (changed[at + 1] == failed) {
      talks_[i].failed = true;
      at += 2;
      continue;
    }
    const auto count = static_cast<std::size_t>(changed[at + 1]);
    const auto ids = std::span(changed).subspan(at + 2, count);
    requests[i].prompt = prompts_.emplace_back(ids.begin(), ids.end());
    at += 2 + count;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!is_resumed(i, requests[i])) continue;
    const std::span<const std::int32_t> now = std::exchange(requests[i].prompt, paused_[i].prompt);
    if (!talks_[i].failed && !std::ranges::equal(now, paused_[i].prompt))
      throw data_error("row " + std::to_string(talks_[i].asked.row) +
                       ": the agent gives another prompt when it is asked again, so its conversations cannot pause "
                       "(async_training.partial_rollout=False awaits them)");
  }
}

RLCORE_INLINE void conversations::begin(std::span<const rollout::request> requests) {
  require(open_ == 0, "conversations: turns of a call of generate() that threw are still open");
  requests_.assign(requests.begin(), requests.end());
  turns_.clear();
  first_ = records_.size();
  records_.resize(first_ + requests.size());
  kept_.resize(records_.size());
  if (talks_.size() < records_.size()) add(requests.subspan(talks_.size() - first_));
  for (std::size_t i = first_; i < records_.size(); ++i) {
    if (is_resumed(i, requests[i - first_])) {
      const paused_conversation& p = paused_[i];
      records_[i] = p.record;
      kept_[i].turn_rewards = p.turn_rewards, kept_[i].logs = p.logs;
      if (!p.replies.empty())
        kept_[i].replies = text::parse_json<data_error, nlohmann::ordered_json>(p.replies, "replies of a conversation");
    }
    if (talks_[i].failed) records_[i].failures = std::max(records_[i].failures, 1);
  }
}

RLCORE_INLINE bool conversations::goes_on(const conversation_record& r, std::int64_t response_length) const {
  const auto below = [](std::int32_t turns, std::int64_t most) { return most <= 0 || turns < most; };
  return response_length < settings_.max_response_length && below(r.assistant_turns, settings_.max_assistant_turns) &&
         below(r.user_turns, settings_.max_user_turns);
}

RLCORE_INLINE void conversations::end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) {
  conversation_record& record = records_[first_ + request];
  dialogue& by = talk_of(request);
  const rollout::request& continued = requests_[request];
  const std::int64_t length = std::ssize(continued.written) + std::ssize(so_far.tokens);
  by.asked.number = static_cast<std::uint32_t>(record.assistant_turns++);
  const bool on = goes_on(record, length);
  std::vector<std::int32_t> drawn;
  if (turn == 0)
    drawn.assign(continued.written.begin() + static_cast<std::ptrdiff_t>(continued.turn), continued.written.end());
  drawn.insert(drawn.end(), so_far.tokens.begin() + static_cast<std::ptrdiff_t>(turn), so_far.tokens.end());
  if (by.failed) {
    if (asks()) note_failure(by.failure);
    record.turn_reward = -record.reward;
    record.reward = record.score = 0;
    note_reward(first_ + request);
    return complete_.push_back({request, {}});
  }
  parsed_turn said;
  if (on && !by.row.has_agent() && !by.row.tools.empty()) said = parse_hermes(tokenizer_.decode(drawn));
  record.unread += static_cast<std::int32_t>(said.failures);
  if (!by.row.has_agent() && (!on || (said.calls.empty() && !by.row.has_user()))) {
    by.close();
    return complete_.push_back({request, {}});
  }
  by.say(drawn, so_far.reason == rollout::finish::eos, tokenizer_);
  open_turn& open = turns_.emplace_back();
  ++open_;
  open.request = request, open.length = length, open.last_token = drawn.back();
  open.goes_on = on, open.asked = by.row.environment, open.said = &by.asked;
  said.calls.resize(std::min(said.calls.size(), static_cast<std::size_t>(settings_.max_parallel_calls)));
  by.call_tools(std::move(said.calls), open, record);
  if (asks()) pool_->push(open);
}

RLCORE_INLINE std::vector<std::int32_t> conversations::context_of(const open_turn& t) {
  dialogue& by = talk_of(t.request);
  if (by.row.environment != nullptr) {
    const nlohmann::ordered_json reply =
        t.answer ? nlohmann::ordered_json(t.answer->text) : nlohmann::ordered_json(t.texts);
    by.hear(reply);
    kept_[first_ + t.request].replies.push_back(reply);
  }
  if (!t.answer) return replies_->of_tools(t.texts, t.last_token);
  return by.row.has_agent() ? tokenizer_.encode(t.answer->text, true) : replies_->of_user(t.answer->text, t.last_token);
}

/// The last token of a response is always the policy's: what would stand behind it is left out.
RLCORE_INLINE rollout::turn_source::continuation conversations::finish(open_turn& t) {
  if (t.broken) std::rethrow_exception(t.broken);
  note_failure(t.failure);
  dialogue& by = talk_of(t.request);
  conversation_record& record = records_[first_ + t.request];
  record.failures += static_cast<std::int32_t>(t.failures);
  record.seconds += t.seconds;
  if (t.answer) {
    record.turn_reward = t.failures > 0 ? -record.reward : t.reward;
    record.reward += record.turn_reward;
    record.score = t.answer->score.value_or(record.reward);
    if (!t.answer->logs.empty())
      kept_[first_ + t.request].logs = text::json_text(nlohmann::ordered_json(t.answer->logs));
  } else {
    record.turn_reward = 0;
    record.tool_reward += t.reward;
  }
  note_reward(first_ + t.request);
  continuation next{t.request, {}};
  if (t.goes_on && !(t.answer && t.answer->done)) next.context = context_of(t);
  if (t.length + std::ssize(next.context) >= settings_.max_response_length) next.context.clear();
  const bool user_spoke = t.answer && by.row.has_user();
  record.user_turns += user_spoke || !next.context.empty();  // verl counts the user's last words, too
  if (next.context.empty()) by.close();
  t.calls.clear(), t.texts.clear(), t.answer.reset();
  --open_;
  return next;
}

RLCORE_INLINE void conversations::note_reward(std::size_t i) {
  std::vector<double>& rewards = kept_[i].turn_rewards;
  if (talks_[i].row.environment == nullptr) return;
  rewards.resize(static_cast<std::size_t>(records_[i].assistant_turns));
  rewards.back() = records_[i].turn_reward;
}

RLCORE_INLINE auto conversations::next(bool wait) -> std::optional<continuation> {
  if (complete_.empty()) {
    if (group_ == nullptr) {
      open_turn* const answered = pool_->next(wait && open_ > 0);
      if (answered == nullptr) return {};
      return finish(*answered);
    }
    if (wait && open_ > 0) answer_group();
  }
  if (complete_.empty()) return {};
  continuation next = std::move(complete_.front());
  complete_.pop_front();
  return next;
}

template <class T>
void conversations::share(std::vector<T>& values) {
  std::int64_t size = std::ssize(values);
  group_->broadcast(std::span(&size, 1), 0);
  values.resize(static_cast<std::size_t>(size));
  group_->broadcast(std::as_writable_bytes(std::span(values)), 0);
}

/// The first rank sends the continuations and records of all open turns to the others.
RLCORE_INLINE void conversations::answer_group() {
  std::vector<std::int32_t> turns;  // request, number of tokens, tokens; and so on
  std::vector<conversation_record> records;
  std::vector<char> lines;  // for each the logs, the last reply, or null
  if (asks()) {
    std::vector<open_turn*> all = pool_->next_all(open_);
    std::ranges::sort(all, {}, &open_turn::request);
    for (open_turn* t : all) {
      const continuation next = finish(*t);
      turns.push_back(static_cast<std::int32_t>(next.request));
      turns.push_back(static_cast<std::int32_t>(next.context.size()));
      turns.insert(turns.end(), next.context.begin(), next.context.end());
      const std::size_t i = first_ + next.request;
      records.push_back(records_[i]);
      const kept_response& kept = kept_[i];
      auto told = nlohmann::ordered_json::array({kept.logs, nullptr});
      if (!next.context.empty() && !kept.replies.empty()) told[1] = kept.replies.back();
      const std::string line = text::json_text(told);
      lines.insert(lines.end(), line.begin(), line.end());
      lines.push_back('\n');
    }
  }
  share(turns), share(records), share(lines);
  auto line = lines.begin();
  for (std::size_t at = 0, i = 0; at < turns.size(); ++i) {
    const auto request = static_cast<std::size_t>(turns[at]), count = static_cast<std::size_t>(turns[at + 1]);
    const auto from = turns.begin() + static_cast<std::ptrdiff_t>(at + 2);
    complete_.push_back({request, {from, from + static_cast<std::ptrdiff_t>(count)}});
    records_[first_ + request] = records[i];
    const auto end = std::find(line, lines.end(), '\n');
    if (!asks()) {
      auto told = text::try_parse_json<nlohmann::ordered_json>(std::string_view(line, end));
      kept_[first_ + request].logs = told[0].get<std::string>();
      if (!told[1].is_null()) kept_[first_ + request].replies.push_back(std::move(told[1]));
    }
    line = end + 1;
    note_reward(first_ + request);
    at += 2 + count;
  }
  open_ = 0;
}

}  // namespace agent
RLCORE_END
#endif
