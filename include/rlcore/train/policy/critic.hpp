// The value model of PPO: its settings, values of a step's responses, and their regression on the returns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/device/arrays.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/verl.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/policy/update.hpp"

RLCORE_BEGIN
namespace train {

/// How the critic is trained; read_critic_settings() fills it in.
struct critic_settings {
  std::string model_path;  ///< empty: the actor's
  bool recompute_activations = true;
  double lr = 1e-5, grad_clip = 1, cliprange_value = 0.5;
  optim::adamw_settings adamw;
  optim::schedule schedule;
  any_aggregation aggregation;
  std::int64_t mini_trajectories = 0;                     ///< of one update
  std::int64_t micro_trajectories = 0, micro_tokens = 0;  ///< largest number in one forward and backward; 0: no limit
  std::int64_t forward_trajectories = 0, forward_tokens = 0;  ///< the same where values are only read
  std::int64_t epochs_per_step = 1, keep = 0;
  bool shuffle_mini_batches = false, decay_norms_and_biases = true;
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;

  /// The number of updates of a step with `trajectories` trajectories.
  std::int64_t updates(std::int64_t trajectories) const noexcept {
    return (trajectories + mini_trajectories - 1) / mini_trajectories * epochs_per_step;
  }
};

/// Empty if the run has no critic: decided by critic.enable, and if that is null, by whether the advantages read
/// values. Throws config_error if they do and critic.enable is False.
std::optional<critic_settings> read_critic_settings(const options& opt, const batch_plan& plan, bool reads_values);

/// A score model: the value of a state is read at the token before the response token that it leads to.
template <class Device>
struct critic : trainable_model<Device> {
  critic_settings settings;
  const data::prompt_dataset* prompts = nullptr;  ///< source of the images; null: none

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

  /// Sets trajectory::value. Collective over all ranks that share the weights.
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
        const step_outcome outcome = this->apply({.lr = lr, .grad_clip = settings.grad_clip});
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

  /// Inputs of a micro-batch's loss besides the values of the pass.
  struct value_rows {
    packed_trajectories packed;
    std::vector<float> old_value, target;

    void push_back(const trajectory& t, const data::prompt_dataset* shown) {
      packed.push_back(t, shown);
      old_value.insert(old_value.end(), t.value.begin(), t.value.end());
      target.insert(target.end(), t.token_return.begin(), t.token_return.end());
    }
    /// With fields that lie where the values do.
    token_batch<float> batch(std::span<const float> value, std::span<const float> old,
                             std::span<const float> targets) const {
      token_batch<float> rows{.value = flat_view(value), .old_value = flat_view(old), .target = flat_view(targets)};
      rows.offsets = flat_view(std::span(packed.offsets));
      return rows;
    }
  };

  /// The gradient of the loss over `mini`; its denominators are counted before the first micro-batch.
  sums accumulate(std::span<const trajectory* const> mini) {
    global_counts counts;
    for (const trajectory* t : mini) counts.add_row(t->policy_length());
    sums total = loss_stays_on_device(*this) ? sums_on_device(mini, counts) : sums_on_host(mini, counts);
    if (this->world()) parallel::sum_over_ranks(*this->world(), total);
    return total;
  }

  /// f(rows) for every micro-batch of `mini`.
  template <class F>
  void for_value_rows(std::span<const trajectory* const> mini, F&& f) {
    const auto tokens_of = [&](std::uint32_t i) { return std::ssize(mini[i]->tokens); };
    const auto images_of = [&](std::uint32_t i) { return grids_of(*mini[i], prompts); };
    this->for_micro_batches(
        {.rows = mini.size(), .max_rows = settings.micro_trajectories, .max_tokens = settings.micro_tokens}, tokens_of,
        images_of, [&](std::span<const std::uint32_t> mine) {
          value_rows rows;
          for (const std::uint32_t i : mine) rows.push_back(*mini[i], prompts);
          f(rows);
        });
  }

  sums sums_on_host(std::span<const trajectory* const> mini, const global_counts& counts) {
    const clipped_value objective{.range = settings.cliprange_value};
    sums total;
    for_value_rows(mini, [&](const value_rows& rows) {
      this->value_forward_backward(
          rows.packed.input(), rows.packed.targets.row, [&](std::span<const float> value, std::span<float> dvalue) {
            token_gradients<float> gradients;
            gradients.value = flat_view(dvalue);
            const auto r = evaluate(serial{}, objective, settings.aggregation,
                                    rows.batch(value, rows.old_value, rows.target), counts, gradients);
            total.loss += r.piece[0].aggregated, total.clipped += r.monitor[0].total, total.tokens += r.tokens;
            for (const float v : value) total.value.add(static_cast<double>(v));
          });
    });
    return total;
  }

