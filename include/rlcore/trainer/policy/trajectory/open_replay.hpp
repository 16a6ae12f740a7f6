// Opens stored responses that replace sampling (rlcore.replay).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/trainer/policy/inputs.hpp"
#include "rlcore/trainer/policy/trajectory/replay.hpp"

RLCORE_BEGIN
namespace trainer {

/// "replay  24 responses from runs/a/rollouts ...".
std::string replay_text(const policy_settings& s, const replay& stored);

/// The responses set on the command line, from step `first` on; nullptr if unset. Throws config_error or data_error if
/// they do not fit the run. The tokenizer and the prompts of `in` must outlive it.
std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::string replay_text(const policy_settings& s, const replay& stored) {
  const std::filesystem::path from = checkpoint::expand_home(s.replay), to = checkpoint::expand_home(s.rollout_dir);
  std::error_code absent;
  if (!s.rollout_dir.empty() && (from == to || std::filesystem::equivalent(from, to, absent) ||
                                 std::filesystem::equivalent(from.parent_path(), to, absent)))
    throw config_error("trainer.rollout_data_dir=" + s.rollout_dir + " is where rlcore.replay=" + s.replay +
                       " reads: name another folder");
  std::string text = "replay " + std::to_string(stored.size()) + " responses from " + from.string();
  if (stored.text_only() > 0)
    text += "\nnote: " + std::to_string(stored.text_only()) +
            " of them are text alone and are tokenized again: tokens may be cut otherwise than they were sampled, and "
            "those shorter than data.max_response_length get an end token";
  return text;
}

RLCORE_INLINE std::unique_ptr<replay> open_replay(const policy_inputs& in, std::int64_t first) {
  const policy_settings& s = in.settings;
  if (s.replay.empty()) return nullptr;
  auto stored =
      std::make_unique<replay>(checkpoint::expand_home(s.replay),
                               replay::run{in.train, in.tokenizer, in.eos_ids, s.max_response_length,
                                           in.plan.trajectories_per_step, s.samples, in.config.never_sampled()});
  stored->require(first, in.plan.total_steps);
  say("%s\n", replay_text(s, *stored).c_str());
  return stored;
}

}  // namespace trainer
RLCORE_END
#endif
