// The agent loop: reads a turn of the policy, runs the tools that it calls or asks the environment, and appends the
// answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/agent/answer_pool.hpp"
#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/rollout/request.hpp"
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
class conversations final : public rollout::turn_source {
 public:
  /// All references must outlive this object. `replies` may be null where every row has an agent. `of_row` says what a
  /// row brings.
  conversations(const text::tokenizer& tokenizer, const reply_tokens* replies, const conversation_settings& settings,
                std::function<row_setup(std::uint32_t)> of_row, parallel::any_communicator* group = nullptr);
  ~conversations() override;
  conversations(const conversations&) = delete;
  conversations& operator=(const conversations&) = delete;

  /// Opens the environments. A prompt that an agent changes, and that is too long, loses its beginning. Throws what the
  /// environments throw.
  void prepare(std::span<rollout::request> requests) override;
  void begin(std::span<const rollout::request> requests) override;
  void end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) override;
  /// Throws what a tool threw if failures do not become text, and what an environment threw.
  std::optional<continuation> next(bool wait) override;

  /// What happened in the responses of all calls of generate(), in the order of their requests.
  std::span<const conversation_record> records() const noexcept { return records_; }
  /// The environment's reward for each turn of response `i` of these, in order; none where it gave none.
  std::span<const double> turn_rewards(std::size_t i) const noexcept { return turn_rewards_[i]; }
  /// An agent's last turn_reply::logs as JSON; empty: none.
  const std::string& logs(std::size_t i) const noexcept { return logs_[i]; }
  /// The first failure of an agent that counted 0; empty: none.
  const std::string& failure() const noexcept { return failure_; }

 private:
  struct talk {
    row_setup row;
    turn_request asked;   ///< the next question to the environment
    bool open = false;    ///< the environment knows of it
    bool failed = false;  ///< it could not be opened, and its response has reward 0
    std::string failure;  ///< why
  };
  static constexpr std::int32_t failed = -1;  ///< instead of a number of tokens

  /// Adds talks for more requests.
  void add(std::span<const rollout::request> requests);
  /// Asks for the prompts of the talks from `first` on: request, number of tokens or `failed`, tokens; and so on.
  std::vector<std::int32_t> open_environments(std::size_t first);
  talk& talk_of(std::size_t request) { return talks_[first_ + request]; }
  static void close(talk& t);
  bool goes_on(const conversation_record& r, std::int64_t response_length) const;
  /// Writes calls into a turn.
  void call_tools(open_turn& turn, parsed_turn said, talk& by, conversation_record& record);
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
  std::vector<conversation_record> records_;
  std::vector<std::vector<double>> turn_rewards_;  ///< of each record
  std::vector<std::string> logs_;
  std::string failure_;
  std::deque<talk> talks_;                         ///< of the prepared requests, then of all
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
  for (talk& t : talks_) close(t);
}

RLCORE_INLINE void conversations::add(std::span<const rollout::request> requests) {
  for (const rollout::request& r : requests) {
    talk& t = talks_.emplace_back();
    t.row = of_row_(r.prompt_number);
    if (t.row.environment == nullptr) continue;
    t.asked.conversation = ++last_number_;
    t.asked.row = r.prompt_number, t.asked.sample = r.sample;
    t.asked.label = t.row.label, t.asked.kwargs = t.row.environment_kwargs;
    if (t.row.has_agent()) t.asked.observation = tokenizer_.decode(r.prompt);
    if (t.row.has_user() && t.row.messages != nullptr)
      for (const text::message& m : *t.row.messages)
        t.asked.messages.push_back({{"role", m.role}, {"content", m.content}});
  }
}

