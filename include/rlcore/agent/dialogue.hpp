// One conversation as its environment hears it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/agent/answer_pool.hpp"
#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace agent {

/// A response that has paused, for the object that resumes it. All spans must outlive that object.
struct paused_conversation {
  conversation_record record;                      ///< of the turns that have ended
  std::vector<double> turn_rewards = {};           ///< the environment's, for each of these turns
  std::string logs = {};                           ///< an agent's last turn_reply::logs as JSON; empty: none
  std::string replies = {};                        ///< conversations::replies()
  std::vector<rollout::context_run> context = {};  ///< the runs of request::written that the policy did not write
  std::span<const std::int32_t> prompt = {};       ///< as an agent has changed it
};

/// What the row of a conversation brings, and what its environment is told: each turn of the policy, and the replies.
/// Without an environment it has only the tools.
struct dialogue {
  row_setup row;
  turn_request asked;   ///< the next question to the environment
  bool open = false;    ///< the environment knows of it
  bool failed = false;  ///< its agent has failed, and the response has reward 0
  std::string failure;  ///< why

  /// That of a request. `number` is that of the conversation.
  dialogue(row_setup setup, const rollout::request& request, std::uint64_t number, const text::tokenizer& tokenizer);

  /// The policy has drawn a turn; `ended` by a stop token, which an agent does not read.
  void say(std::span<const std::int32_t> drawn, bool ended, const text::tokenizer& tokenizer);
  /// The reply to the turn: a text of the environment, or a list of texts of tools.
  void hear(const nlohmann::ordered_json& reply);
  /// Writes the calls of the turn into `turn`, for the tools of the row, and counts them.
  void call_tools(std::vector<text::tool_call> calls, open_turn& turn, conversation_record& record) const;
  /// Opens the environment. Returns another prompt, if the agent wants one; one that is too long loses its beginning. A
  /// failure that counts 0 (settings.zero_on_failure) stands in `failure`; throws data_error for others.
  std::optional<std::vector<std::int32_t>> open_environment(const text::tokenizer& tokenizer,
                                                            const conversation_settings& settings);
  /// Asks the environment about the turns of a paused response again, which gives it the state that it had. Tools are
  /// not called again. Throws data_error if it answers something else; failures as open_environment().
  void replay(const paused_conversation& paused, std::span<const std::int32_t> written,
              const text::tokenizer& tokenizer, const conversation_settings& settings);
  /// Tells the environment that it will not be asked any more.
  void close() noexcept;

