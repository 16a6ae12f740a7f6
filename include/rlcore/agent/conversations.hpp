// The tool-calling loop: reads a turn of the policy, runs the tools that it calls, and appends their replies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/rollout/turns.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace agent {

/// Limits of a conversation, and what happens to failures; verl's rollout.multi_turn.*.
struct conversation_settings {
  std::int64_t max_response_length = 0;                      ///< tokens, replies of tools included
  std::int64_t max_assistant_turns = 0, max_user_turns = 0;  ///< 0: no limit
  std::int64_t max_parallel_calls = 1;                       ///< calls of a turn that are run; the rest is ignored
  std::int64_t max_tool_text = 256;                          ///< code points of a reply
  cut_side cut = cut_side::middle;                           ///< where a longer one is cut
  bool failures_as_text = true;                              ///< false: a broken tool ends the run
  std::int64_t workers = 8;                                  ///< calls that run at the same time
};

/// What happened in one response.
struct conversation_record {
  std::int32_t assistant_turns = 0, user_turns = 0, calls = 0, failures = 0, unread = 0;
  double reward = 0, seconds = 0;  ///< sums over the calls
};

/// The tools that the row of a request may call, and their arguments from the data.
struct row_tools {
  std::vector<tool*> tools;                                ///< empty: the response has one turn
  std::vector<const nlohmann::ordered_json*> kwargs = {};  ///< of each tool; null: none
};

/// Runs the conversations of a call of engine::generate(), as verl's tool_agent_loop does:
///
///   append the turn; stop if the response has its full length, or a limit of turns is reached, or nothing is called;
///   run the first max_parallel_calls calls at once; append their replies; stop before that if they do not fit.
///
/// Tools run in threads of their own while other responses are drawn. A reply depends on (row, sample, call) and the
/// tool alone, so the tokens do not depend on threads or latencies. With a `group` of ranks that draw the same
/// responses together, its first rank runs the tools, and all wait until every open call is answered.
class conversations final : public rollout::turn_source {
 public:
  /// All references must outlive this object. `of_row` names the tools of a row.
  conversations(const text::tokenizer& tokenizer, const reply_tokens& replies, const conversation_settings& settings,
                std::function<row_tools(std::uint32_t)> of_row, parallel::any_communicator* group = nullptr);
  ~conversations() override;
  conversations(const conversations&) = delete;
  conversations& operator=(const conversations&) = delete;

  void begin(std::span<const rollout::request> requests) override;
  void end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) override;
  /// Throws what a tool threw if failures do not become text.
  std::optional<continuation> next(bool wait) override;

  /// What happened in the responses of all calls of generate(), in the order of their requests.
  std::span<const conversation_record> records() const noexcept { return records_; }

 private:
  /// A turn with calls: runs until every call has its text.
  struct open_turn {
    std::size_t request = 0;
    std::int64_t length = 0;      ///< of the response
    std::int32_t last_token = 0;  ///< of the turn
    std::vector<tool_request> calls;
    std::vector<tool*> tools;  ///< null: unknown
    std::vector<std::string> texts;
    std::size_t missing = 0, started = 0;
    std::uint32_t failures = 0;
    double reward = 0, seconds = 0;
    std::exception_ptr broken = {};
  };

  bool goes_on(const conversation_record& r, std::int64_t response_length) const;
  void work();
  /// Runs call `i` of a turn. The lock is held at its beginning and end, not while the tool runs.
  void run_call(open_turn& t, std::size_t i, std::unique_lock<std::mutex>& lock);
  continuation finish(open_turn& t);
  void answer_group();

  const text::tokenizer& tokenizer_;
  const reply_tokens& replies_;
  conversation_settings settings_;
  std::function<row_tools(std::uint32_t)> of_row_;
  parallel::any_communicator* group_;
  std::vector<rollout::request> requests_;
  std::vector<conversation_record> records_;
  std::size_t first_ = 0, open_ = 0;  ///< record of the first request; turns without their replies
  std::deque<continuation> complete_;

  std::mutex mutex_;
  std::condition_variable work_, ended_;
  std::deque<open_turn> turns_;           ///< addresses stay valid
  std::deque<open_turn*> queue_, ready_;  ///< with calls to start; with all texts
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE conversations::conversations(const text::tokenizer& tokenizer, const reply_tokens& replies,
                                           const conversation_settings& settings,
                                           std::function<row_tools(std::uint32_t)> of_row,
                                           parallel::any_communicator* group)
    : tokenizer_(tokenizer),
      replies_(replies),
      settings_(settings),
      of_row_(std::move(of_row)),
      group_(group != nullptr && group->size() > 1 ? group : nullptr) {
  require(settings_.max_parallel_calls > 0, "conversations: max_parallel_calls must be positive");
  if (group_ != nullptr && group_->rank() > 0) return;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, settings_.workers); ++i)
    threads_.emplace_back([this] { work(); });
}