RLCORE_INLINE std::vector<std::int32_t> conversations::open_environments(std::size_t first) {
  std::vector<std::optional<std::string>> prompts(talks_.size() - first);
  run_all(prompts.size(), settings_.workers, [&](std::size_t i) {
    talk& t = talks_[first + i];
    if (t.row.environment == nullptr) return;
    try {
      prompts[i] = t.row.environment->open(t.asked);
      t.open = true;
    } catch (const tool_error& e) {
      t.failure = "row " + std::to_string(t.asked.row) + ": " + e.what();
      if (!settings_.zero_on_failure || !t.row.has_agent()) throw data_error(t.failure);
    }
  });
  std::vector<std::int32_t> changed;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    turn_request& asked = talks_[first + i].asked;
    if (!talks_[first + i].failure.empty()) changed.push_back(static_cast<std::int32_t>(i)), changed.push_back(failed);
    if (!prompts[i] || *prompts[i] == asked.observation) continue;
    asked.observation = clean_tool_text(*prompts[i]);
    std::vector<std::int32_t> ids = tokenizer_.encode(asked.observation, true);
    if (ids.empty()) throw data_error("row " + std::to_string(asked.row) + ": the agent has made the prompt empty");
    if (settings_.max_prompt_length > 0 && std::ssize(ids) > settings_.max_prompt_length) {
      ids.erase(ids.begin(), ids.end() - settings_.max_prompt_length);
      asked.observation = tokenizer_.decode(ids);
    }
    changed.push_back(static_cast<std::int32_t>(i)), changed.push_back(static_cast<std::int32_t>(ids.size()));
    changed.insert(changed.end(), ids.begin(), ids.end());
  }
  return changed;
}

RLCORE_INLINE void conversations::prepare(std::span<rollout::request> requests) {
  const std::size_t first = talks_.size();
  add(requests);
  if (std::none_of(talks_.begin() + static_cast<std::ptrdiff_t>(first), talks_.end(),
                   [](const talk& t) { return t.row.environment != nullptr; }))
    return;
  std::vector<std::int32_t> changed;
  if (asks()) changed = open_environments(first);
  if (group_ != nullptr) share(changed);
  for (std::size_t at = 0; at < changed.size();) {
    if (changed[at + 1] == failed) {
      talks_[first + static_cast<std::size_t>(changed[at])].failed = true;
      at += 2;
      continue;
    }
    const auto count = static_cast<std::size_t>(changed[at + 1]);
    const auto ids = std::span(changed).subspan(at + 2, count);
    requests[static_cast<std::size_t>(changed[at])].prompt = prompts_.emplace_back(ids.begin(), ids.end());
    at += 2 + count;
  }
}

RLCORE_INLINE void conversations::begin(std::span<const rollout::request> requests) {
  require(open_ == 0, "conversations: turns of a call of generate() that threw are still open");
  requests_.assign(requests.begin(), requests.end());
  turns_.clear();
  first_ = records_.size();
  records_.resize(first_ + requests.size());
  turn_rewards_.resize(records_.size());
  logs_.resize(records_.size());
  if (talks_.size() < records_.size()) add(requests.subspan(talks_.size() - first_));
}

RLCORE_INLINE void conversations::close(talk& t) {
  if (std::exchange(t.open, false)) t.row.environment->close(t.asked);
}

RLCORE_INLINE bool conversations::goes_on(const conversation_record& r, std::int64_t response_length) const {
  const auto below = [](std::int32_t turns, std::int64_t most) { return most <= 0 || turns < most; };
  return response_length < settings_.max_response_length && below(r.assistant_turns, settings_.max_assistant_turns) &&
         below(r.user_turns, settings_.max_user_turns);
}

RLCORE_INLINE void conversations::end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) {
  conversation_record& record = records_[first_ + request];
  talk& by = talk_of(request);
  const std::int32_t number = record.assistant_turns++;
  const bool on = goes_on(record, std::ssize(so_far.tokens));
  const auto drawn = std::span(so_far.tokens).subspan(turn);
  if (by.failed) {
    if (asks()) note_failure(by.failure);
    ++record.failures;
    note_reward(first_ + request);
    return complete_.push_back({request, {}});
  }
  parsed_turn said;
  if (on && !by.row.has_agent() && !by.row.tools.empty()) said = parse_hermes(tokenizer_.decode(drawn));
  record.unread += static_cast<std::int32_t>(said.failures);
  if (!by.row.has_agent() && (!on || (said.calls.empty() && !by.row.has_user()))) {
    close(by);
    return complete_.push_back({request, {}});
  }
  if (by.row.has_agent())
    by.asked.action = tokenizer_.decode(drawn.first(drawn.size() - (so_far.reason == rollout::finish::eos)));
  if (by.row.has_user())
    by.asked.messages.push_back({{"role", "assistant"}, {"content", tokenizer_.decode(drawn, true)}});
  by.asked.number = static_cast<std::uint32_t>(number);
  open_turn& open = turns_.emplace_back();
  ++open_;
  open.request = request, open.length = std::ssize(so_far.tokens), open.last_token = so_far.tokens.back();
  open.goes_on = on, open.asked = by.row.environment, open.said = &by.asked;
  call_tools(open, std::move(said), by, record);
  if (asks()) pool_->push(open);
}