 private:
  void fail(const std::string& where, const std::string& why, const conversation_settings& settings);
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE dialogue::dialogue(row_setup setup, const rollout::request& request, std::uint64_t number,
                                 const text::tokenizer& tokenizer)
    : row(std::move(setup)) {
  asked.row = request.prompt_number, asked.sample = request.sample;
  if (row.environment == nullptr) return;
  asked.conversation = number;
  asked.label = row.label, asked.kwargs = row.environment_kwargs;
  if (row.has_agent()) asked.observation = tokenizer.decode(request.prompt);
  if (row.has_user() && row.messages != nullptr)
    for (const text::message& m : *row.messages) asked.messages.push_back({{"role", m.role}, {"content", m.content}});
}

RLCORE_INLINE void dialogue::say(std::span<const std::int32_t> drawn, bool ended, const text::tokenizer& tokenizer) {
  if (row.has_agent()) asked.action = tokenizer.decode(drawn.first(drawn.size() - ended));
  if (row.has_user()) asked.messages.push_back({{"role", "assistant"}, {"content", tokenizer.decode(drawn, true)}});
}

RLCORE_INLINE void dialogue::hear(const nlohmann::ordered_json& reply) {
  if (row.has_agent()) asked.observation += asked.action + reply.get_ref<const std::string&>();
  if (!row.has_user()) return;
  if (reply.is_string())
    asked.messages.push_back({{"role", "user"}, {"content", reply}});
  else
    for (const nlohmann::ordered_json& text : reply) asked.messages.push_back({{"role", "tool"}, {"content", text}});
}

RLCORE_INLINE void dialogue::call_tools(std::vector<text::tool_call> calls, open_turn& turn,
                                        conversation_record& record) const {
  turn.texts.resize(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    tool_request call{std::move(calls[i].name), std::move(calls[i].arguments)};
    call.row = asked.row, call.sample = asked.sample;
    call.number = static_cast<std::uint32_t>(record.calls++);
    const auto found =
        std::ranges::find(row.tools, call.name, [](const tool* t) -> const std::string& { return t->name(); });
    const auto at = static_cast<std::size_t>(found - row.tools.begin());
    if (at < row.kwargs.size()) call.kwargs = row.kwargs[at];
    turn.tools.push_back(found == row.tools.end() ? nullptr : *found);
    if (found == row.tools.end()) {
      std::string names;
      for (const tool* t : row.tools) names += (names.empty() ? "" : ", ") + t->name();
      turn.texts[i] = "there is no tool of this name; the tools are: " + names;
    }
    turn.calls.push_back(std::move(call));
  }
}

RLCORE_INLINE void dialogue::fail(const std::string& where, const std::string& why,
                                  const conversation_settings& settings) {
  failure = "row " + std::to_string(asked.row) + where + ": " + why;
  if (!settings.zero_on_failure || !row.has_agent()) throw data_error(failure);
}

RLCORE_INLINE std::optional<std::vector<std::int32_t>> dialogue::open_environment(
    const text::tokenizer& tokenizer, const conversation_settings& settings) {
  std::optional<std::string> prompt;
  try {
    prompt = row.environment->open(asked);
    open = true;
  } catch (const tool_error& e) {
    fail("", e.what(), settings);
  }
  if (!prompt || *prompt == asked.observation) return {};
  asked.observation = clean_tool_text(*prompt);
  std::vector<std::int32_t> ids = tokenizer.encode(asked.observation, true);
  if (ids.empty()) throw data_error("row " + std::to_string(asked.row) + ": the agent has made the prompt empty");
  if (settings.max_prompt_length > 0 && std::ssize(ids) > settings.max_prompt_length) {
    ids.erase(ids.begin(), ids.end() - settings.max_prompt_length);
    asked.observation = tokenizer.decode(ids);
  }
  return ids;
}

RLCORE_INLINE void dialogue::replay(const paused_conversation& paused, std::span<const std::int32_t> written,
                                    const text::tokenizer& tokenizer, const conversation_settings& settings) {
  auto replies = nlohmann::ordered_json::array();
  if (!paused.replies.empty())
    replies = text::parse_json<data_error, nlohmann::ordered_json>(paused.replies, "replies of a conversation");
  const auto fits = [&](const nlohmann::ordered_json& r) { return r.is_string() || (r.is_array() && row.has_user()); };
  if (!replies.is_array() || replies.size() != paused.context.size() ||
      !std::all_of(replies.begin(), replies.end(), fits))
    throw data_error("row " + std::to_string(asked.row) +
                     ": the conversation was with another agent or user, or with tools alone, when it paused; resume "
                     "the run with the same");
  std::size_t begin = 0;
  for (std::size_t turn = 0; turn < paused.context.size(); ++turn) {
    const rollout::context_run& run = paused.context[turn];
    const auto end = static_cast<std::size_t>(run.begin);
    asked.number = static_cast<std::uint32_t>(turn);
    say(written.subspan(begin, end - begin), true, tokenizer);
    begin = end + static_cast<std::size_t>(run.count);
    const nlohmann::ordered_json& before = replies.at(turn);
    const std::string where = ", turn " + std::to_string(turn);
    if (before.is_string()) {
      try {
        const turn_reply now = row.environment->step(asked);
        if (now.done || clean_tool_text(now.text) != before.get_ref<const std::string&>())
          throw data_error("row " + std::to_string(asked.row) + where + ": the " +
                           (row.has_agent() ? "agent" : "user") +
                           " answers something else when it is asked again, so its conversations cannot pause "
                           "(async_training.partial_rollout=False awaits them)");
      } catch (const tool_error& e) {
        return fail(where, e.what(), settings);
      }
    }
    hear(before);
  }
}

RLCORE_INLINE void dialogue::close() noexcept {
  if (std::exchange(open, false)) row.environment->close(asked);
}

}  // namespace agent
RLCORE_END
#endif
