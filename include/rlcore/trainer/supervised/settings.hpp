// Task-independent settings of the supervised loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/telemetry/step_table.hpp"

RLCORE_BEGIN
namespace trainer {

/// How epochs are cut into steps.
enum class epoch_end {
  drop,   ///< the last, partial step of an epoch is left out (verl)
  run_on  ///< steps run on into the next epoch; only the very last partial one is left out (OpenRLHF's accumulation)
};

/// How the loop names its own numbers.
enum class metric_style {
  verl,     ///< train/lr(1e-3), train/time(s)
  openrlhf  ///< train/lr
};

/// Settings of the loop, from verl's keys or OpenRLHF's flags.
struct supervised_settings {
  std::string name = "sft/run";  ///< project/experiment, for the report
  // order of the rows
  std::int64_t rows_per_step = 1;  ///< of one optimizer step
  std::int64_t rows_per_pass = 0;  ///< limit of one forward pass (0: none), for the table; no result depends on it
  std::int64_t epochs = 1;
  std::int64_t total_steps = -1;  ///< < 0: as many as the epochs have
  epoch_end at_epoch_end = epoch_end::drop;
  bool shuffle = true;
  std::uint64_t seed = 1;
  // optimizer
  double lr = 1e-5, grad_clip = 1;  ///< clip of the global norm; <= 0: none
  optim::schedule schedule;         ///< its total_steps are set by the plan
  double warmup_round_up = 0;       ///< > 0: warm-up steps = ceil(this * total steps), as OpenRLHF counts them
  // run
  std::string root, resume_mode = "auto", resume_path;
  std::vector<std::string> loggers = {"console", "file"};
  std::string tensorboard_dir;  ///< of event files; empty: none, or as logger says
  console_style console = console_style::automatic;
  std::int64_t save_freq = -1, test_freq = -1, keep = 0;  ///< steps; <= 0: only at the last step; keep 0: all
  bool test_each_epoch = false;                           ///< evaluate once per epoch, test_freq aside
  bool test_before = false;                               ///< evaluate before the first step
  metric_style style = metric_style::verl;
  bool report = true;
};

}  // namespace trainer
RLCORE_END