RLCORE_INLINE conversations::~conversations() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& t : threads_) t.join();
}

RLCORE_INLINE void conversations::begin(std::span<const rollout::request> requests) {
  require(open_ == 0, "conversations: turns of a call of generate() that threw are still open");
  requests_.assign(requests.begin(), requests.end());
  turns_.clear();
  first_ = records_.size();
  records_.resize(first_ + requests.size());
}

RLCORE_INLINE bool conversations::goes_on(const conversation_record& r, std::int64_t response_length) const {
  const auto below = [](std::int32_t turns, std::int64_t most) { return most <= 0 || turns < most; };
  return response_length < settings_.max_response_length && below(r.assistant_turns, settings_.max_assistant_turns) &&
         below(r.user_turns, settings_.max_user_turns);
}

RLCORE_INLINE void conversations::end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) {
  conversation_record& record = records_[first_ + request];
  ++record.assistant_turns;
  const rollout::request& asked = requests_[request];
  row_tools known = goes_on(record, std::ssize(so_far.tokens)) ? of_row_(asked.prompt_number) : row_tools{};
  parsed_turn said;
  if (!known.tools.empty()) said = parse_hermes(tokenizer_.decode(std::span(so_far.tokens).subspan(turn)));
  record.unread += static_cast<std::int32_t>(said.failures);
  if (said.calls.empty()) return complete_.push_back({request, {}});
  const std::size_t calls = std::min(said.calls.size(), static_cast<std::size_t>(settings_.max_parallel_calls));
  const std::lock_guard lock(mutex_);
  open_turn& open = turns_.emplace_back();
  ++open_;
  open.request = request, open.length = std::ssize(so_far.tokens), open.last_token = so_far.tokens.back();
  open.missing = calls;
  open.texts.resize(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    tool_request call{std::move(said.calls[i].name), std::move(said.calls[i].arguments)};
    call.row = asked.prompt_number, call.sample = asked.sample;
    call.number = static_cast<std::uint32_t>(record.calls++);
    const auto found =
        std::ranges::find(known.tools, call.name, [](const tool* t) -> const std::string& { return t->name(); });
    const auto at = static_cast<std::size_t>(found - known.tools.begin());
    if (at < known.kwargs.size()) call.kwargs = known.kwargs[at];
    open.tools.push_back(found == known.tools.end() ? nullptr : *found);
    if (found == known.tools.end()) {
      std::string names;
      for (const tool* t : known.tools) names += (names.empty() ? "" : ", ") + t->name();
      open.texts[i] = "there is no tool of this name; the tools are: " + names;
    }
    open.calls.push_back(std::move(call));
  }
  if (group_ != nullptr && group_->rank() > 0) return;
  queue_.push_back(&open);
  work_.notify_all();
}

RLCORE_INLINE void conversations::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    open_turn& t = *queue_.front();
    const std::size_t i = t.started++;
    if (t.started == t.calls.size()) queue_.pop_front();
    run_call(t, i, lock);
    if (--t.missing > 0) continue;
    ready_.push_back(&t);
    ended_.notify_all();
  }
}