RLCORE_INLINE void conversations::call_tools(open_turn& turn, parsed_turn said, talk& by, conversation_record& record) {
  const row_setup& known = by.row;
  const std::size_t calls = std::min(said.calls.size(), static_cast<std::size_t>(settings_.max_parallel_calls));
  turn.texts.resize(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    tool_request call{std::move(said.calls[i].name), std::move(said.calls[i].arguments)};
    call.row = requests_[turn.request].prompt_number, call.sample = requests_[turn.request].sample;
    call.number = static_cast<std::uint32_t>(record.calls++);
    const auto found =
        std::ranges::find(known.tools, call.name, [](const tool* t) -> const std::string& { return t->name(); });
    const auto at = static_cast<std::size_t>(found - known.tools.begin());
    if (at < known.kwargs.size()) call.kwargs = known.kwargs[at];
    turn.tools.push_back(found == known.tools.end() ? nullptr : *found);
    if (found == known.tools.end()) {
      std::string names;
      for (const tool* t : known.tools) names += (names.empty() ? "" : ", ") + t->name();
      turn.texts[i] = "there is no tool of this name; the tools are: " + names;
    }
    turn.calls.push_back(std::move(call));
  }
}

RLCORE_INLINE std::vector<std::int32_t> conversations::context_of(const open_turn& t) {
  talk& by = talk_of(t.request);
  if (!t.answer) {
    if (by.row.has_user())
      for (const std::string& text : t.texts) by.asked.messages.push_back({{"role", "tool"}, {"content", text}});
    return replies_->of_tools(t.texts, t.last_token);
  }
  if (by.row.has_agent()) {
    by.asked.observation += by.asked.action + t.answer->text;
    return tokenizer_.encode(t.answer->text, true);
  }
  by.asked.messages.push_back({{"role", "user"}, {"content", t.answer->text}});
  return replies_->of_user(t.answer->text, t.last_token);
}

/// The last token of a response is always the policy's: what would stand behind it is left out.
RLCORE_INLINE rollout::turn_source::continuation conversations::finish(open_turn& t) {
  if (t.broken) std::rethrow_exception(t.broken);
  note_failure(t.failure);
  talk& by = talk_of(t.request);
  conversation_record& record = records_[first_ + t.request];
  record.failures += static_cast<std::int32_t>(t.failures);
  record.seconds += t.seconds;
  if (t.answer) {
    record.turn_reward = t.failures > 0 ? -record.reward : t.reward;
    record.reward += record.turn_reward;
    record.score = t.answer->score.value_or(record.reward);
    if (!t.answer->logs.empty()) logs_[first_ + t.request] = nlohmann::ordered_json(t.answer->logs).dump();
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
  if (next.context.empty()) close(by);
  t.calls.clear(), t.texts.clear(), t.answer.reset();
  --open_;
  return next;
}

RLCORE_INLINE void conversations::note_reward(std::size_t i) {
  std::vector<double>& rewards = turn_rewards_[i];
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
  std::vector<char> logs;  // a line for each
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
      logs.insert(logs.end(), logs_[i].begin(), logs_[i].end());
      logs.push_back('\n');
    }
  }
  share(turns), share(records), share(logs);
  auto line = logs.begin();
  for (std::size_t at = 0, i = 0; at < turns.size(); ++i) {
    const auto request = static_cast<std::size_t>(turns[at]), count = static_cast<std::size_t>(turns[at + 1]);
    const auto from = turns.begin() + static_cast<std::ptrdiff_t>(at + 2);
    complete_.push_back({request, {from, from + static_cast<std::ptrdiff_t>(count)}});
    records_[first_ + request] = records[i];
    const auto end = std::find(line, logs.end(), '\n');
    logs_[first_ + request].assign(line, end);
    line = end + 1;
    note_reward(first_ + request);
    at += 2 + count;
  }
  open_ = 0;
}

}  // namespace agent
RLCORE_END
#endif
