// Checks of options of preference and reward trainers, and of rewards.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

/// The two decay rates of --adam_betas. Throws config_error.
std::pair<double, double> adam_betas(const options& opt);

/// Runs OpenRLHF's checks, including those that it runs late. Throws config_error; adds notes.
void check_preference_options(options& opt);

namespace detail {

void check_overlong(options& opt);

void check_reward_source(options& opt);

}  // namespace detail

/// Throws config_error for impossible reward settings; adds notes for those without effect.
inline void check_reward_options(options& opt) {
  detail::check_overlong(opt);
  detail::check_reward_source(opt);
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::pair<double, double> adam_betas(const options& opt) {
  const value& setting = opt.at("adam_betas");
  double betas[2] = {-1, -1};
  if (const auto* items = setting.as<value::list>(); items != nullptr && items->size() == 2)
    for (std::size_t i = 0; i < 2; ++i) {
      const value& x = (*items)[i];
      if (const auto* real = x.as<double>()) betas[i] = *real;
      if (const auto* whole = x.as<std::int64_t>()) betas[i] = static_cast<double>(*whole);
    }
  for (const double b : betas)
    if (!(b >= 0 && b < 1))
      throw config_error("adam_betas=" + inline_text(setting) + ": expected two numbers from 0 to below 1");
  return {betas[0], betas[1]};
}

RLCORE_INLINE void check_preference_options(options& opt) {
  check_device_options(opt);
  check_offload_options(opt);
  check_image_options(opt);
  for (const char* name : {"pretrain", "dataset"})
    if (opt.find<std::string>(name).value_or("").empty())
      throw config_error("--" + std::string(name) + " is needed (" + std::string(opt.known().find(name)->meaning) +
                         ")");
  adam_betas(opt);
  if (opt.get<std::int64_t>("ring_attn_size") > 1 && !opt.get<bool>("packing_samples"))
    throw config_error("--ring_attn_size " + std::to_string(opt.get<std::int64_t>("ring_attn_size")) +
                       " needs --packing_samples: ring attention is defined on packed rows");
  if (opt.get<bool>("packing_samples") && !opt.get<bool>("flash_attn"))
    opt.note("--packing_samples without --flash_attn: upstream turns --flash_attn on; neither has an effect here");
  if (opt.known().find("input_template") != nullptr) {
    const std::string form = opt.find<std::string>("input_template").value_or("");
    if (!form.empty() && form.find("{}") == form.npos) {
      opt.note("--input_template has no {}: as upstream, it is not used");
      opt.set("input_template", value(std::string()));
    } else if (form.find("\\n") != form.npos) {
      opt.note("--input_template holds \\n as two characters; for a line end write $'...\\n...' in bash");
    }
    if (opt.get<bool>("apply_chat_template") && opt.is_set("input_template"))
      opt.note("--input_template has no effect with --apply_chat_template");
  }
  if (opt.get<std::int64_t>("micro_train_batch_size") > opt.get<std::int64_t>("train_batch_size"))
    opt.note("--micro_train_batch_size is larger than --train_batch_size: a step is one pass");
}

}  // namespace train

namespace train::detail {

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
    if (!path && !command && !opt.find<std::string>("rlcore.agent_func_path") && opt.is_set(key))
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

}  // namespace train::detail
RLCORE_END
#endif
