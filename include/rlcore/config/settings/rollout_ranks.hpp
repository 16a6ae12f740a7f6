// Ranks that share one copy of the weights while they sample, and notes about sampling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// The tensor parallel size of the rollout engine, from verl's or OpenRLHF's option; empty if unset.
inline std::optional<asked_size> asked_rollout(const options& opt) {
  for (const char* name : {"actor_rollout_ref.rollout.tensor_model_parallel_size", "vllm_tensor_parallel_size"})
    if (opt.known().find(name) != nullptr && opt.is_set(name))
      return asked_size{opt.get<std::int64_t>(name), opt.known().typed_name(name)};
  return std::nullopt;
}

}  // namespace detail

/// The number of neighbouring ranks that share one copy of the weights while `ranks` ranks sample, and the key that
/// sets it; empty if they sample with the weights as laid out in training, which stages of a pipeline cannot.
inline std::optional<detail::asked_size> rollout_ranks(const options& opt, int ranks) {
  const auto asked = detail::asked_rollout(opt);
  if (ranks == 1) return std::nullopt;
  const detail::strategy_keys k = detail::read_strategy(opt);
  if (k.pipeline.ranks > 1) return asked ? asked : k.tensor;  // no stage samples with its layers alone
  return !asked || asked->ranks == k.tensor.ranks ? std::nullopt : asked;
}

/// Throws config_error unless that number divides the number of ranks.
inline void check_rollout_ranks(const options& opt, int ranks) {
  if (const auto asked = rollout_ranks(opt, ranks); asked && ranks % asked->ranks != 0)
    throw config_error(asked->text() + " does not divide the " + std::to_string(ranks) + " ranks");
}

/// Adds notes about the key where one rank ignores it.
inline void note_rollout_ranks(options& opt, int ranks) {
  const auto asked = detail::asked_rollout(opt);
  if (!asked || asked->ranks == 1) return;
  if (ranks <= 1)
    opt.note(asked->text() + ": no effect on one rank; trainer.n_gpus_per_node=N or mpirun -np N starts more");
}

/// Adds a note where log-probs are over other tokens than draws, and where rlcore.keep_sampling_mask has no effect.
inline void note_truncated_sampling(options& opt) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  std::string cuts;
  const auto add = [&](const char* name, bool cuts_off) {
    if (cuts_off) cuts += (cuts.empty() ? "" : ", ") + opt.known().typed_name(rollout + name);
  };
  add("top_k", opt.get<std::int64_t>(rollout + "top_k") > 0);
  add("top_p", opt.get<double>(rollout + "top_p") < 1);
  add("min_p", opt.get<double>(rollout + "min_p") > 0);
  const bool keeps = opt.get<bool>("rlcore.keep_sampling_mask");
  if (keeps && cuts.empty())
    opt.note("rlcore.keep_sampling_mask=True has no effect without " + rollout + "top_k, top_p or min_p");
  if (!keeps && !cuts.empty())
    opt.note(
        cuts +
        " cuts tokens off, and log-probs are over all tokens, as verl's are: responses are not quite the policy's; "
        "rlcore.keep_sampling_mask=True takes log-probs over the tokens that were left");
}

}  // namespace train
RLCORE_END
