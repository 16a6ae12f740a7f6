// The forward work of a policy run: sampling, rewards, log-probs, values. Each rank computes one part, then every rank
// receives the whole. No number depends on the split.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/blend.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/telemetry/stages.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/models.hpp"
#include "rlcore/train/policy/run.hpp"
#include "rlcore/train/policy/trajectory/replay.hpp"
#include "rlcore/train/policy/trajectory/trajectory_bytes.hpp"
#include "rlcore/train/policy/validate.hpp"
#include "rlcore/train/run/interrupt.hpp"

RLCORE_BEGIN
namespace train {

/// The forward work of one rank.
template <class Device>
class rollout_worker {
 public:
  /// All arguments must outlive this object. `stored` responses replace sampling.
  rollout_worker(policy_inputs& in, policy_models<Device>& models, const team& ranks, progress& bar,
                 const replay* stored = nullptr)
      : in_(in), models_(models), ranks_(ranks.world()), bar_(bar), stored_(stored) {
    models_.policy.prompts = &in_.train;
    if (models_.value_model) models_.value_model->prompts = &in_.train;
  }
  rollout_worker(const rollout_worker&) = delete;
  rollout_worker& operator=(const rollout_worker&) = delete;

  /// Samples and scores the round of this number, and adds the log-probs of the policy that sampled it.
  std::vector<trajectory> sample_round(std::int64_t step, std::int64_t number, stages& time) {
    const policy_settings& s = in_.settings;
    const std::vector<std::uint32_t> rows =
        data::rows_of_batch(in_.train.size(), in_.plan.prompts_per_round, number, s.seed, s.shuffle);
    rollout::generation settings = generation(s.sampling);
    settings.weights = s.rollout_weights;
    std::vector<trajectory> round = time("gen", [&] {
      if (stored_ != nullptr) return own_part((*stored_)(step));
      return sample_part(in_.train, rows, s.samples, settings, key_of(s.seed, stream::rollout, number), "rollout");
    });
    time("reward", [&] {
      bar_.phase("reward", 0, 0);
      in_.rewards->score(round, in_.train, in_.tokenizer);
      round = gather_trajectories(workers(), std::move(round));
      pool_counts();
    });
    // Sampling has recorded the old log-probs with the same kernels and bits: a second pass runs only on request.
    if (s.recompute_old_log_prob || stored_ != nullptr) {
      if (stored_ == nullptr)
        for (trajectory& t : round) t.rollout_logp = t.old_logp;
      time("old_log_prob", [&] {
        bar_.phase("old log-probs", 0, 0);
        const bool entropies = stored_ != nullptr;
        constexpr std::array fields{&trajectory::old_logp, &trajectory::entropy};
        compute_own_rows(scorers(), round, std::span(fields).first(entropies ? 2 : 1),
                         [&](std::span<trajectory> shard) {
                           score_trajectories(models_.policy.model, models_.policy.space, shard, s.sampling.temperature,
                                              in_.plan.old_trajectories, in_.plan.old_tokens, &trajectory::old_logp,
                                              entropies ? &trajectory::entropy : nullptr, &in_.train);
                         });
      });
    }
    for (trajectory& t : round) t.sampled_step = step;
    return round;
  }

