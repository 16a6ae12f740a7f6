// Final report of a policy run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/report/report.hpp"

RLCORE_BEGIN
namespace train {

/// Sets what the report says of the run besides metrics and settings.
void describe_run(const options& opt, const batch_plan& plan, const std::string& device, const std::string& model,
                  run_info& info);

/// "validation  openai/gsm8k/reward/mean@1  0.160 -> 0.970": the first and the last of each core metric.
void print_validation(std::span<const metric_row> rows);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void describe_run(const options& opt, const batch_plan& plan, const std::string& device,
                                const std::string& model, run_info& info) {
  info.name = opt.get<std::string>("trainer.project_name") + "/" + opt.get<std::string>("trainer.experiment_name");
  info.model = model, info.device = device;
  for (const auto& [name, number] :
       {std::pair{"training prompts", plan.dataset_prompts},
        std::pair{"trajectories per step", plan.trajectories_per_step},
        std::pair{"updates per step", plan.updates_per_step},
        std::pair{"trajectories per update", plan.trajectories_per_update},
        std::pair{"steps per epoch", plan.steps_per_epoch}, std::pair{"total steps", plan.total_steps},
        std::pair{"warm-up steps", plan.warmup_steps}})
    info.derived.emplace_back(name, std::to_string(number));
}

RLCORE_INLINE void print_validation(std::span<const metric_row> rows) {
  std::vector<std::pair<std::string, std::pair<double, double>>> curves;
  for (const metric_row& row : rows)
    for (const auto& [name, number] : row.values) {
      if (!name.starts_with("val-core/") || name.find("/mean@") == std::string::npos) continue;
      const auto known =
          std::find_if(curves.begin(), curves.end(), [&key = name](const auto& c) { return c.first == key; });
      const double x = row.values.get(name);
      if (known != curves.end())
        known->second.second = x;
      else
        curves.emplace_back(name, std::pair(x, x));
    }
  for (const auto& [name, ends] : curves)
    say("validation  %s  %.3f -> %.3f\n", name.substr(9).c_str(), ends.first, ends.second);
}

}  // namespace train
RLCORE_END
#endif
