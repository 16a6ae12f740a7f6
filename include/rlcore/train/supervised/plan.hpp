// Settings and plan of a supervised run: counts, and the rows of each step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/step_table.hpp"

RLCORE_BEGIN
namespace train {

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

/// The numbers of a run; make_supervised_plan() computes them.
struct supervised_plan {
  std::int64_t train_rows = 0, eval_rows = 0;
  std::int64_t rows_per_step = 0, rows_per_pass = 0;
  std::int64_t steps_per_epoch = 0;  ///< full steps; those that run on into the next epoch count for neither
  std::int64_t epochs = 0, total_steps = 0, scheduled_steps = 0, warmup_steps = 0;
  epoch_end at_epoch_end = epoch_end::drop;

  /// Name, number, remark: printed before the first step, and part of the report.
  number_table table() const;
};

/// Throws config_error if the data set does not fill one step. `s.schedule` gets its number of steps.
supervised_plan make_supervised_plan(supervised_settings& s, std::size_t train_rows, std::size_t eval_rows);

/// The rows of each step: a pure function of seed and step, so a resumed run knows them.
class step_rows {
 public:
  /// Without `shuffle` every epoch has the order of the data set.
  step_rows(const supervised_plan& plan, std::uint64_t seed, bool shuffle)
      : plan_(plan), seed_(seed), shuffle_(shuffle) {}

  /// Epoch (from 0) in which step number `step` (from 1) begins.
  std::int64_t epoch_of(std::int64_t step) const noexcept {
    return plan_.at_epoch_end == epoch_end::drop ? (step - 1) / plan_.steps_per_epoch
                                                 : (step - 1) * plan_.rows_per_step / plan_.train_rows;
  }
  /// True if the epoch in which `step` begins ends with it.
  bool ends_epoch(std::int64_t step) const noexcept { return epoch_of(step + 1) != epoch_of(step); }

  /// The rows of step number `step` (from 1).
  std::vector<std::uint32_t> operator()(std::int64_t step);

 private:
  const std::vector<std::uint32_t>& order(std::int64_t epoch);

  supervised_plan plan_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t known_ = -1;
  std::vector<std::uint32_t> order_;
};

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE supervised_plan make_supervised_plan(supervised_settings& s, std::size_t train_rows,
                                                   std::size_t eval_rows) {
  supervised_plan plan;
  plan.train_rows = static_cast<std::int64_t>(train_rows), plan.eval_rows = static_cast<std::int64_t>(eval_rows);
  plan.rows_per_step = s.rows_per_step, plan.rows_per_pass = s.rows_per_pass;
  plan.at_epoch_end = s.at_epoch_end;
  plan.steps_per_epoch = plan.train_rows / s.rows_per_step;
  const bool drop = s.at_epoch_end == epoch_end::drop;
  if (plan.steps_per_epoch == 0 && (drop || plan.train_rows == 0))
    throw config_error("the training set has only " + std::to_string(plan.train_rows) + " rows, not one full step of " +
                       std::to_string(s.rows_per_step) + " (train_batch_size)");
  // As verl has it, an explicit number of steps ends a run early; the learning rate follows the epochs all the same.
  const std::string epochs = "epochs=" + std::to_string(s.epochs);
  plan.scheduled_steps = drop ? detail::product(plan.steps_per_epoch, s.epochs, epochs)
                              : detail::product(plan.train_rows, s.epochs, epochs) / s.rows_per_step;
  plan.total_steps = s.total_steps >= 0 ? s.total_steps : plan.scheduled_steps;
  if (plan.total_steps == 0 && s.total_steps < 0)
    throw config_error("the training set has " + std::to_string(plan.train_rows) + " rows; " +
                       std::to_string(s.epochs) + (s.epochs == 1 ? " epoch does" : " epochs do") +
                       " not fill one step of " + std::to_string(s.rows_per_step) + " (train_batch_size)");
  plan.scheduled_steps = std::max(plan.scheduled_steps, plan.total_steps);
  const std::int64_t rows =
      detail::product(plan.total_steps, s.rows_per_step, "total steps=" + std::to_string(plan.total_steps));
  const std::int64_t done = drop ? plan.total_steps : rows, epoch = drop ? plan.steps_per_epoch : plan.train_rows;
  plan.epochs = done / epoch + (done % epoch != 0 ? 1 : 0);
  s.schedule.total_steps = plan.scheduled_steps;
  if (s.warmup_round_up > 0)
    s.schedule.warmup_steps =
        static_cast<std::int64_t>(std::ceil(s.warmup_round_up * static_cast<double>(plan.scheduled_steps)));
  plan.warmup_steps = s.schedule.warmup();
  return plan;
}

RLCORE_INLINE number_table supervised_plan::table() const {
  number_table t;
  t.add("training rows", train_rows);
  t.add("evaluation rows", eval_rows);
  const std::int64_t passes = rows_per_pass > 0 ? (rows_per_step + rows_per_pass - 1) / rows_per_pass : 1;
  t.add("rows per step", rows_per_step,
        passes == 1 ? "in one pass through the model"
                    : "in " + std::to_string(passes) + " passes through the model, of " +
                          (rows_per_step % rows_per_pass == 0 ? "" : "at most ") + std::to_string(rows_per_pass) +
                          (rows_per_pass == 1 ? " row" : " rows") + " each, which saves memory");
  const std::int64_t left = train_rows % rows_per_step;
  t.add("steps per epoch", steps_per_epoch,
        left == 0 ? ""
        : at_epoch_end == epoch_end::drop
            ? std::to_string(left) + (left == 1 ? " row is" : " rows are") + " left out of each epoch"
            : std::to_string(left) + (left == 1 ? " row goes" : " rows go") + " into the next epoch's steps");
  t.add("total steps", total_steps, std::to_string(epochs) + (epochs == 1 ? " epoch" : " epochs"));
  t.add("warm-up steps", warmup_steps,
        scheduled_steps == total_steps
            ? ""
            : "the schedule of the learning rate has " + std::to_string(scheduled_steps) + " steps");
  return t;
}

RLCORE_INLINE std::vector<std::uint32_t> step_rows::operator()(std::int64_t step) {
  std::vector<std::uint32_t> rows;
  std::int64_t epoch = epoch_of(step);
  std::int64_t at = plan_.at_epoch_end == epoch_end::drop ? (step - 1) % plan_.steps_per_epoch * plan_.rows_per_step
                                                          : (step - 1) * plan_.rows_per_step - epoch * plan_.train_rows;
  for (std::int64_t i = 0; i < plan_.rows_per_step; ++i, ++at) {
    if (at == plan_.train_rows) at = 0, ++epoch;
    rows.push_back(order(epoch)[static_cast<std::size_t>(at)]);
  }
  return rows;
}

RLCORE_INLINE const std::vector<std::uint32_t>& step_rows::order(std::int64_t epoch) {
  if (epoch != known_) {
    order_ = data::epoch_order(static_cast<std::size_t>(plan_.train_rows), seed_, static_cast<std::uint64_t>(epoch),
                               shuffle_);
    known_ = epoch;
  }
  return order_;
}

}  // namespace train
RLCORE_END
#endif
