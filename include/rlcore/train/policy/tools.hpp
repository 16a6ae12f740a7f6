// Whom the policy of a run talks to: the tools, simulated users and agent that rollout.multi_turn.*, rollout.agent.*
// and rlcore.agent_func_path name, and those of each row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/open_tools.hpp"
#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace train {

/// Schemas of tools.
using json_list = std::vector<nlohmann::ordered_json>;

/// rollout.multi_turn.*, rollout.agent.*, rlcore.agent_func_path and rlcore.*tool*.
struct tool_settings {
  bool enabled = false;     ///< rows may have several turns: rollout.multi_turn.enable=True or rollout.mode=async
  bool by_default = false;  ///< rows without agent_name do
  std::string config_file;  ///< rollout.multi_turn.tool_config_path
  std::string user_file;    ///< rollout.multi_turn.interaction_config_path
  std::string agent_file;   ///< rlcore.agent_func_path: answers every row
  nlohmann::ordered_json sampling;  ///< what the agent reads of it
  agent::conversation_settings limits;
  agent::reply_options replies;
  agent::tool_host_settings host;
};

/// Reads the settings. Throws config_error.
tool_settings read_tool_settings(const options& opt);

/// The opened tools, simulated users or agent of a run, and what each row has of them.
class policy_tools {
 public:
  /// Opens what the settings name, and takes the tools of the caller. Throws config_error and file_error.
  policy_tools(const tool_settings& settings, agent::tools own, const text::chat_template& chat,
               const text::tokenizer& tokenizer, std::span<const std::int32_t> eos_ids);

  /// The schemas that the prompt of a row shows; none for a row that calls no tools. Throws data_error for an unknown
  /// agent_name.
  json_list schemas_of(const data::prompt& p) const;
  /// The tools that a row may call, with their create_kwargs, its simulated user, and the agent. `p` must outlive the
  /// result. Throws data_error for an unknown agent_name or interaction.
  agent::row_setup of(const data::prompt& p) const;

  const tool_settings& settings() const noexcept { return settings_; }
  /// Null with an agent, whose text is appended as it is.
  const agent::reply_tokens* replies() const noexcept { return replies_ ? &*replies_ : nullptr; }
  /// "tools  calc_gsm8k_reward, code_interpreter from FILE", and their notes.
  std::string text() const;

 private:
  /// The row's extra_info.interaction_kwargs.name among the users.
  void add_user(const data::prompt& p, agent::row_setup& setup) const;

  tool_settings settings_;
  agent::tools tools_;
  std::map<std::string, std::shared_ptr<agent::environment>> users_;
  std::shared_ptr<agent::environment> agent_;
  std::optional<agent::reply_tokens> replies_;
};

/// The run's tools, users and agent, or null where every response has one turn. Without rollout.multi_turn.enable and
/// mode=async the caller's `own` tools are called by every row that does not say otherwise.
std::unique_ptr<policy_tools> open_policy_tools(const tool_settings& settings, agent::tools own,
                                                const text::chat_template& chat, const text::tokenizer& tokenizer,
                                                std::span<const std::int32_t> eos_ids);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
#include <algorithm>
#include <utility>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {

