// Messages about an earlier run in the same folder, printed on start and resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/logger.hpp"

RLCORE_BEGIN
namespace trainer {

/// Whether the command line uses OpenRLHF's flags: the program has no other options, or a policy run has --pretrain.
inline bool uses_openrlhf_flags(const options& opt) {
  const registry& known = opt.known();
  return known.find("load_checkpoint") != nullptr &&
         (known.find("trainer.resume_mode") == nullptr || opt.is_set("pretrain"));
}

/// "run the same command again", with the options to add if the command as is does not resume (`not_resumed`).
inline std::string resuming_text(const options& opt, bool not_resumed) {
  const char* more = uses_openrlhf_flags(opt) ? "--load_checkpoint" : "trainer.resume_mode=auto";
  return "run the same command again" + (not_resumed ? " with " + std::string(more) : std::string());
}

/// Message printed on resume: after `step` of `total`, from the checkpoint in `folder`.
std::string resumed_text(const options& opt, std::int64_t step, std::int64_t total, const std::string& folder);

/// The note about an earlier run: where its metrics are now, and how to resume from its checkpoint instead; "" without
/// an earlier run. `root` is the folder of the run, before its first checkpoint. After a resume from `resumed_step`
/// (negative: fresh run): where the rows of later steps are.
std::string earlier_run_note(const options& opt, const logger& log, const std::filesystem::path& root,
                             std::int64_t resumed_step);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINING)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::string resumed_text(const options& opt, std::int64_t step, std::int64_t total,
                                       const std::string& folder) {
  std::string text = "resumed after step " + std::to_string(step) + " from " + folder + "\n";
  if (step < total) return text;
  const char* more = !uses_openrlhf_flags(opt) ? "trainer.total_epochs or trainer.total_training_steps"
                     : opt.known().find("num_episodes") != nullptr ? "--num_episodes"
                                                                   : "--max_epochs";
  return text + "note: all " + std::to_string(total) + " steps are done; a larger " + more + " goes on\n";
}

RLCORE_INLINE std::string earlier_run_note(const options& opt, const logger& log, const std::filesystem::path& root,
                                           std::int64_t resumed_step) {
  if (log.earlier().empty() && log.earlier_events().empty()) return {};
  if (resumed_step >= 0)
    return "note: the metrics of the steps after " + std::to_string(resumed_step) + " are in " +
           log.earlier().string() + " now";
  std::string text = "note: " + root.string() + " holds an earlier run: its ";
  if (!log.earlier().empty()) text += "metrics are in " + log.earlier().string();
  if (!log.earlier_events().empty())
    text += (log.earlier().empty() ? "event files are in " : ", its event files in ") + log.earlier_events().string();
  std::optional<std::int64_t> step;
  try {
    step = checkpoint::read_tracker(root);
  } catch (const error&) {  // a run that does not continue does not need the tracker
  }
  if (!step || !std::filesystem::is_directory(checkpoint::step_folder(root, *step))) return text;
  const bool flags = uses_openrlhf_flags(opt);
  return text + " now, a checkpoint of it stays until this run writes the same step; " +
         (flags ? "--load_checkpoint" : "trainer.resume_mode=auto") + " goes on from step " + std::to_string(*step) +
         " instead";
}

}  // namespace trainer
RLCORE_END
#endif