  /// Sets the estimator's declared inputs and the outputs of the run's models: greedy scores, squared probabilities,
  /// log-probs of the reference, values of the critic.
  void provide(advantage_input inputs, std::vector<trajectory>& batch, std::int64_t step, stages& time) {
    if (contains(inputs, advantage_input::greedy_scores)) score_greedy_answers(batch, step, time);
    if (contains(inputs, advantage_input::sum_squared_probs)) score_squared_probs(batch, time);
    score_reference(batch, time);
    score_values(batch, time);
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
        compute_own_rows(scorers(), rows, std::span(fields), [&](std::span<trajectory> shard) {
          score_trajectories(*models_.reference(), models_.policy.space, shard, in_.settings.sampling.temperature,
                             in_.plan.ref_trajectories, in_.plan.ref_tokens, &trajectory::ref_logp, nullptr,
                             &in_.train);
        });
      };
      if (models_.reference() == &models_.policy.model)
        models_.policy.with_base(score);
      else
        score();
    });
  }

  /// Sets trajectory::sum_squared_probs.
  void score_squared_probs(std::vector<trajectory>& rows, stages& time) {
    time("old_log_prob", [&] {
      bar_.phase("squared probabilities", 0, 0);
      constexpr std::array fields{&trajectory::sum_squared_probs};
      compute_own_rows(scorers(), rows, std::span(fields), [&](std::span<trajectory> shard) {
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
      compute_own_rows(scorers(), rows, std::span(fields),
                       [&](std::span<trajectory> shard) { models_.value_model->values(shard); });
    });
  }

  /// Sets trajectory::greedy_score: the score of the greedy answer to its prompt.
  void score_greedy_answers(std::vector<trajectory>& batch, std::int64_t step, stages& time) {
    rollout::generation settings = generation({0, -1, 1});
    settings.weights = in_.settings.rollout_weights;
    const auto group = static_cast<std::size_t>(in_.settings.samples);
    std::vector<std::uint32_t> rows;
    for (std::size_t i = 0; i < batch.size(); i += group) rows.push_back(batch[i].row);
    std::vector<trajectory> greedy = time("gen_max", [&] {
      return sample_part(in_.train, rows, 1, settings, key_of(in_.settings.seed, stream::greedy, step),
                         "greedy rollout");
    });
    time("reward", [&] {
      in_.rewards->score(greedy, in_.train, in_.tokenizer);
      greedy = gather_trajectories(workers(), std::move(greedy));
      in_.rewards->take_counts();
      metrics unreported;
      in_.rewards->report(unreported);
    });
    for (std::size_t i = 0; i < batch.size(); ++i)
      batch[i].greedy_score = static_cast<float>(greedy[i / group].score());
  }

  /// Sets val-*, and keeps some answers for the report; returns the mean score.
  double validation(std::int64_t step, metrics& m, stages& time) {
    return time("testing", [&] {
      const policy_settings& s = in_.settings;
      std::vector<sample_answer> shown;
      const bool shows = ranks_.first() && s.report;
      const double mean =
          score_validation(sample_part(in_.val, every_row(in_.val), s.val_samples, generation(s.val_sampling),
                                       key_of(s.seed, stream::validation, step), "validation"),
                           in_.tokenizer, in_.val, *in_.rewards, m, &workers(), step, shows ? &shown : nullptr);
      if (shows) keep_sample_answers(s.root, std::move(shown));
      in_.rewards->take_counts();
      metrics counted;
      in_.rewards->report(counted);  // the reward/* of a step describe its own responses only
      return mean;
    });
  }

  /// reward/* of the rounds since the last call.
  void report_rewards(metrics& m) {
    for (const std::vector<double>& counts : counts_) in_.rewards->add_counts(counts);
    counts_.clear();
    in_.rewards->report(m);
  }

 private:
  /// The ranks that score answers. Each scores the rows that it samples, alone or with its group.
  parallel::any_communicator& workers() { return models_.rollout ? ranks_.all() : ranks_.sums(); }
  /// The ranks that compute log-probs. Ranks that share a sequence in training compute them together.
  parallel::any_communicator& scorers() { return ranks_.data(); }

  rollout::generation generation(const rollout::sampling& sampling) const {
    const policy_settings& s = in_.settings;
    return {
        sampling,        s.max_response_length, in_.eos_ids, s.max_sequences, s.max_batched_tokens, s.max_cache_bytes,
        s.share_prompts, s.chunk_prompts,       {},          s.rules};
  }

  row_range own_share(std::size_t prompts, std::int64_t samples) {
    return share_of_responses(prompts, static_cast<std::size_t>(samples), static_cast<std::size_t>(workers().size()),
                              static_cast<std::size_t>(workers().rank()));
  }
  /// This rank's part of the answers to `rows`. Where training shards the weights, they are gathered only for this
  /// call.
  std::vector<trajectory> sample_part(const data::prompt_dataset& prompts, std::span<const std::uint32_t> rows,
                                      std::int64_t samples, const rollout::generation& settings, random_key key,
                                      const char* phase) {
    const auto answers = [&](const nn::causal_lm<Device>& model, const row_range& shard) {
      return sample(
          models_.policy.engine, model, models_.policy.space, prompts, rows, samples, settings, key,
          [&](std::size_t done) {
            bar_.phase(phase, done, shard.size());
            // Several ranks finish the step, since they would wait for each other.
            if (asked_to_stop() != 0 && ranks_.all().size() == 1 && &prompts == &in_.train)
              throw sampling_interrupted();
          },
          shard);
    };
    if (!models_.rollout) {
      [[maybe_unused]] const auto whole = models_.policy.gather_full_params();
      return answers(models_.policy.model, own_share(rows.size(), samples));
    }
    rollout_model<Device>& group = *models_.rollout;
    const auto number = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    std::vector<trajectory> answered = [&] {
      const rollout_weights<Device> filled(group);
      return answers(group.model(),
                     share_of_responses(rows.size(), number(samples), number(group.groups()), number(group.group())));
    }();
    const row_range shard = even_share(answered.size(), number(group.size()), number(group.rank()));
    return part_of(std::move(answered), shard);
  }
  static std::vector<trajectory> part_of(std::vector<trajectory> rows, const row_range& shard) {
    const auto at = [&](std::size_t i) {
      return std::make_move_iterator(rows.begin() + static_cast<std::ptrdiff_t>(i));
    };
    return {at(shard.first), at(shard.last)};
  }
  std::vector<trajectory> own_part(std::vector<trajectory> rows) {
    const auto group = static_cast<std::size_t>(in_.settings.samples);
    const row_range shard =
        rows.size() % group == 0 ? own_share(rows.size() / group, in_.settings.samples) : own_share(rows.size(), 1);
    return part_of(std::move(rows), shard);
  }

  /// Gathers the counts that the ranks' reward sources made while they scored a round.
  void pool_counts() {
    if (workers().size() == 1) return;
    std::vector<double> mine = in_.rewards->take_counts();
    mine.insert(mine.begin(), static_cast<double>(mine.size()));
    const std::vector<double> pooled = gather_parts(workers(), std::span<const double>(mine));
    for (std::size_t at = 0; at < pooled.size();) {
      const auto n = static_cast<std::size_t>(pooled[at]);
      const auto from = pooled.begin() + static_cast<std::ptrdiff_t>(at + 1);
      if (n > 0) counts_.emplace_back(from, from + static_cast<std::ptrdiff_t>(n));
      at += n + 1;
    }
  }

  policy_inputs& in_;
  policy_models<Device>& models_;
  parallel::world& ranks_;
  progress& bar_;
  const replay* stored_;
  std::vector<std::vector<double>> counts_;
};

}  // namespace train
RLCORE_END