RLCORE_INLINE tool_settings read_tool_settings(const options& opt) {
  const std::string rollout = "actor_rollout_ref.rollout.", turns = rollout + "multi_turn.";
  tool_settings s;
  s.config_file = opt.find<std::string>(turns + "tool_config_path").value_or("");
  s.user_file = opt.find<std::string>(turns + "interaction_config_path").value_or("");
  s.agent_file = opt.find<std::string>("rlcore.agent_func_path").value_or("");
  const bool multi_turn = opt.get<bool>(turns + "enable");
  s.enabled = multi_turn || opt.get<std::string>(rollout + "mode") == "async";
  const std::string loop = opt.get<std::string>(rollout + "agent.default_agent_loop");
  s.by_default = opt.is_set(rollout + "agent.default_agent_loop") ? loop == "tool_agent" : multi_turn;
  for (const auto& [key, file] :
       {std::pair("tool_config_path", &s.config_file), {"interaction_config_path", &s.user_file}}) {
    if (!file->empty() && !s.enabled)
      throw config_error(turns + key + "=" + *file + ": has an effect only with " + turns + "enable=True or " +
                         rollout + "mode=async");
    if (!file->empty() && !s.agent_file.empty())
      throw config_error(turns + key + "=" + *file +
                         ": an agent (rlcore.agent_func_path) answers every turn; leave one out");
  }
  s.sampling = {{"n", 1},
                {"temperature", opt.get<double>(rollout + "temperature")},
                {"top_p", opt.get<double>(rollout + "top_p")},
                {"top_k", opt.get<std::int64_t>(rollout + "top_k")},
                {"max_tokens", opt.get<std::int64_t>("data.max_response_length")}};
  s.limits.max_response_length = opt.get<std::int64_t>("data.max_response_length");
  s.limits.max_prompt_length = opt.get<std::int64_t>("data.max_prompt_length");
  s.limits.zero_on_failure = opt.get<std::string>("rlcore.reward_on_failure") == "zero";
  s.limits.max_assistant_turns = opt.find<std::int64_t>(turns + "max_assistant_turns").value_or(0);
  s.limits.max_user_turns = opt.find<std::int64_t>(turns + "max_user_turns").value_or(0);
  s.limits.max_parallel_calls = opt.get<std::int64_t>(turns + "max_parallel_calls");
  s.limits.max_tool_text = opt.get<std::int64_t>(turns + "max_tool_response_length");
  const std::string side = opt.get<std::string>(turns + "tool_response_truncate_side");
  s.limits.cut = side == "left"    ? agent::cut_side::left
                 : side == "right" ? agent::cut_side::right
                                   : agent::cut_side::middle;
  s.limits.failures_as_text = opt.get<std::string>("rlcore.on_tool_failure") == "text";
  s.limits.workers = opt.get<std::int64_t>(rollout + "agent.num_workers");
  s.replies.newline = opt.get<bool>("rlcore.turn_newline");
  s.replies.special = opt.get<bool>("rlcore.tool_text_special");
  if (const value* thinking = opt.at("data.apply_chat_template_kwargs").find("enable_thinking"))
    s.replies.enable_thinking = *thinking->as<bool>();
  s.host = {opt.get<double>("rlcore.tool_timeout_s"), opt.get<std::int64_t>("rlcore.tool_processes"), s.limits.workers,
            opt.get<std::string>("rlcore.sandbox") == "require"};
  return s;
}

