// Log-probs and values of a step's responses: of the policy, the reference and the critic. Each rank computes those of
// some rows, then every rank receives all. No number depends on the split.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/models.hpp"
#include "rlcore/train/policy/trajectory/trajectory_bytes.hpp"

RLCORE_BEGIN
namespace train {

/// The scoring passes of one rank.
template <class Device>
class response_scorer {
 public:
  /// All arguments must outlive this object.
  response_scorer(policy_inputs& in, policy_models<Device>& models, const team& ranks, progress& bar)
      : in_(in), models_(models), ranks_(ranks.world()), bar_(bar) {
    models_.policy.prompts = &in_.train;
    if (models_.value_model) models_.value_model->prompts = &in_.train;
  }
  response_scorer(const response_scorer&) = delete;
  response_scorer& operator=(const response_scorer&) = delete;

  /// Sets trajectory::old_logp by a pass of the policy, and trajectory::entropy if `entropies`.
  void score_old(std::vector<trajectory>& rows, bool entropies, stages& time) {
    time("old_log_prob", [&] {
      bar_.phase("old log-probs", 0, 0);
      constexpr std::array fields{&trajectory::old_logp, &trajectory::entropy};
      own_rows(rows, std::span(fields).first(entropies ? 2 : 1), [&](std::span<trajectory> shard) {
        score_trajectories(models_.policy.model, models_.policy.space, shard, in_.settings.sampling.temperature,
                           in_.plan.old_trajectories, in_.plan.old_tokens, &trajectory::old_logp,
                           entropies ? &trajectory::entropy : nullptr, &in_.train);
      });
    });
  }

  /// Sets trajectory::ref_logp where a KL needs it and it is missing, or trajectory::kept_ref.
  void score_reference(std::vector<trajectory>& rows, stages& time) {
    if (models_.reference() == nullptr || std::all_of(rows.begin(), rows.end(), [](const trajectory& t) {
          return t.ref_logp.size() == t.old_logp.size();
        }))
      return;
    time("ref", [&] {
      bar_.phase("reference", 0, 0);
      const auto score = [&] {
        if (models_.reference_stays())
          return keep_reference(models_.policy, *models_.reference(), std::span(rows),
                                in_.settings.sampling.temperature, in_.plan.ref_trajectories, in_.plan.ref_tokens);
        constexpr std::array fields{&trajectory::ref_logp};
        own_rows(rows, std::span(fields), [&](std::span<trajectory> shard) {
          score_trajectories(*models_.reference(), models_.policy.space, shard, in_.settings.sampling.temperature,
                             in_.plan.ref_trajectories, in_.plan.ref_tokens, &trajectory::ref_logp, nullptr, &in_.train,
                             false);
        });
      };
      if (models_.reference() == &models_.policy.model)
        models_.policy.with_base(score);
      else
        models_.with_reference(score);
    });
  }

  /// Sets trajectory::sum_squared_probs.
  void score_squared_probs(std::vector<trajectory>& rows, stages& time) {
    time("old_log_prob", [&] {
      bar_.phase("squared probabilities", 0, 0);
      constexpr std::array fields{&trajectory::sum_squared_probs};
      own_rows(rows, std::span(fields), [&](std::span<trajectory> shard) {
        sum_squared_probs(models_.policy.model, models_.policy.space, shard, in_.settings.sampling.temperature,
                          in_.plan.old_trajectories, in_.plan.old_tokens, &in_.train);
      });
    });
  }

  /// Sets trajectory::value with the critic.
  void score_values(std::vector<trajectory>& rows, stages& time) {
    if (!models_.value_model) return;
    time("values", [&] {
      bar_.phase("values", 0, 0);
      constexpr std::array fields{&trajectory::value};
      own_rows(rows, std::span(fields), [&](std::span<trajectory> shard) { models_.value_model->values(shard); });
    });
  }

 private:
  /// Ranks that share a sequence in training compute its log-probs together.
  template <class Compute>
  void own_rows(std::vector<trajectory>& rows, std::span<std::vector<float> trajectory::* const> fields,
                Compute&& compute) {
    compute_own_rows(ranks_.data(), rows, fields, compute, &ranks_);
  }

  policy_inputs& in_;
  policy_models<Device>& models_;
  parallel::world& ranks_;
  progress& bar_;
};

}  // namespace train
RLCORE_END
