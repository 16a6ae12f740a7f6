// Rejection of response tokens that the step's policy and the one that sampled see too differently, by verl's keys
// algorithm.rollout_correction.rollout_rs and rollout_rs_threshold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// A statistic of verl's rollout_rs and its bounds. With u = log p_rollout - log p_step of a token: k1 = u, k2 = u^2 /
/// 2 and k3 = e^-u - 1 + u, of the token, or their sum, mean or largest of a response.
struct rejection_rule {
  std::string name;          ///< token_k1, seq_sum_k2, seq_mean_k3, seq_max_k3, ...
  double low = 0, high = 0;  ///< k1: bounds of e^k1; others: `high` is the largest value that is kept
};

/// Reads rollout_rs and rollout_rs_threshold. Empty: nothing is rejected. Throws config_error.
std::vector<rejection_rule> read_rollout_rejection(const options& opt);

/// Leaves the tokens out of training, of losses and denominators, whose statistic is outside of the bounds of a rule.
/// Sets trajectory::untrained, shortens the fields that have an entry per token, and sets rollout_corr/rollout_rs_*.
/// Throws data_error for a response without recorded log-probs.
void reject_tokens(std::span<trajectory> batch, std::span<const rejection_rule> rules, metrics& out);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rlcore/config/check_value.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/correction/correct.hpp"
#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/train/policy/rollout_weights.hpp"

RLCORE_BEGIN
namespace train {
namespace detail {

inline constexpr std::array<std::string_view, 11> rejection_words{
    "token_k1",    "token_k2",    "token_k3",    "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
    "seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"};

RLCORE_INLINE std::vector<std::string> words_between_commas(std::string_view words) {
  std::vector<std::string> out;
  for (const std::string& word : split_words(words, ',')) {
    const std::size_t first = word.find_first_not_of(' ');
    if (first != word.npos) out.push_back(word.substr(first, word.find_last_not_of(' ') + 1 - first));
  }
  return out;
}

/// f(gate of the rule).
template <class F>
void with_gate(const rejection_rule& rule, F&& f) {
  const auto of_level = [&]<class Level>(Level) {
    if (rule.name.ends_with("k1"))
      f(ratio_within<Level>(rollout_over_train{.low = rule.low, .high = rule.high}));
    else if (rule.name.ends_with("k2"))
      f(divergence_at_most<k2, Level>{.bound = rule.high});
    else
      f(divergence_at_most<k3, Level>{.bound = rule.high});
  };
  if (rule.name.starts_with("token"))
    of_level(token_level{});
  else if (rule.name.starts_with("seq_sum"))
    of_level(summed_over_sequence{});
  else if (rule.name.starts_with("seq_mean"))
    of_level(mean_over_sequence{});
  else
    of_level(largest_in_sequence{});
}

/// Clears `keep` where the rule rejects; keep[i] has the tokens of response i.
RLCORE_INLINE void apply_rule(const rejection_rule& rule, std::span<trajectory> batch,
                              std::vector<std::vector<std::uint8_t>>& keep, metrics& out) {
  correction_report<1> all;
  with_gate(rule, [&](const auto& gate) {
    std::vector<std::uint8_t> kept;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      kept.assign(keep[i].size(), 1);
      token_batch<float> tokens;
      tokens.old_logp = token_row(batch[i].old_logp), tokens.rollout_logp = token_row(batch[i].rollout_logp);
      correction_outputs<float> outputs;
      outputs.mask = mask_output(token_row(kept));
      all += correct(serial{}, decoupled(no_weight{}, gate), tokens, outputs).report;
      for (std::size_t k = 0; k < kept.size(); ++k) keep[i][k] = keep[i][k] != 0 && kept[k] != 0;
    }
  });
  write_policies(all.policy, out);
  const gate_report& report = all.gate[0];
  const bool turned = rule.name.ends_with("k1");  // the gate's statistic is log p_step - log p_rollout
  const std::string prefix = "rollout_corr/rollout_rs_" + rule.name;
  out.set(prefix + "_mean", turned ? -report.mean() : report.mean());
  out.set(prefix + "_max", turned ? -report.smallest : report.largest);
  out.set(prefix + "_min", turned ? -report.largest : report.smallest);
  out.set(prefix + "_masked_fraction", report.rejected_share());
  out.set(prefix + "_seq_masked_fraction", report.touched_share());
}

/// The runs of the response that are context or rejected.
RLCORE_INLINE std::vector<rollout::context_run> runs_without(const trajectory& t, std::span<const std::uint8_t> keep) {
  std::vector<rollout::context_run> runs;
  auto context = t.context.begin();
  std::size_t token = 0;
  for (std::int32_t i = 0; i < t.response_length(); ++i) {
    while (context != t.context.end() && i >= context->begin + context->count) ++context;
    const bool written = context == t.context.end() || i < context->begin;
    if (written && keep[token++]) continue;
    if (!runs.empty() && runs.back().begin + runs.back().count == i)
      ++runs.back().count;
    else
      runs.push_back({i, 1});
  }
  return runs;
}

}  // namespace detail

