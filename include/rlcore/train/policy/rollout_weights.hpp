// Importance weights of responses whose sampling policy is not the one that the step starts with: truncated importance
// sampling (Yao et al. 2025) and IcePop (Ling team 2025), by verl's keys algorithm.rollout_correction.*.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// algorithm.rollout_correction.rollout_is, rollout_is_threshold and rollout_is_batch_normalize.
struct rollout_weight_settings {
  bool enabled = false;
  bool per_sequence = false;    ///< the product of the ratios of a response; false: each token's ratio
  double high = 2;              ///< larger weights are this (IcePop: 0)
  std::optional<double> low{};  ///< IcePop: smaller weights are 0
  bool normalize = false;       ///< divide by the mean weight of the step
};

/// The bounds of a ratio as verl writes them: "5.0", or "0.5_5.0" with a lower one.
struct correction_bounds {
  std::optional<double> low;
  double high;
};

/// Nothing if the text has another form, or the numbers are not positive and in order.
std::optional<correction_bounds> read_correction_bounds(std::string_view text);

/// Reads the settings. Throws config_error.
rollout_weight_settings read_rollout_weights(const options& opt);

/// Sets trajectory::weight to e^(old_logp - rollout_logp), treated as the settings say; the loss multiplies the
/// advantages by it. Sets rollout_corr/*. Throws data_error for a response without recorded log-probs.
void set_rollout_weights(std::span<trajectory> batch, const rollout_weight_settings& settings, metrics& out);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
#include <charconv>
#include <cstddef>
#include <system_error>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/correction/correct.hpp"
#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::optional<correction_bounds> read_correction_bounds(std::string_view text) {
  const auto number = [](std::string_view part) -> std::optional<double> {
    double x = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), x);
    if (code != std::errc() || end != part.data() + part.size() || !(x > 0)) return std::nullopt;
    return x;
  };
  const std::size_t line = text.find('_');
  const auto high = number(text.substr(line == text.npos ? 0 : line + 1));
  if (!high) return std::nullopt;
  if (line == text.npos) return correction_bounds{std::nullopt, *high};
  const auto low = number(text.substr(0, line));
  if (!low || *low > *high) return std::nullopt;
  return correction_bounds{low, *high};
}

RLCORE_INLINE rollout_weight_settings read_rollout_weights(const options& opt) {
  const std::string group = "algorithm.rollout_correction.", threshold = group + "rollout_is_threshold";
  rollout_weight_settings s;
  const auto level = opt.find<std::string>(group + "rollout_is");
  if (!level) return s;
  if (opt.get<bool>(group + "bypass_mode"))
    throw config_error(group + "rollout_is=" + *level +
                       ": with bypass_mode=True the ratio of the loss corrects; leave one "
                       "of them out");
  s.enabled = true, s.per_sequence = *level == "sequence";
  s.normalize = opt.get<bool>(group + "rollout_is_batch_normalize");
  const std::string given = inline_text(opt.at(threshold));
  const auto bounds = read_correction_bounds(given);
  if (!bounds) throw config_error(threshold + "=" + given + ": expected a positive number, or two as 0.5_5.0");
  s.low = bounds->low, s.high = bounds->high;
  return s;
}

namespace detail {

/// How far the policy that sampled is from the step's: rollout_corr/kl and its like.
RLCORE_INLINE void write_policies(const off_policy_report& p, metrics& out) {
  const auto set = [&](const char* name, double x) { out.set("rollout_corr/" + std::string(name), x); };
  set("kl", p.k1()), set("k3_kl", p.k3()), set("chi2_token", p.chi_square_token());
  set("chi2_seq", p.chi_square_sequence()), set("ppl_ratio", p.perplexity_ratio());
  set("training_ppl", p.train_perplexity()), set("rollout_ppl", p.rollout_perplexity());
}

/// A vector of a trajectory's tokens as a row of a batch.
template <class T>
auto token_row(std::vector<T>& field) {
  return matrix(field.data(), 1, std::ssize(field));
}

/// set_rollout_weights() by one rule.
template <class Rule>
void set_weights(const Rule& rule, std::span<trajectory> batch, bool normalize, metrics& out) {
  correction_report<0> report;
  for (trajectory& t : batch) {
    if (t.rollout_logp.size() != t.old_logp.size())
      throw data_error("algorithm.rollout_correction.rollout_is: a response to row " + std::to_string(t.row) +
                       " has no log-probs of the policy that sampled it");
    t.weight.resize(t.old_logp.size());
    token_batch<float> tokens;
    tokens.old_logp = token_row(t.old_logp), tokens.rollout_logp = token_row(t.rollout_logp);
    correction_outputs<float> outputs;
    outputs.weight = token_row(t.weight);
    report += correct(serial{}, rule, tokens, outputs).report;
  }
  if (normalize)
    for (trajectory& t : batch) self_normalize(token_field<float>(token_row(t.weight)), report.weight);
  const auto set = [&](const char* name, double x) { out.set("rollout_corr/" + std::string(name), x); };
  const weight_report& w = report.weight;
  set("rollout_is_mean", w.mean()), set("rollout_is_max", w.largest), set("rollout_is_min", w.smallest);
  set("rollout_is_std", w.deviation()), set("rollout_is_eff_sample_size", w.effective_sample_share());
  set("rollout_is_ratio_fraction_high", w.above_share()), set("rollout_is_ratio_fraction_low", w.below_share());
  write_policies(report.policy, out);
}

}  // namespace detail

RLCORE_INLINE void set_rollout_weights(std::span<trajectory> batch, const rollout_weight_settings& s, metrics& out) {
  if (!s.enabled) return;
  const auto by_level = [&](auto treatment) {
    if (s.per_sequence)
      detail::set_weights(decoupled(importance_weight{summed_over_sequence{}, treatment}), batch, s.normalize, out);
    else
      detail::set_weights(decoupled(importance_weight{token_level{}, treatment}), batch, s.normalize, out);
  };
  if (s.low)
    by_level(zero_outside{*s.low, s.high});
  else
    by_level(truncated{s.high});
}

}  // namespace train
RLCORE_END
#endif
