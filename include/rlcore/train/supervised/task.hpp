// Supervised task concept: rows, the gradient of one optimizer step, an evaluation; fingerprint of its rows.
//
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

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/rows.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

template <class Number>
void add_numbers(fingerprint& hash, const std::vector<Number>& numbers) {
  hash.add(std::uint64_t{numbers.size()});
  for (const Number x : numbers) hash.add(std::bit_cast<std::uint64_t>(static_cast<double>(x)));
}
inline void add_row(fingerprint& hash, const data::sft_example& e) {
  hash.add(e.tokens);
  add_numbers(hash, e.written);
}
inline void add_row(fingerprint& hash, const preference_pair& p) {
  hash.add(p.chosen), hash.add(p.rejected);
  hash.add(std::uint64_t{p.prompt_length});
  hash.add(std::bit_cast<std::uint64_t>(p.margin));
}
inline void add_row(fingerprint& hash, const unpaired_row& r) {
  hash.add(r.tokens);
  hash.add(std::uint64_t{r.prompt_length});
  hash.add(std::uint64_t{r.desirable});
}
inline void add_row(fingerprint& hash, const judged_row& r) {
  hash.add(r.tokens), hash.add(r.steps), hash.add(r.labels);
  add_numbers(hash, r.probabilities);
}
inline const std::vector<data::image_pointer>& images_in(const unpaired_row& r) { return r.text.images; }
template <class Row>
const std::vector<data::image_pointer>& images_in(const Row& r) {
  return r.images;
}

}  // namespace detail

/// "18 rows, fingerprint 0123456789abcdef": equal if tokens, images and labels are, in the same order.
template <class Row>
std::string data_text(const std::vector<Row>& rows) {
  fingerprint hash;
  for (const Row& row : rows) {
    detail::add_row(hash, row);
    for (const data::image_pointer& i : detail::images_in(row)) hash.add(i->hash.low), hash.add(i->hash.high);
  }
  return std::to_string(rows.size()) + " rows, fingerprint " + hash.text();
}

/// update() adds the gradient of one optimizer step over `rows` of the training set, which the caller has set to 0 and
/// will apply, and sets the step's metrics (train/loss, train/tokens, perf/total_num_tokens, ...). Denominators are
/// those of all rows together: they are counted before the first backward pass, so neither the micro-batches nor their
/// sizes show in a bit. evaluate() sets the metrics of the validation set and changes nothing; where ranks have shards
/// of the weights it scores by for_each_scored_group(), or in a gather_full_params().
///
/// A task may have more, and the loop makes use of it:
///   prepare(trainable_model<Device>&)  once, after the weights are loaded or restored and before the first step
///   data_text() const                  which rows train: a run does not go on in its folder with others
///   turn_end(const text::tokenizer&)   the token that ends a taught answer: an EOS of the saved model
///   watch(progress&)                   a line on the terminal to draw phase(name, done, of) on
///   save(path) const                   further files of a checkpoint, into the folder global_step_N being written
///   restore(path)                      the same when a run continues
template <class T, class Device>
concept supervised_task =
    requires(T& task, trainable_model<Device>& model, std::span<const std::uint32_t> rows, metrics& m) {
      { task.train_size() } -> std::convertible_to<std::size_t>;
      { task.eval_size() } -> std::convertible_to<std::size_t>;
      task.update(model, rows, m);
      task.evaluate(model, m);
    };

}  // namespace train

RLCORE_END