  /// The same in the memory of the device.
  sums sums_on_device(std::span<const trajectory* const> mini, const global_counts& counts) {
    if constexpr (loss_device<Device> && !Device::host_readable) {
      Device& device = this->model.device();
      const auto objective = measure_at_first(clipped_value{.range = settings.cliprange_value}, predicted_value{});
      step_loss<Device, std::remove_const_t<decltype(objective)>, any_aggregation> loss(
          device, objective, settings.aggregation, counts, counts.rows());
      for_value_rows(mini, [&](const value_rows& rows) {
        const auto slopes = [&](auto value, auto dvalue) {
          const auto old_value = to_device(device, rows.old_value), target = to_device(device, rows.target);
          token_gradients<float> gradients;
          gradients.value = flat_view(span_of(dvalue));
          loss.add(rows.batch(span_of(value), span_of(old_value), span_of(target)), gradients);
        };
        this->value_forward_backward(rows.packed.input(), rows.packed.targets.row, nn::slopes_on_device{slopes});
      });
      const auto r = loss.report();
      return {r.piece[0].aggregated, r.monitor[0].total, r.monitor[1].total, r.tokens};
    } else {
      return {};
    }
  }
};

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::optional<critic_settings> read_critic_settings(const options& opt, const batch_plan& plan,
                                                                  bool reads_values) {
  const bool wanted = opt.find<bool>("critic.enable").value_or(reads_values);
  if (reads_values && !wanted)
    throw config_error("critic.enable=False: algorithm.adv_estimator=" +
                       opt.get<std::string>("algorithm.adv_estimator") + " reads the values of a critic");
  if (!wanted) return std::nullopt;
  critic_settings s;
  s.model_path = opt.find<std::string>("critic.model.path").value_or("");
  s.recompute_activations = opt.get<bool>("critic.model.enable_gradient_checkpointing");
  s.lr = opt.get<double>("critic.optim.lr");
  s.adamw = read_adamw(opt, "critic.optim.");
  s.adamw.moments = read_critic_moment_place(opt);
  s.schedule = read_schedule(opt, "critic.optim.");
  s.decay_norms_and_biases = opt.get<bool>("rlcore.decay_norms_and_biases");
  s.grad_clip = opt.get<double>("critic.grad_clip");
  s.cliprange_value = opt.get<double>("critic.cliprange_value");
  s.aggregation = read_aggregation(opt, "critic.loss_agg_mode",
                                   static_cast<double>(opt.get<std::int64_t>("data.max_response_length")));
  s.mini_trajectories =
      std::min(opt.get<std::int64_t>("critic.ppo_mini_batch_size"), plan.prompts_per_step) * plan.samples_per_prompt;
  const std::int64_t sequence = opt.get<std::int64_t>("critic.ulysses_sequence_parallel_size");
  if (opt.get<bool>("critic.use_dynamic_bsz")) {
    s.micro_tokens = opt.get<std::int64_t>("critic.ppo_max_token_len_per_gpu") * sequence;
    s.forward_tokens = opt.get<std::int64_t>("critic.forward_max_token_len_per_gpu") * sequence;
  } else {
    const std::int64_t ranks = std::max<std::int64_t>(1, plan.devices / sequence);
    s.micro_trajectories = detail::micro_size(opt, "critic.ppo_micro_batch_size", ranks);
    s.forward_trajectories = detail::micro_size(opt, "critic.forward_micro_batch_size", ranks);
    if (s.forward_trajectories == 0) s.forward_trajectories = s.micro_trajectories;
  }
  s.epochs_per_step = opt.get<std::int64_t>("critic.ppo_epochs");
  s.shuffle_mini_batches = opt.get<bool>("critic.shuffle");
  s.lora = read_lora(opt, "critic.model.", static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.seed")));
  s.freeze_vision_tower = opt.get<bool>("critic.model.freeze_vision_tower");
  s.keep = opt.find<std::int64_t>("trainer.max_critic_ckpt_to_keep").value_or(0);
  s.schedule.total_steps =
      plan.total_steps * (opt.get<bool>("rlcore.lr_per_update") ? s.updates(plan.trajectories_per_step) : 1);
  s.schedule.warmup_steps = detail::warmup_steps(opt, "critic.optim.", s.schedule.total_steps);
  return s;
}

}  // namespace train
RLCORE_END
#endif
