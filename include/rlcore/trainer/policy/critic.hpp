// The value model of PPO: values of a step's responses, and their regression on the returns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/trainer/policy/critic_settings.hpp"
#include "rlcore/trainer/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"
#include "rlcore/trainer/policy/update.hpp"
#include "rlcore/training/scored_groups.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// A score model: the value of a state is read at the token before the response token that it leads to.
template <class Device>
struct critic : trainable_model<Device> {
  critic_settings settings;
  const data::prompt_dataset* prompts = nullptr;  ///< whose pictures the trajectories show; null: there are none

  /// A score model of the shape `config`; `seed` is of a score head that the loaded folder does not have. Null `world`:
  /// there is one rank.
  critic(Device& device, nn::config config, const critic_settings& s, std::size_t logits_bytes, std::uint64_t seed,
         parallel::world* world = nullptr)
      : trainable_model<Device>(device, as_score(std::move(config)),
                                {.adamw = s.adamw,
                                 .logits_bytes = logits_bytes,
                                 .recompute = s.recompute_activations,
                                 .seed = seed,
                                 .decay_norms_and_biases = s.decay_norms_and_biases,
                                 .lora = s.lora,
                                 .freeze_vision_tower = s.freeze_vision_tower,
                                 .save_whole = true},
                                world),
        settings(s) {}

  /// Sets trajectory::value. All ranks that share the weights have to call it.
  void values(std::span<trajectory> batch) {
    packed_trajectories packed;
    std::vector<float> value;
    for_each_scored_group(
        {this->model.units()}, batch.size(), settings.forward_trajectories, settings.forward_tokens,
        [&](std::size_t i) { return batch[i].tokens.size(); },
        [&](std::size_t first, std::size_t last) {
          packed.clear();
          for (std::size_t i = first; i < last; ++i) packed.push_back(batch[i], prompts);
          value.resize(packed.targets.row.size());
          nn::values(this->model, this->space, packed.input(), packed.targets.row, value);
          for (std::size_t i = first; i < last; ++i)
            batch[i].value.assign(value.begin() + packed.offsets[i - first],
                                  value.begin() + packed.offsets[i - first + 1]);
        });
  }

  /// All updates of one step. trajectory::token_return is the target, trajectory::value the old value. `rates` holds
  /// the learning rates of the updates; further updates use the last. Sets critic/*, means over the updates.
  void update(std::span<const trajectory> batch, std::span<const double> rates, random_key order_key, metrics& out) {
    std::vector<const trajectory*> order;
    for (const trajectory& t : batch) order.push_back(&t);
    std::vector<double> loss, clipped, mean, norm;
    std::int64_t skipped = 0;
    double lr = 0;
    for (std::int64_t epoch = 0; epoch < settings.epochs_per_step; ++epoch) {
      if (settings.shuffle_mini_batches) shuffle_rows(order, order_key, epoch);
      const auto size = static_cast<std::size_t>(settings.mini_trajectories);
      for (std::size_t begin = 0; begin < order.size(); begin += size) {
        const auto mini =
            std::span<const trajectory* const>(order).subspan(begin, std::min(size, order.size() - begin));
        this->begin_update();
        const sums s = accumulate(mini);
        lr = rates[std::min(loss.size(), rates.size() - 1)];
        const step_outcome outcome = this->apply(lr, settings.grad_clip);
        skipped += outcome.skipped;
        const auto tokens = static_cast<double>(std::max<std::int64_t>(1, s.tokens));
        loss.push_back(s.loss.value()), clipped.push_back(s.clipped.value() / tokens);
        mean.push_back(s.value.value() / tokens), norm.push_back(outcome.gradient_norm);
      }
    }
    for (const auto& [name, numbers] : {std::pair{"critic/vf_loss", &loss},
                                        {"critic/vf_clipfrac", &clipped},
                                        {"critic/vpred_mean", &mean},
                                        {"critic/grad_norm", &norm}})
      out.set(name, reduce_metric(name, *numbers));
    out.set("critic/lr", lr);
    if (skipped > 0) out.set("critic/skipped_updates", skipped);
  }

 private:
  struct sums {
    exact_sum loss, clipped, value;
    std::int64_t tokens = 0;

    sums& operator+=(const sums& other) {
      loss += other.loss, clipped += other.clipped, value += other.value, tokens += other.tokens;
      return *this;
    }
  };

  static nn::config as_score(nn::config config) {
    config.output = nn::model_output::score;
    return config;
  }

  /// The gradient of the loss over `mini`; its denominators are counted before the first micro-batch.
  sums accumulate(std::span<const trajectory* const> mini) {
    global_counts counts;
    for (const trajectory* t : mini) counts.add_row(t->response_length());
    const clipped_value objective{.range = settings.cliprange_value};
    packed_trajectories packed;
    std::vector<float> old_value, target;
    sums total;
    const auto tokens_of = [&](std::uint32_t i) { return std::ssize(mini[i]->tokens); };
    const auto add = [&](std::span<const std::uint32_t> mine) {
      packed.clear(), old_value.clear(), target.clear();
      for (const std::uint32_t i : mine) {
        packed.push_back(*mini[i], prompts);
        old_value.insert(old_value.end(), mini[i]->value.begin(), mini[i]->value.end());
        target.insert(target.end(), mini[i]->token_return.begin(), mini[i]->token_return.end());
      }
      this->value_forward_backward(
          packed.input(), packed.targets.row, [&](std::span<const float> value, std::span<float> dvalue) {
            const auto flat = [](const auto& x) { return flat_view(std::span(x)); };
            token_batch<float> rows{.value = flat(value), .old_value = flat(old_value), .target = flat(target)};
            rows.offsets = flat(packed.offsets);
            token_gradients<float> gradients;
            gradients.value = flat(dvalue);
            const auto r = evaluate(serial{}, objective, settings.aggregation, rows, counts, gradients);
            total.loss += r.piece[0].aggregated, total.clipped += r.monitor[0].total, total.tokens += r.tokens;
            for (const float v : value) total.value.add(static_cast<double>(v));
          });
    };
    const auto pictures_of = [&](std::uint32_t i) { return grids_of(*mini[i], prompts); };
    this->for_micro_batches(mini.size(), settings.micro_trajectories, settings.micro_tokens, tokens_of, pictures_of,
                            add);
    if (this->world()) parallel::sum_over_ranks(*this->world(), total);
    return total;
  }
};

}  // namespace trainer
RLCORE_END
