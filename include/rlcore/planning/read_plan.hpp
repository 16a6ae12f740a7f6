// Reads the settings of plan from its command line.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/plan.hpp"
#include "rlcore/planning/cluster_file.hpp"
#include "rlcore/planning/plan.hpp"
#include "rlcore/planning/read_model.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// The step of plan's command line. Throws config_error if `updates` does not divide the sequences.
workload read_workload(const options& o);

/// The parts of the layout that plan's command line fixes.
wishes read_wishes(const options& o);

/// The output of the program for these options.
std::string run_plan(const options& o);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE workload read_workload(const options& o) {
  workload w;
  w.prompts = o.get<std::int64_t>("prompts"), w.responses = o.get<std::int64_t>("responses");
  w.prompt_length = o.get<std::int64_t>("prompt_length"), w.response_length = o.get<std::int64_t>("response_length");
  w.image_tokens = o.get<std::int64_t>("image_tokens");
  if (w.image_tokens > w.prompt_length)
    throw config_error("image_tokens=" + std::to_string(w.image_tokens) +
                       " is more than prompt_length=" + std::to_string(w.prompt_length) + ", which counts them");
  w.updates = o.get<std::int64_t>("updates"), w.epochs = o.get<std::int64_t>("epochs");
  w.micro_tokens = o.get<std::int64_t>("micro_tokens");
  w.recompute = o.get<bool>("recompute"), w.old_log_probs = o.get<bool>("old_log_probs");
  const auto reference = o.get<std::string>("reference");
  w.reference = reference == "whole"     ? reference_form::whole
                : reference == "sharded" ? reference_form::sharded
                                         : reference_form::none;
  w.logits_bytes = static_cast<double>(o.get<std::int64_t>("logits_memory_mb")) * 1048576;
  if (w.sequences() % w.updates != 0)
    throw config_error("updates=" + std::to_string(w.updates) + " does not divide the " +
                       std::to_string(w.sequences()) + " sequences of a step");
  return w;
}

RLCORE_INLINE wishes read_wishes(const options& o) {
  wishes x;
  x.data = o.find<std::int64_t>("data"), x.context = o.find<std::int64_t>("context");
  x.tensor = o.find<std::int64_t>("tensor"), x.expert = o.find<std::int64_t>("expert");
  x.zero = o.find<std::int64_t>("zero"), x.rollout_tensor = o.find<std::int64_t>("rollout_tensor");
  x.shard_ranks = o.find<std::int64_t>("shard_ranks");
  x.others.how_context = parallel::named<context_kind>(parallel::context_kind_names, o.get<std::string>("how_context"));
  x.others.sums = parallel::named<reduction_kind>(parallel::reduction_names, o.get<std::string>("reduction"));
  x.others.sequence_parallel = o.get<bool>("sequence_parallel");
  x.others.reshard_after_forward = o.get<bool>("reshard_after_forward");
  x.others.expert_shards = o.get<std::string>("experts") == "divided";
  x.others.compute_type = o.get<std::string>("values") == "bf16";
  x.others.wire_bf16 = o.get<std::string>("gradients") == "bf16";
  return x;
}

RLCORE_INLINE std::string run_plan(const options& o) {
  const std::vector<std::string> names = o.list("model");
  if (names.empty()) throw config_error("model=... is missing: a known model such as Qwen2.5-7B, or a config.json");
  std::vector<model_shape> models;
  for (const std::string& name : names) models.push_back(find_model(name));
  std::vector<std::int64_t> devices;
  for (const std::string& text : o.list("devices")) {
    std::int64_t n = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
    if (end.ec != std::errc() || end.ptr != text.data() + text.size() || n < 1 || n > 1048576)
      throw config_error("devices=" + text + ": expected a number from 1 to 1048576, or a list of them");
    devices.push_back(n);
  }
  const workload w = read_workload(o);
  for (const model_shape& m : models)
    if (w.image_tokens > 0 && !m.tower)
      throw config_error("image_tokens=" + std::to_string(w.image_tokens) + ": " + m.name + " reads no pictures");
  const wishes wanted = read_wishes(o);
  const cluster c = find_cluster(o.get<std::string>("cluster"));
  if (models.size() == 1 && devices.size() == 1)
    return plan_text(models.front(), w, c, devices.front(), wanted,
                     static_cast<std::size_t>(o.get<std::int64_t>("show")));
  const aligned_table t = plan_table(models, w, c, devices, wanted);
  return o.get<bool>("markdown") ? t.markdown() : t.text();
}

}  // namespace trainer::planning
RLCORE_END
#endif