RLCORE_INLINE void conversations::run_call(open_turn& t, std::size_t i, std::unique_lock<std::mutex>& lock) {
  const auto begin = std::chrono::steady_clock::now();
  lock.unlock();
  tool_reply reply;
  std::optional<std::string> failure;
  std::exception_ptr broken;
  if (t.tools[i] == nullptr) {
    failure = t.texts[i];
  } else {
    try {
      reply = t.tools[i]->call(t.calls[i]);
    } catch (const std::exception& e) {
      failure = e.what();
      const bool of_call =
          dynamic_cast<const tool_error*>(&e) != nullptr && dynamic_cast<const tool_broken*>(&e) == nullptr;
      if (!of_call && !settings_.failures_as_text) broken = std::current_exception();
    } catch (...) {
      failure = "an exception without a text";
      if (!settings_.failures_as_text) broken = std::current_exception();
    }
  }
  std::string said = failure ? "Error executing tool '" + t.calls[i].name + "': " + *failure : std::move(reply.text);
  said = cut_tool_text(clean_tool_text(said), settings_.max_tool_text, settings_.cut);
  lock.lock();
  t.texts[i] = std::move(said);
  t.failures += failure.has_value(), t.reward += reply.reward;
  t.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (broken && !t.broken) t.broken = broken;
}

/// The replies as tokens, if they fit; the last token of a response is always the policy's.
RLCORE_INLINE rollout::turn_source::continuation conversations::finish(open_turn& t) {
  if (t.broken) std::rethrow_exception(t.broken);
  conversation_record& record = records_[first_ + t.request];
  record.failures += static_cast<std::int32_t>(t.failures);
  record.reward += t.reward, record.seconds += t.seconds;
  continuation next{t.request, replies_(t.texts, t.last_token)};
  if (t.length + std::ssize(next.context) >= settings_.max_response_length)
    next.context.clear();
  else
    ++record.user_turns;
  t.calls.clear(), t.texts.clear();
  --open_;
  return next;
}

RLCORE_INLINE auto conversations::next(bool wait) -> std::optional<continuation> {
  if (complete_.empty()) {
    if (group_ != nullptr) {
      if (wait && open_ > 0) answer_group();
    } else {
      std::unique_lock lock(mutex_);
      if (wait && open_ > 0) ended_.wait(lock, [&] { return !ready_.empty(); });
      if (ready_.empty()) return {};
      open_turn& t = *ready_.front();
      ready_.pop_front();
      lock.unlock();
      return finish(t);
    }
  }
  if (complete_.empty()) return {};
  continuation next = std::move(complete_.front());
  complete_.pop_front();
  return next;
}

/// The first rank sends the continuations and records of all open turns to the others.
RLCORE_INLINE void conversations::answer_group() {
  std::vector<std::int32_t> turns;  // request, number of tokens, tokens; and so on
  std::vector<conversation_record> records;
  if (group_->rank() == 0) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return ready_.size() == open_; });
    std::vector<open_turn*> all(ready_.begin(), ready_.end());
    ready_.clear();
    lock.unlock();
    std::ranges::sort(all, {}, &open_turn::request);
    for (open_turn* t : all) {
      const continuation next = finish(*t);
      turns.push_back(static_cast<std::int32_t>(next.request));
      turns.push_back(static_cast<std::int32_t>(next.context.size()));
      turns.insert(turns.end(), next.context.begin(), next.context.end());
      records.push_back(records_[first_ + next.request]);
    }
  }
  const auto share = [&]<class T>(std::vector<T>& from) {
    std::int64_t size = std::ssize(from);
    group_->broadcast(std::span(&size, 1), 0);
    from.resize(static_cast<std::size_t>(size));
    group_->broadcast(std::as_writable_bytes(std::span(from)), 0);
  };
  share(turns), share(records);
  for (std::size_t at = 0, i = 0; at < turns.size(); ++i) {
    const auto request = static_cast<std::size_t>(turns[at]), count = static_cast<std::size_t>(turns[at + 1]);
    const auto from = turns.begin() + static_cast<std::ptrdiff_t>(at + 2);
    complete_.push_back({request, {from, from + static_cast<std::ptrdiff_t>(count)}});
    records_[first_ + request] = records[i];
    at += 2 + count;
  }
  open_ = 0;
}

}  // namespace agent
RLCORE_END
#endif
