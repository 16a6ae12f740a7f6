// Checks of the reward settings.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

void check_overlong(options& opt);

void check_reward_source(options& opt);

}  // namespace detail

/// Throws config_error for impossible reward settings; adds notes for those without effect.
inline void check_reward_options(options& opt) {
  detail::check_overlong(opt);
  detail::check_reward_source(opt);
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer::detail {

RLCORE_INLINE void check_overlong(options& opt) {
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

RLCORE_INLINE void check_reward_source(options& opt) {
  const auto path = opt.find<std::string>("custom_reward_function.path"),
             command = opt.find<std::string>("rlcore.reward_command");
  const bool model = opt.get<bool>("reward_model.enable");
  if ((path ? 1 : 0) + (command ? 1 : 0) + (model ? 1 : 0) > 1)
    throw config_error(
        "responses have one source of scores: give one of reward_model.enable=True, custom_reward_function.path and "
        "rlcore.reward_command");
  const bool python = path && path->ends_with(".py");
  for (const char* key : {"custom_reward_function.name", "custom_reward_function.reward_kwargs"})
    if (!python && opt.is_set(key))
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

}  // namespace trainer::detail
RLCORE_END
#endif
