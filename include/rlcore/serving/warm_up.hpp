// Engine warm-up.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/rollout/job.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/inbox.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// Runs the first pass, which allocates the buffers of later ones. Throws error if the engine fails.
inline void warm_up(generator& engine, const served_model& m) {
  rollout::job job;
  job.prompt = {m.eos_ids.front()}, job.max_new_tokens = 1;
  const auto answers = std::make_shared<inbox>();
  std::vector<rollout::job> jobs(1, job);
  engine.submit(std::move(jobs), answers);
  for (;;)
    if (const auto message = answers->take(std::chrono::seconds(1)))
      if (const auto* end = std::get_if<inbox::end_report>(&message->what)) {
        if (!end->problem.empty()) throw error(end->problem);
        return;
      }
}

}  // namespace serving
RLCORE_END
