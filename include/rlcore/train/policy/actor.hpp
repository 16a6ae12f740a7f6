// Actor: the trained policy and its rollout engine.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The trained model with its engine.
template <class Device>
struct actor : trainable_model<Device> {
  rollout::engine<Device> engine;
  const data::prompt_dataset* prompts = nullptr;  ///< source of the images; null: none
  buffer<float, Device> kept_ref;                 ///< log-probs of the reference of a step, see keep_reference()

  /// A model of the shape `config`, trained as `s` says; load its weights next. Null `world`: there is one rank.
  actor(Device& device, const nn::config& config, const policy_settings& s, parallel::world* world = nullptr)
      : trainable_model<Device>(device, config,
                                {.adamw = s.adamw,
                                 .logits_bytes = s.logits_bytes,
                                 .recompute = s.recompute_activations,
                                 .decay_norms_and_biases = s.decay_norms_and_biases,
                                 .lora = s.lora,
                                 .freeze_vision_tower = s.freeze_vision_tower,
                                 .base_name = s.model_path,
                                 .save_whole = s.save_whole},
                                world) {}
};

/// Log-probs of every response token under `model`, written to `field` of each trajectory; entropies to `entropy`, if
/// it is given. At most `max_rows` rows (0: no limit) and, except for a longer one, `max_tokens` tokens (0: no limit)
/// go through the model together. Images are those of `prompts`. Tokens go to trajectory::routed_experts where
/// `of_policy`. Collective over all ranks that share the model's weights.
template <class Device>
void score_trajectories(nn::causal_lm<Device>& model, nn::workspace<Device>& space, std::span<trajectory> rows,
                        float temperature, std::int64_t max_rows, std::int64_t max_tokens,
                        std::vector<float> trajectory::* field, std::vector<float> trajectory::* entropy = nullptr,
                        const data::prompt_dataset* prompts = nullptr, bool of_policy = true) {
  packed_trajectories packed;
  std::vector<float> logp, entropies;
  const auto tokens_of = [&](std::size_t i) { return rows[i].tokens.size(); };
  for_each_scored_group({model.units()}, rows.size(), max_rows, max_tokens, tokens_of,
                        [&](std::size_t first, std::size_t last) {
                          packed.clear();
                          for (std::size_t i = first; i < last; ++i) packed.push_back(rows[i], prompts);
                          logp.resize(packed.targets.row.size());
                          entropies.resize(entropy != nullptr ? logp.size() : 0);
                          nn::log_probs(model, space, of_policy ? packed.policy_input() : packed.input(),
                                        packed.targets, temperature, logp, entropies);
                          for (std::size_t i = first; i < last; ++i) {
                            const auto from = packed.offsets[i - first], to = packed.offsets[i - first + 1];
                            (rows[i].*field).assign(logp.begin() + from, logp.begin() + to);
                            if (entropy != nullptr)
                              (rows[i].*entropy).assign(entropies.begin() + from, entropies.begin() + to);
                          }
                        });
}

/// Log-probs of every response token under the reference `model`, for updates whose loss is computed on the device:
/// they stay in a.kept_ref, from trajectory::kept_ref on. Otherwise as score_trajectories(). Needs a device that runs
/// losses, and one rank.
template <class Device>
void keep_reference(actor<Device>& a, nn::causal_lm<Device>& model, std::span<trajectory> rows, float temperature,
                    std::int64_t max_rows, std::int64_t max_tokens) {
  std::int64_t total = 0;
  for (trajectory& t : rows) t.ref_logp.clear(), t.kept_ref = total, total += t.policy_length();
  if (std::ssize(a.kept_ref) < total) a.kept_ref = {model.device(), static_cast<std::size_t>(total)};
  packed_trajectories packed;
  for_each_scored_group(
      {model.units()}, rows.size(), max_rows, max_tokens, [&](std::size_t i) { return rows[i].tokens.size(); },
      [&](std::size_t first, std::size_t last) {
        packed.clear();
        for (std::size_t i = first; i < last; ++i) packed.push_back(rows[i], a.prompts);
        float* to = a.kept_ref.data() + (first < last ? rows[first].kept_ref : 0);
        nn::log_probs(model, a.space, packed.input(), packed.targets, temperature,
                      {to, {std::ssize(packed.targets.row)}});
      });
}

/// sum_v p_v^2 of the old policy at every response token, to trajectory::sum_squared_probs. Since the log-prob of a
/// token at half the temperature is 2 z - logsumexp(2 z), the sum is exp(2 log p - that): one more scoring pass.
template <class Device>
void sum_squared_probs(nn::causal_lm<Device>& model, nn::workspace<Device>& space, std::span<trajectory> rows,
                       float temperature, std::int64_t max_rows, std::int64_t max_tokens,
                       const data::prompt_dataset* prompts = nullptr) {
  score_trajectories(model, space, rows, temperature / 2, max_rows, max_tokens, &trajectory::sum_squared_probs, nullptr,
                     prompts);
  for (trajectory& t : rows)
    for (std::size_t i = 0; i < t.old_logp.size(); ++i)
      t.sum_squared_probs[i] = static_cast<float>(
          elementary::exp(2 * static_cast<double>(t.old_logp[i]) - static_cast<double>(t.sum_squared_probs[i])));
}

}  // namespace train
RLCORE_END
