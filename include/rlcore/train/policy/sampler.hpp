// The responses of a policy run and their rewards. Each rank samples and scores some, then every rank receives all. No
// number depends on the split.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/blend.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/train/policy/ahead.hpp"
#include "rlcore/train/policy/asynchronous.hpp"
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

/// Samples the responses of one rank.
template <class Device>
class response_sampler {
 public:
  /// All arguments must outlive this object. `stored` responses replace sampling.
  response_sampler(policy_inputs& in, policy_models<Device>& models, const team& ranks, progress& bar,
                   replay* stored = nullptr)
      : in_(in),
        models_(models),
        ranks_(ranks.world()),
        bar_(bar),
        stored_(stored),
        ahead_space_(models.policy.model.device(), in.settings.logits_bytes) {}
  response_sampler(const response_sampler&) = delete;
  response_sampler& operator=(const response_sampler&) = delete;

  /// Samples and scores the round of this number. Sampling records the log-probs of the policy.
  std::vector<trajectory> sample_round(std::int64_t step, std::int64_t number, stages& time) {
    std::vector<trajectory> round = time("gen", [&] {
      if (stored_ != nullptr) {
        if (stored_->waits()) bar_.phase("waiting for " + std::to_string(step) + ".jsonl", 0, 0);
        return own_part((*stored_)(step));
      }
      return sample_part(in_.train, rows_of_round(number), in_.settings.samples, training_generation(),
                         key_of(in_.settings.seed, stream::rollout, number), "rollout");
    });
    score(round, time);
    for (trajectory& t : round)
      if (t.sampled_step == 0) t.sampled_step = step;
    return round;
  }

  /// Appends the responses to the prompts at `first` and behind it in the order of the data; none of them has a token.
  void begin_groups(std::int64_t first, std::int64_t count, std::vector<trajectory>& rows) const {
    std::vector<std::uint32_t> round;
    for (std::int64_t at = first; at < first + count; ++at) {
      const std::int64_t in_round = at % in_.plan.prompts_per_round;
      if (round.empty() || in_round == 0) round = rows_of_round(round_of(at));
      for (std::int64_t i = 0; i < in_.settings.samples; ++i) {
        trajectory& t = rows.emplace_back();
        t.row = round[static_cast<std::size_t>(in_round)];
        t.sample = static_cast<std::uint32_t>(i), t.position = at;
        t.tokens = in_.train[t.row].ids;
        t.prompt_length = static_cast<std::int32_t>(t.tokens.size());
        t.reason = rollout::finish::paused;
      }
    }
  }
  /// Draws on the paused ones of `rows`, groups in the order of the data that every rank has, in windows until
  /// may_pause(complete) holds, which is asked with one flag for each of `rows`; without it to their ends.
  void draw_on(std::vector<trajectory>& rows, std::int64_t step, const common_windows::condition& may_pause,
               stages& time) {
    time("gen", [&] {
      const auto place = [](const trajectory& t) { return std::pair(t.position, t.sample); };
      std::vector<char> complete;
      for (const trajectory& t : rows) complete.push_back(!t.paused());
      std::vector<std::size_t> drawn;  // of `rows`, by this rank
      std::vector<trajectory> mine = with_weights(
          in_.settings.rollout_weights, [&](const nn::causal_lm<Device>& model, std::int64_t parts, std::int64_t part) {
            // Whole groups, which share their prompts, if there is one for each part.
            const std::size_t unit = std::ssize(rows) / in_.settings.samples >= parts ? group_size() : 1;
            std::vector<std::int64_t> paused(rows.size() / unit);
            for (std::size_t i = 0; i < rows.size(); ++i) paused[i / unit] += !complete[i];
            const row_range own =
                share_by_cost(paused, static_cast<std::size_t>(parts), static_cast<std::size_t>(part));
            for (std::size_t i = own.first * unit; i < own.last * unit; ++i)
              if (!complete[i]) drawn.push_back(i);
            std::optional<common_windows> windows;
            if (may_pause) windows.emplace(workers(), drawn, complete, may_pause);
            return draw_rest(model, rows, drawn, step, windows ? &*windows : nullptr);
          });
      for (trajectory& t : gather_trajectories(workers(), std::move(mine)))
        *std::ranges::lower_bound(rows, place(t), {}, place) = std::move(t);
    });
  }
  /// Scores complete groups that every rank has.
  void score_groups(std::vector<trajectory>& groups, stages& time) {
    groups = own_part(std::move(groups));
    score(groups, time);
  }

