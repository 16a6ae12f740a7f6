// Rules of the reward settings: one meaning for verl's spellings of a key, and combinations that cannot work.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// Other spellings set the key in the first column. Two that are given and differ are refused.
inline constexpr std::array<std::array<std::string_view, 2>, 14> reward_spellings{
    {{"reward_model.reward_manager", "reward.reward_manager.name"},
     {"reward_model.overlong_buffer.enable", "reward_model.reward_kwargs.overlong_buffer_cfg.enable"},
     {"reward_model.overlong_buffer.enable", "reward.reward_kwargs.overlong_buffer_cfg.enable"},
     {"reward_model.overlong_buffer.len", "reward_model.reward_kwargs.overlong_buffer_cfg.len"},
     {"reward_model.overlong_buffer.len", "reward.reward_kwargs.overlong_buffer_cfg.len"},
     {"reward_model.overlong_buffer.penalty_factor", "reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor"},
     {"reward_model.overlong_buffer.penalty_factor", "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor"},
     {"reward_model.overlong_buffer.log", "reward_model.reward_kwargs.overlong_buffer_cfg.log"},
     {"reward_model.overlong_buffer.log", "reward.reward_kwargs.overlong_buffer_cfg.log"},
     {"reward_model.max_resp_len", "reward_model.reward_kwargs.max_resp_len"},
     {"reward_model.max_resp_len", "reward.reward_kwargs.max_resp_len"},
     {"custom_reward_function.path", "reward.custom_reward_function.path"},
     {"custom_reward_function.name", "reward.custom_reward_function.name"},
     {"custom_reward_function.reward_kwargs", "reward.custom_reward_function.reward_kwargs"}}};

inline void unify_reward_spellings(options& opt) {
  for (const auto& [name, other] : reward_spellings) {
    if (!opt.is_set(other) || opt.at(other) == opt.at(name)) continue;
    if (opt.is_set(name))
      throw config_error(std::string(name) + "=" + inline_text(opt.at(name)) + " and " + std::string(other) + "=" +
                         inline_text(opt.at(other)) + " mean the same setting; keep one");
    opt.set(name, opt.at(other));
  }
}

inline void check_overlong(options& opt) {
  const std::string name = "reward_model.overlong_buffer.";
  if (!opt.get<bool>(name + "enable")) return;
  if (opt.get<std::string>("reward_model.reward_manager") != "dapo") {
    opt.note(name + "enable=True has no effect without reward_model.reward_manager=dapo");
    return;
  }
  const auto limit = opt.find<std::int64_t>("reward_model.max_resp_len");
  const std::int64_t longest = limit.value_or(opt.get<std::int64_t>("data.max_response_length")),
                     buffer = opt.get<std::int64_t>(name + "len");
  if (buffer < 1 || buffer > longest)
    throw config_error(name + "len=" + std::to_string(buffer) + ": expected an integer from 1 to " +
                       (limit ? "reward_model.max_resp_len = " : "data.max_response_length = ") +
                       std::to_string(longest) + " with overlong_buffer.enable=True");
  if (opt.get<double>(name + "penalty_factor") == 0)
    opt.note(name + "penalty_factor=0: the overlong penalty is 0 for every response");
}

inline void check_reward_source(options& opt) {
  const auto path = opt.find<std::string>("custom_reward_function.path"),
             command = opt.find<std::string>("rlcore.reward_command");
  const bool model = opt.get<bool>("reward_model.enable");
  if ((path ? 1 : 0) + (command ? 1 : 0) + (model ? 1 : 0) > 1)
    throw config_error(
        "responses have one source of scores: give one of reward_model.enable=True, custom_reward_function.path and "
        "rlcore.reward_command");
  const bool python = path && path->ends_with(".py");
  for (const char* key : {"custom_reward_function.name", "custom_reward_function.reward_kwargs"})
    if (!python && (opt.is_set(key) || opt.is_set("reward." + std::string(key))))
      opt.note(std::string(key) + " has no effect: it belongs to a .py file in custom_reward_function.path");
  for (const char* key : {"rlcore.reward_timeout", "rlcore.reward_on_failure"})
    if (!path && !command && opt.is_set(key))
      opt.note(std::string(key) + " has no effect: it belongs to an external reward function");
  if (!model)
    for (const char* key :
         {"reward_model.model.path", "reward_model.model.input_tokenizer", "reward_model.max_length",
          "reward_model.micro_batch_size_per_gpu", "reward_model.micro_batch_size", "reward_model.use_dynamic_bsz",
          "reward_model.forward_max_token_len_per_gpu", "rlcore.normalize_reward"})
      if (opt.is_set(key)) opt.note(std::string(key) + " has no effect without reward_model.enable=True");
  if (opt.find<std::int64_t>("reward_model.micro_batch_size") &&
      opt.find<std::int64_t>("reward_model.micro_batch_size_per_gpu"))
    throw config_error(
        "both reward_model.micro_batch_size and reward_model.micro_batch_size_per_gpu are set; keep the latter");
}

}  // namespace detail

/// Throws config_error for reward settings that cannot work; adds notes for those without effect.
inline void check_reward_options(options& opt) {
  detail::unify_reward_spellings(opt);
  detail::check_overlong(opt);
  detail::check_reward_source(opt);
}

}  // namespace trainer
RLCORE_END
