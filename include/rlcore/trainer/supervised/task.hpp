// What supervised training asks of a task: rows, the gradient of one optimizer step, an evaluation.
//
//   struct my_task {
//     std::size_t train_size() const;                          // rows of the training set
//     std::size_t eval_size() const;                           // 0: nothing is evaluated
//     void update(trainee<Device>&, std::span<const std::uint32_t> rows, metrics&);
//     void evaluate(trainee<Device>&, metrics&);
//   };
//
// The loop decides which rows make a step, and does everything around them: schedule, clipping, checkpoints, logs.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "rlcore/trainer/metrics.hpp"
#include "rlcore/trainer/progress.hpp"
#include "rlcore/trainer/trainee.hpp"

RLCORE_BEGIN
namespace trainer {

/// update() adds the gradient of one optimizer step over `rows` of the training set, which the caller has set to 0 and
/// will apply, and sets the step's metrics (train/loss, train/tokens, perf/total_num_tokens, ...). Denominators are
/// those of all rows together: they are counted before the first backward pass, so neither the micro-batches nor their
/// sizes show in a bit. evaluate() sets the metrics of the validation set and changes nothing.
///
/// A task may have more, and the loop makes use of it:
///   prepare(trainee<Device>&)           once, after the weights are loaded or restored and before the first step
///   watch(progress&)                    a line on the terminal to draw phase(name, done, of) on
///   save(path) const                    further files of a checkpoint, into the folder global_step_N being written
///   restore(path)                       the same when a run continues
template <class T, class Device>
concept supervised_task = requires(T& task, trainee<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
  { task.train_size() } -> std::convertible_to<std::size_t>;
  { task.eval_size() } -> std::convertible_to<std::size_t>;
  task.update(model, rows, m);
  task.evaluate(model, m);
};

/// Calls f(first, last) for consecutive groups of `count` rows that go through the model together: at most `max_rows`
/// of them (0: no limit) and, except for a single longer one, at most `max_tokens` tokens (0: no limit); tokens_of(i)
/// is the length of row i. The split never changes a bit.
template <class TokensOf, class F>
void for_each_group(std::size_t count, std::int64_t max_rows, std::int64_t max_tokens, TokensOf&& tokens_of, F&& f) {
  for (std::size_t first = 0; first < count;) {
    std::size_t last = first;
    std::int64_t tokens = 0;
    while (last < count) {
      const auto length = static_cast<std::int64_t>(tokens_of(last));
      if (last > first && max_rows > 0 && static_cast<std::int64_t>(last - first) >= max_rows) break;
      if (last > first && max_tokens > 0 && tokens + length > max_tokens) break;
      tokens += length;
      ++last;
    }
    f(first, last);
    first = last;
  }
}

}  // namespace trainer
RLCORE_END
