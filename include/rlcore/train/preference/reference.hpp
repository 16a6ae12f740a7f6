// Reference model of preference training, and its log-probs of packed answers.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/supervised/base_model.hpp"
#include "rlcore/train/supervised/task.hpp"

RLCORE_BEGIN
namespace train {

/// packed_answers whose prompts may have images.
struct answers_with_images : packed_answers {
  shown_images images;

  /// The input of a pass.
  nn::input input() const noexcept { return images.with(inputs); }

  void clear() { packed_answers::clear(), images.clear(); }
  /// Appends a row of prompt and answer; `cache` makes the patches of its `encoded` images.
  void push_back(std::span<const std::int32_t> tokens, std::size_t prompt_length,
                 std::span<const data::image_pointer> encoded, data::image_cache* cache) {
    packed_answers::push_back(tokens, prompt_length);
    images.push_back(encoded, cache);
  }
};

/// Log-probs of every answer token under `model`, into `out`.
template <class Device>
void score_answers(nn::causal_lm<Device>& model, nn::workspace<Device>& space, const answers_with_images& rows,
                   std::vector<float>& out) {
  out.resize(rows.targets.row.size());
  nn::log_probs(model, space, rows.input(), rows.targets, 1.0f, out, {});
}

/// A second model, or with LoRA the trained model without its adapter.
template <class Device>
class reference_model {
 public:
  /// `frozen` nullptr: the trained model without its adapter.
  explicit reference_model(nn::causal_lm<Device>* frozen) : frozen_(frozen) {}

  /// Log-probs of every answer token under the reference, into `out`.
  void operator()(trainable_model<Device>& model, const answers_with_images& rows, std::vector<float>& out) const {
    if (frozen_ != nullptr) return score_answers(*frozen_, model.space, rows, out);
    model.with_base([&] { score_answers(model.model, model.space, rows, out); });
  }
  /// The source of its weights, if they are sharded; `model` is the trained one.
  nn::unit_source* units(const trainable_model<Device>& model) const noexcept {
    return (frozen_ != nullptr ? *frozen_ : model.model).units();
  }

 private:
  nn::causal_lm<Device>* frozen_;
};

/// The reference's log-probs of a data set's answers: computed when first asked for, then kept.
class reference_log_probs {
 public:
  /// Row i has lengths[i] answer tokens.
  explicit reference_log_probs(const std::vector<std::size_t>& lengths) : known_(lengths.size(), false) {
    for (const std::size_t n : lengths) begin_.push_back(begin_.back() + n);
  }

  /// Computes the missing log-probs of `rows` for all ranks of `model`, which share the work. At most `rows_per_pass`
  /// rows go through the model at a time; pack(rows, answers) packs their answers.
  template <class Device, class Pack>
  void require(std::span<const std::uint32_t> rows, std::int64_t rows_per_pass, trainable_model<Device>& model,
               const reference_model<Device>& reference, Pack&& pack) {
    std::vector<std::uint32_t> unknown;
    for (const std::uint32_t row : rows)
      if (!known_[row]) unknown.push_back(row), known_[row] = true;
    if (unknown.empty()) return;
    values_.resize(begin_.back());
    const row_range shard = own_rows(model, unknown.size(), [&](std::size_t i) { return length(unknown[i]); });
    std::vector<float> fresh, some;
    answers_with_images batch;
    for_each_scored_group(
        {reference.units(model)}, shard.size(), rows_per_pass, 0, [](std::size_t) { return 0; },
        [&](std::size_t first, std::size_t last) {
          pack(std::span<const std::uint32_t>(unknown).subspan(shard.first + first, last - first), batch);
          reference(model, batch, some);
          fresh.insert(fresh.end(), some.begin(), some.end());
        });
    gather_rows(model, fresh);
    auto from = fresh.begin();
    for (const std::uint32_t row : unknown) {
      const auto n = static_cast<std::ptrdiff_t>(length(row));
      std::copy(from, from + n, values_.begin() + static_cast<std::ptrdiff_t>(begin_[row]));
      from += n;
    }
  }

  /// Copies the log-probs of `rows` into `out`; require() must have computed them.
  void copy_to(std::span<const std::uint32_t> rows, std::vector<float>& out) const {
    out.clear();
    for (const std::uint32_t row : rows)
      out.insert(out.end(), values_.begin() + static_cast<std::ptrdiff_t>(begin_[row]),
                 values_.begin() + static_cast<std::ptrdiff_t>(begin_[row + 1]));
  }