  /// Begins to draw the round of this number from the current weights, beside training, in step `step`.
  void begin_ahead(std::int64_t step, std::int64_t number, stages& time) {
    time("sync_rollout_weights", [&] { models_.rollout->fill(in_.settings.rollout_weights); });
    ahead_step_ = step;
    time("gen", [&] {
      ahead_.emplace([this, number](device_turns& device) {
        const std::unique_ptr<agent::conversations> talks = open_conversations(in_.train);
        std::optional<patient_turns> turns;
        if (talks) turns.emplace(*talks, device);
        const std::vector<std::uint32_t> rows = rows_of_round(number);
        std::vector<trajectory> drawn = sample(
            ahead_engine_, models_.rollout->model(), ahead_space_, in_.train, rows, in_.settings.samples,
            training_generation(), key_of(in_.settings.seed, stream::rollout, number),
            [&](std::size_t) { device.check(); }, own_share(rows.size(), in_.settings.samples),
            turns ? &*turns : nullptr);
        if (talks) note_conversations(drawn, *talks), say_failure(*talks);
        return drawn;
      });
    });
  }
  /// Whether a round has been begun and not been taken.
  bool has_ahead() const noexcept { return ahead_.has_value(); }
  /// Lets the drawing of the next round go on.
  void pause() {
    if (ahead_) ahead_->pause();
  }
  /// That round, complete and scored.
  std::vector<trajectory> take_ahead(stages& time) {
    std::vector<trajectory> round = time("wait_prev_gen", [&] {
      bar_.phase("rollout", 0, 0);
      join_ahead();
      return ahead_->take();
    });
    ahead_.reset();
    score(round, time);
    for (trajectory& t : round) t.sampled_step = ahead_step_;
    return round;
  }

