// Supervised task concept: rows, the gradient of one optimizer step, an evaluation.
//
//   struct my_task {
//     std::size_t train_size() const;                          // rows of the training set
//     std::size_t eval_size() const;                           // 0: nothing is evaluated
//     void update(trainable_model<Device>&, std::span<const std::uint32_t> rows, metrics&);
//     void evaluate(trainable_model<Device>&, metrics&);
//   };
//
// The loop decides which rows make a step, and does everything around them: schedule, clipping, checkpoints, logs.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/training/scored_groups.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// update() adds the gradient of one optimizer step over `rows` of the training set, which the caller has set to 0 and
/// will apply, and sets the step's metrics (train/loss, train/tokens, perf/total_num_tokens, ...). Denominators are
/// those of all rows together: they are counted before the first backward pass, so neither the micro-batches nor their
/// sizes show in a bit. evaluate() sets the metrics of the validation set and changes nothing; where ranks have shards
/// of the weights it scores by for_each_scored_group(), or in a gather_full_params().
///
/// A task may have more, and the loop makes use of it:
///   prepare(trainable_model<Device>&)  once, after the weights are loaded or restored and before the first step
///   data_text() const                  which rows train: a run does not go on in its folder with others
///   watch(progress&)                   a line on the terminal to draw phase(name, done, of) on
///   save(path) const                   further files of a checkpoint, into the folder global_step_N being written
///   restore(path)                      the same when a run continues
template <class T, class Device>
concept supervised_task = requires(T& task, trainable_model<Device>& model, std::span<const std::uint32_t> rows,
                                   metrics& m) {
  { task.train_size() } -> std::convertible_to<std::size_t>;
  { task.eval_size() } -> std::convertible_to<std::size_t>;
  task.update(model, rows, m);
  task.evaluate(model, m);
};

}  // namespace trainer
RLCORE_END