RLCORE_INLINE std::vector<rejection_rule> read_rollout_rejection(const options& opt) {
  const std::string key = "algorithm.rollout_correction.rollout_rs", threshold = key + "_threshold";
  const auto given = opt.find<std::string>(key);
  if (!given) return {};
  const std::string chosen = key + "=" + *given;
  if (opt.get<bool>("algorithm.rollout_correction.bypass_mode"))
    throw config_error(chosen + ": with bypass_mode=True the ratio of the loss corrects; leave one of them out");
  if (opt.get<bool>("rlcore.turn_rewards"))
    throw config_error(chosen +
                       ": a turn whose last token is rejected has no place for its reward; leave it or "
                       "rlcore.turn_rewards=True out");
  std::vector<rejection_rule> rules;
  for (const std::string& name : detail::words_between_commas(*given)) {
    if (std::find(detail::rejection_words.begin(), detail::rejection_words.end(), name) ==
        detail::rejection_words.end())
      throw config_error(chosen + ": no statistic " + name + "; expected token_k1, seq_mean_k3 or others, with commas" +
                         did_you_mean(name, detail::rejection_words));
    if (std::none_of(rules.begin(), rules.end(), [&](const rejection_rule& r) { return r.name == name; }))
      rules.push_back({name});
  }
  const std::string limits = inline_text(opt.at(threshold));
  const std::vector<std::string> texts = detail::words_between_commas(limits);
  if (limits == "null" || rules.empty() || (texts.size() != 1 && texts.size() != rules.size()))
    throw config_error(threshold + "=" + limits + ": expected one threshold for all of " + chosen +
                       ", or one for each, with commas");
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string& text = texts[texts.size() == 1 ? 0 : i];
    const bool ratio = rules[i].name.ends_with("k1");
    const auto bounds = read_correction_bounds(text);
    if (!bounds || (!ratio && bounds->low) || (ratio && !bounds->low && bounds->high < 1))
      throw config_error(
          threshold + "=" + limits + ": expected for " + rules[i].name +
          (ratio ? " the bounds of a ratio as 0.5_2.0, or a number >= 1 for 1/x and x" : " a positive number"));
    rules[i].high = bounds->high, rules[i].low = ratio ? bounds->low.value_or(1 / bounds->high) : 0;
  }
  return rules;
}

RLCORE_INLINE void reject_tokens(std::span<trajectory> batch, std::span<const rejection_rule> rules, metrics& out) {
  if (rules.empty()) return;
  std::vector<std::vector<std::uint8_t>> keep;
  for (const trajectory& t : batch) {
    if (t.rollout_logp.size() != t.old_logp.size())
      throw data_error("algorithm.rollout_correction.rollout_rs: a response to row " + std::to_string(t.row) +
                       " has no log-probs of the policy that sampled it");
    keep.emplace_back(t.old_logp.size(), std::uint8_t{1});
  }
  for (const rejection_rule& rule : rules) detail::apply_rule(rule, batch, keep, out);
  double tokens = 0, rejected = 0, touched = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    trajectory& t = batch[i];
    const auto kept = std::count(keep[i].begin(), keep[i].end(), std::uint8_t{1});
    tokens += static_cast<double>(keep[i].size()), rejected += static_cast<double>(std::ssize(keep[i]) - kept);
    if (kept == std::ssize(keep[i])) continue;
    ++touched;
    t.untrained = detail::runs_without(t, keep[i]);
    t.token_reward.clear();  // penalise_rewards() sets them again
    for (std::vector<float>* field : {&t.old_logp, &t.entropy, &t.ref_logp, &t.weight}) {
      if (field->empty()) continue;
      std::size_t next = 0;
      for (std::size_t k = 0; k < keep[i].size(); ++k)
        if (keep[i][k]) (*field)[next++] = (*field)[k];
      field->resize(next);
    }
  }
  out.set("rollout_corr/rollout_rs_masked_fraction", tokens > 0 ? rejected / tokens : 0.0);
  out.set("rollout_corr/rollout_rs_seq_masked_fraction", touched / static_cast<double>(batch.size()));
}

}  // namespace train
RLCORE_END
#endif