 private:
  std::size_t length(std::uint32_t row) const noexcept { return begin_[row + 1] - begin_[row]; }

  std::vector<std::size_t> begin_{0};
  std::vector<bool> known_;
  std::vector<float> values_;
};

/// The answers of a data set, for learn_answers() and judge_answers(): their cost, packing, and reference log-probs.
template <class Set>
concept answer_set =
    requires(Set& set, std::uint32_t row, std::span<const std::uint32_t> rows, answers_with_images& to) {
      { set.tokens_of(row) } -> std::convertible_to<std::int64_t>;
      { set.images_of(row) } -> std::convertible_to<std::vector<nn::image_patches>>;
      set.pack(rows, to);
      { set.reference } -> std::convertible_to<reference_log_probs&>;
    };

/// Calls f(rows, answers, log-probs) for every micro-batch of an optimizer step (trainable_model::for_micro_batches());
/// f does one forward and backward pass. The log-probs are the reference's.
template <class Device, answer_set Set, class F>
void learn_answers(Set& set, std::span<const std::uint32_t> rows, std::int64_t rows_per_pass,
                   trainable_model<Device>& model, const reference_model<Device>& reference, F&& f) {
  const auto pack = [&](std::span<const std::uint32_t> some, answers_with_images& to) { set.pack(some, to); };
  set.reference.require(rows, rows_per_pass, model, reference, pack);
  answers_with_images batch;
  std::vector<float> ref;
  std::vector<std::uint32_t> group;
  model.for_micro_batches(
      {.rows = rows.size(), .max_rows = rows_per_pass}, [&](std::size_t i) { return set.tokens_of(rows[i]); },
      [&](std::size_t i) { return set.images_of(rows[i]); },
      [&](std::span<const std::uint32_t> micro_batch) {
        group.clear();
        for (const std::uint32_t i : micro_batch) group.push_back(rows[i]);
        set.reference.copy_to(group, ref);
        set.pack(std::span<const std::uint32_t>(group), batch);
        f(std::span<const std::uint32_t>(group), std::as_const(batch), std::span<const float>(ref));
      });
}

/// The same for an evaluation: each rank scores its own_rows() with f, in packed groups (for_each_scored_group).
template <class Device, answer_set Set, class F>
void judge_answers(Set& set, std::span<const std::uint32_t> rows, std::int64_t rows_per_pass,
                   trainable_model<Device>& model, const reference_model<Device>& reference, F&& f) {
  const auto pack = [&](std::span<const std::uint32_t> some, answers_with_images& to) { set.pack(some, to); };
  set.reference.require(rows, rows_per_pass, model, reference, pack);
  const row_range shard = own_rows(model, rows.size(), [&](std::size_t i) { return set.tokens_of(rows[i]); });
  answers_with_images batch;
  std::vector<float> ref;
  for_each_scored_group(
      {model.model.units()}, shard.size(), rows_per_pass, 0, [](std::size_t) { return 0; },
      [&](std::size_t first, std::size_t last) {
        const auto group = rows.subspan(shard.first + first, last - first);
        set.reference.copy_to(group, ref);
        set.pack(group, batch);
        f(group, std::as_const(batch), std::span<const float>(ref));
      });
}

/// The result of load_reference().
template <class Device>
struct loaded_reference : frozen_model<Device> {
  using frozen_model<Device>::frozen_model;
};

template <class Device>
std::shared_ptr<loaded_reference<Device>> load_reference(Device& device, const options& opt, const base_model& base,
                                                         const team& ranks) {
  const std::string name = opt.find<std::string>("ref_pretrain").value_or("");
  const bool separate = !name.empty() && named_model(opt, "ref_pretrain") != base.folder;
  if (!separate && opt.get<std::int64_t>("lora_rank") > 0) return nullptr;
  const base_model from = separate ? open_base_model(opt, "ref_pretrain") : base;
  if (from.config.vocab_size != base.config.vocab_size)
    throw config_error("--ref_pretrain: the reference has " + std::to_string(from.config.vocab_size) +
                       " tokens, the model " + std::to_string(base.config.vocab_size));
  auto model = std::make_shared<loaded_reference<Device>>(device, from.config, &ranks.world(), true);  // only scored
  load_weights(*model, from.folder);
  return model;
}

}  // namespace train

RLCORE_END