  /// Sets trajectory::greedy_score: the score of the greedy answer to its prompt.
  void score_greedy_answers(std::vector<trajectory>& batch, std::int64_t step, stages& time) {
    rollout::generation settings = training_generation();
    settings.sampling = {0, -1, 1};
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
  rollout::generation generation(const rollout::sampling& sampling) const {
    const policy_settings& s = in_.settings;
    return {sampling,        s.max_response_length, in_.eos_ids,
            s.max_sequences, s.max_batched_tokens,  models_.max_cache_bytes,
            s.share_prompts, s.chunk_prompts,       {},
            s.rules};
  }

  /// That of training responses.
  rollout::generation training_generation() const {
    rollout::generation settings = generation(in_.settings.sampling);
    settings.weights = in_.settings.rollout_weights;
    settings.keep_sampling_mask = in_.settings.keep_sampling_mask;
    return settings;
  }
  std::vector<std::uint32_t> rows_of_round(std::int64_t number) const {
    return data::rows_of_batch(in_.train.size(), in_.plan.prompts_per_round, number, in_.settings.seed,
                               in_.settings.shuffle);
  }

  row_range own_share(std::size_t prompts, std::int64_t samples) {
    return share_of_responses(prompts, static_cast<std::size_t>(samples), workers().size(), workers().rank());
  }
  /// This rank's part of the answers to `rows`. A rollout_model has weights only during this call.
  std::vector<trajectory> sample_part(const data::prompt_dataset& prompts, std::span<const std::uint32_t> rows,
                                      std::int64_t samples, const rollout::generation& settings, random_key key,
                                      const char* phase) {
    return with_weights(
        settings.weights, [&](const nn::causal_lm<Device>& model, std::int64_t parts, std::int64_t part) {
          const row_range shard = share_of_responses(rows.size(), static_cast<std::size_t>(samples), parts, part);
          const std::unique_ptr<agent::conversations> talks = open_conversations(prompts);
          std::vector<trajectory> drawn = sample(
              models_.policy.engine, model, models_.policy.space, prompts, rows, samples, settings, key,
              [&](std::size_t done) { show(phase, done, shard.size(), &prompts == &in_.train); }, shard, talks.get());
          if (talks) note_conversations(drawn, *talks), say_failure(*talks);
          return drawn;
        });
  }
  /// draw(model, parts, part) with the weights that sample: this rank draws part `part` of `parts`, alone or with its
  /// group, of which each rank then has a share.
  template <class Draw>
  std::vector<trajectory> with_weights(std::optional<weight_format> format, Draw&& draw) {
    join_ahead();
    struct cache_guard {
      rollout::engine<Device>& engine;
      bool frees;
      ~cache_guard() {
        if (frees) engine.release();
      }
    } const guard{models_.policy.engine, in_.settings.free_cache};
    if (!models_.rollout) return draw(models_.policy.model, workers().size(), workers().rank());
    rollout_model<Device>& group = *models_.rollout;
    std::vector<trajectory> drawn = [&] {
      const rollout_weights<Device> filled(group, format);
      return draw(group.model(), group.groups(), group.group());
    }();
    const row_range shard =
        even_share(drawn.size(), static_cast<std::size_t>(group.size()), static_cast<std::size_t>(group.rank()));
    return part_of(std::move(drawn), shard);
  }
  /// Those of `rows` that `drawn` lists, drawn on until `pauses` end it.
  std::vector<trajectory> draw_rest(const nn::causal_lm<Device>& model, std::span<const trajectory> rows,
                                    std::span<const std::size_t> drawn, std::int64_t step,
                                    rollout::pause_points* pauses) {
    std::vector<trajectory> mine;
    std::vector<rollout::request> requests;
    std::vector<agent::paused_conversation> paused;
    for (const std::size_t i : drawn) mine.push_back(rows[i]);
    for (const trajectory& t : mine) {
      paused.push_back(paused_conversation_of(t));
      const rollout::context_run last = t.context.empty() ? rollout::context_run{} : t.context.back();
      requests.push_back({.prompt = in_.train[t.row].ids,
                          .prompt_number = t.row,
                          .sample = t.sample,
                          .call = key_of(in_.settings.seed, stream::rollout, round_of(t.position)),
                          .written = t.response(),
                          .turn = static_cast<std::size_t>(last.begin + last.count)});
    }
    const std::unique_ptr<agent::conversations> talks = open_conversations(in_.train);
    if (talks) {
      talks->resume(std::move(paused));
      talks->prepare(requests);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (mine[i].response_length() > 0) continue;
        const std::span<const std::int32_t> prompt = requests[i].prompt;  // an agent may have changed it
        mine[i].tokens.assign(prompt.begin(), prompt.end());
        mine[i].prompt_length = static_cast<std::int32_t>(prompt.size());
      }
    }
    const std::vector<rollout::response> responses = answer_requests(
        models_.policy.engine, model, models_.policy.space, requests, in_.train, training_generation(), {},
        [&](std::size_t done) { show("rollout", done, mine.size(), true); }, talks.get(), pauses);
    for (std::size_t i = 0; i < mine.size(); ++i) append_response(mine[i], responses[i], step);
    if (talks) note_conversations(mine, *talks), say_failure(*talks);
    return mine;
  }
  /// Several ranks finish the step when a signal asks to stop, since they would wait for each other.
  void show(const char* phase, std::size_t done, std::size_t all, bool may_stop) {
    bar_.phase(phase, done, all);
    if (may_stop && asked_to_stop() != 0 && ranks_.all().size() == 1) throw sampling_interrupted();
  }
  /// The number of the round that the prompt at `position` belongs to.
  std::int64_t round_of(std::int64_t position) const { return position / in_.plan.prompts_per_round + 1; }
  std::size_t group_size() const { return static_cast<std::size_t>(in_.settings.samples); }
  /// The conversations of one sampling; null where every response has one turn. Ranks that draw together hear the same
  /// replies.
  std::unique_ptr<agent::conversations> open_conversations(const data::prompt_dataset& prompts) {
    if (!in_.tools) return nullptr;
    return std::make_unique<agent::conversations>(
        in_.tokenizer, in_.tools->replies(), in_.tools->settings().limits,
        [this, &prompts](std::uint32_t row) { return in_.tools->of(prompts[row]); },
        models_.rollout              ? &models_.rollout->ranks()
        : ranks_.tensor().size() > 1 ? &ranks_.tensor()
                                     : nullptr);
  }
  /// The first failure of an agent in the run.
  void say_failure(const agent::conversations& talks) {
    if (said_failure_ || talks.failure().empty()) return;
    said_failure_ = true;
    say("note: an agent has failed, and its response has reward 0 (tool/errors counts them): %s\n",
        talks.failure().c_str());
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

  void score(std::vector<trajectory>& round, stages& time) {
    time("reward", [&] {
      bar_.phase("reward", 0, 0);
      in_.rewards->score(round, in_.train, in_.tokenizer);
      round = gather_trajectories(workers(), std::move(round));
      pool_counts();
    });
  }
  /// Before anything else samples: the weights of the round ahead are needed no more.
  void join_ahead() {
    if (!ahead_) return;
    ahead_->join();
    models_.rollout->drop();
    if (in_.settings.free_cache) ahead_engine_.release();
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
  replay* stored_;
  std::vector<std::vector<double>> counts_;
  rollout::engine<Device> ahead_engine_;
  nn::workspace<Device> ahead_space_;
  std::int64_t ahead_step_ = 0;
  bool said_failure_ = false;
  std::optional<ahead_round> ahead_;  ///< last: its thread uses the others
};

}  // namespace train
RLCORE_END