RLCORE_INLINE policy_tools::policy_tools(const tool_settings& settings, agent::tools own,
                                         const text::chat_template& chat, const text::tokenizer& tokenizer,
                                         std::span<const std::int32_t> eos_ids)
    : settings_(settings), tools_(std::move(own)) {
  if (!settings_.agent_file.empty()) {
    if (!tools_.empty())
      throw config_error("rlcore.agent_func_path=" + settings_.agent_file + ": no tool is called beside an agent");
    agent_ = agent::open_agent(checkpoint::expand_home(settings_.agent_file), settings_.host, settings_.sampling);
    return;
  }
  if (!settings_.config_file.empty()) {
    const agent::tools more = agent::open_tools(checkpoint::expand_home(settings_.config_file), settings_.host);
    tools_.insert(tools_.end(), more.begin(), more.end());
  }
  if (!settings_.user_file.empty())
    users_ = agent::open_interactions(checkpoint::expand_home(settings_.user_file), settings_.host);
  settings_.replies.tools = !tools_.empty();
  replies_.emplace(chat, tokenizer, eos_ids, settings_.replies);
  for (std::size_t i = 0; i < tools_.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (tools_[i]->name() == tools_[k]->name())
        throw config_error(settings_.config_file + ": two tools have the name '" + tools_[i]->name() + "'");
}

namespace detail {

/// A member that is there and not null.
RLCORE_INLINE const data::row* member_of(const data::row& of, const char* name) {
  return of.is_object() && of.contains(name) && !of[name].is_null() ? &of[name] : nullptr;
}

}  // namespace detail

RLCORE_INLINE void policy_tools::add_user(const data::prompt& p, agent::row_setup& setup) const {
  const data::row* kwargs = detail::member_of(p.extra, "interaction_kwargs");
  const data::row* name = kwargs != nullptr ? detail::member_of(*kwargs, "name") : nullptr;
  auto user = users_.begin();
  if (name != nullptr)
    user = name->is_string() ? users_.find(name->get<std::string>()) : users_.end();
  else if (users_.size() > 1)
    user = users_.end();
  if (user == users_.end()) {
    std::vector<std::string> known;
    std::string names;
    for (const auto& [n, u] : users_) known.push_back(n), names += (names.empty() ? "" : ", ") + n;
    const std::string given = name != nullptr && name->is_string() ? name->get<std::string>() : "";
    throw data_error("column 'extra_info': interaction_kwargs.name is " +
                     (given.empty() ? "missing" : "'" + data::printable(given) + "'" + did_you_mean(given, known)) +
                     "; expected one of " + settings_.user_file + ": " + names);
  }
  setup.environment = user->second.get(), setup.environment_kwargs = kwargs, setup.messages = &p.messages;
}

RLCORE_INLINE agent::row_setup policy_tools::of(const data::prompt& p) const {
  agent::row_setup known;
  if (agent_) {
    known.environment = agent_.get(), known.label = p.ground_truth;
    return known;
  }
  if (p.agent.empty() ? !settings_.by_default : p.agent != "tool_agent") {
    static const std::vector<std::string> names{"single_turn_agent", "tool_agent"};
    if (!p.agent.empty() && p.agent != "single_turn_agent")
      throw data_error("column 'agent_name': '" + data::printable(p.agent) + "' is unknown" +
                       did_you_mean(p.agent, names) + "; expected single_turn_agent or tool_agent");
    return known;
  }
  if (!users_.empty()) add_user(p, known);
  const data::row* selection = detail::member_of(p.extra, "tool_selection");
  const data::row* kwargs = detail::member_of(p.extra, "tools_kwargs");
  const auto add = [&](agent::tool* t) {
    const data::row* of_tool = kwargs != nullptr ? detail::member_of(*kwargs, t->name().c_str()) : nullptr;
    known.tools.push_back(t);
    known.kwargs.push_back(of_tool != nullptr ? detail::member_of(*of_tool, "create_kwargs") : nullptr);
  };
  if (selection == nullptr || !selection->is_array() || selection->empty()) {
    for (const auto& t : tools_) add(t.get());
    return known;
  }
  for (const data::row& name : *selection)  // in its order, as in verl; unknown names are left out
    for (const auto& t : tools_)
      if (name == t->name() && std::ranges::find(known.tools, t.get()) == known.tools.end()) add(t.get());
  return known;
}

RLCORE_INLINE json_list policy_tools::schemas_of(const data::prompt& p) const {
  json_list schemas;
  for (const agent::tool* t : of(p).tools) schemas.push_back(t->schema());
  return schemas;
}

RLCORE_INLINE std::string policy_tools::text() const {
  if (agent_) return "agent  " + settings_.agent_file + " answers every turn";
  std::string text;
  const auto line = [&](const char* what, const std::string& name, const std::string& file) {
    text += (text.empty() ? "" : "\n") + std::string(what) + name + (file.empty() ? "" : " from " + file);
  };
  std::string names;
  for (const auto& t : tools_) names += (names.empty() ? "" : ", ") + t->name();
  if (!names.empty()) line("tools  ", names, settings_.config_file);
  names.clear();
  for (const auto& [name, user] : users_) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) line("users  ", names, settings_.user_file);
  for (const auto& t : tools_)
    if (const std::string note = t->note(); !note.empty()) text += "\nnote: " + t->name() + ": " + note;
  return text;
}

RLCORE_INLINE std::unique_ptr<policy_tools> open_policy_tools(const tool_settings& settings, agent::tools own,
                                                              const text::chat_template& chat,
                                                              const text::tokenizer& tokenizer,
                                                              std::span<const std::int32_t> eos_ids) {
  if (own.empty() && settings.config_file.empty() && settings.user_file.empty() && settings.agent_file.empty())
    return nullptr;
  tool_settings s = settings;
  if (!s.enabled) s.by_default = true;  // those of the caller, whose command line says nothing of tools
  return std::make_unique<policy_tools>(s, std::move(own), chat, tokenizer, eos_ids);
}

}  // namespace train
RLCORE_END
#endif
