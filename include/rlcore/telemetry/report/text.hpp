// Texts of a report: numbers (the same characters on every machine), and which metrics share a chart.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train::html {

/// The text with &, <, > and " as HTML's entities.
std::string escape(std::string_view text);

/// `x` with `decimals` digits after the point.
std::string decimal(double x, int decimals);

/// A coordinate in a drawing: one digit after the point.
inline std::string coordinate(double x) { return decimal(x, 1); }

/// `x` with about four significant digits: 0.9375, 1234, 1.5e-07, and an n-dash for a number that is not finite.
std::string brief(double x);

/// `name` may hold one '*' for any text without '/'. An empty label is made from the name.
struct curve_rule {
  std::string_view name, label = {};
};

/// One chart of the report and the curves that it may have, in this order.
struct chart_rule {
  std::string_view title, unit;
  std::array<curve_rule, 6> curves;
  bool from_zero = true;
};

/// Charts of supervised and preference runs.
inline constexpr chart_rule loss_charts[] = {
    {"Loss", "mean of the step", {{{"train/*loss"}, {"val/*loss"}, {"eval/*loss"}}}},
    {"Accuracy", "share", {{{"train/*acc"}, {"val/*acc"}, {"eval/*acc"}, {"eval/acc_mean", "evaluation"}}}},
    {"Rewards of chosen and rejected",
     "mean",
     {{{"train/chosen_reward"}, {"train/reject_reward"}, {"eval/chosen_reward"}, {"eval/reject_reward"}}},
     false},
    {"Reward model",
     "score of the evaluation rows",
     {{{"eval/reward_mean", "mean"}, {"eval/reward_std", "deviation"}}},
     false}};

/// Charts of policies, critics and optimizers.
inline constexpr chart_rule policy_charts[] = {
    {"KL divergence",
     "nats per token",
     {{{"actor/kl_loss", "to the reference, in the loss"},
       {"actor/reward_kl_penalty", "to the reference, in the reward"},
       {"actor/ppo_kl", "old to new policy"},
       {"train/kl", "to the reference"}}}},
    {"Entropy", "nats per token", {{{"actor/entropy", "sampling policy"}}}},
    {"Clipped tokens",
     "share of response tokens",
     {{{"actor/pg_clipfrac", "ratio clipped"},
       {"actor/pg_clipfrac_lower", "dual clip"},
       {"critic/vf_clipfrac", "value clipped"}}}},
    {"Gradient norm",
     "before clipping",
     {{{"actor/grad_norm", "policy"}, {"critic/grad_norm", "critic"}, {"train/grad_norm", "model"}}}},
    {"Policy loss", "", {{{"actor/pg_loss", "mean over the updates of a step"}}}, false},
    {"Critic loss", "half the squared error", {{{"critic/vf_loss", "mean over the updates of a step"}}}},
    {"Values and returns",
     "mean over response tokens",
     {{{"critic/values/mean", "value before the update"}, {"critic/returns/mean", "return"}}},
     false},
    {"Explained variance", "1: the critic foresees the return", {{{"critic/vf_explained_var", "critic"}}}},
    {"Groups without signal",
     "share of the groups",
     {{{"train/groups_all_right", "all right"}, {"train/groups_all_wrong", "all wrong"}}}},
    {"Learning rate",
     "",
     {{{"actor/lr", "policy"},
       {"critic/lr", "critic"},
       {"train/lr", "AdamW"},
       {"train/lr(1e-3)", "AdamW, times 1000"}}}}};

/// Whether `pattern` with at most one '*' covers `name`.
constexpr bool covers(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return !pattern.empty() && pattern == name;
  const std::string_view front = pattern.substr(0, star), back = pattern.substr(star + 1);
  return name.size() + 1 >= pattern.size() && name.starts_with(front) && name.ends_with(back) &&
         name.substr(front.size(), name.size() - front.size() - back.size()).find('/') == name.npos;
}

/// "train/kto_loss" -> "training, kto_loss"; "eval/eval_loss" and "eval/loss" -> "evaluation".
inline std::string curve_label(std::string_view name, std::string_view title) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return std::string(name);
  const std::string_view front = name.substr(0, slash);
  std::string_view back = name.substr(slash + 1);
  if (back.starts_with("eval_")) back.remove_prefix(5);
  const std::string label = front == "train"  ? "training"
                            : front == "val"  ? "validation"
                            : front == "eval" ? "evaluation"
                                              : std::string(front);
  const bool said = (back == "loss" && title == "Loss") || (back == "acc" && title == "Accuracy");
  return said ? label : label + ", " + std::string(back);
}

/// The title of a chart of one metric: "reward/no_match" -> "Reward, no match".
inline std::string metric_title(std::string_view name) {
  std::string title;
  for (const char c : name) title += c == '/' ? std::string(", ") : std::string(1, c == '_' ? ' ' : c);
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] & ~0x20);
  return title;
}

/// False for metrics without their own curve: times have a chart of their own, counters and extremes need none.
inline bool is_further_curve(std::string_view name) {
  for (const char* front : {"timing", "perf/", "training/", "val-aux/", "train/time", "train/tokens", "actor/kl_coef"})
    if (name.starts_with(front)) return false;
  for (const char* end : {"/max", "/min", "/std", "_mean"})
    if (name.ends_with(end) && name.starts_with(std::string_view(end) == "_mean" ? "train/" : "")) return false;
  return true;
}

}  // namespace train::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::html {

RLCORE_INLINE std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

RLCORE_INLINE std::string decimal(double x, int decimals) {
  char buffer[400];
  if (x == 0) x = 0;  // no "-0"
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed, decimals).ptr;
  std::string out(buffer, end);
  if (out.find_first_not_of("-0.") == std::string::npos && out.front() == '-') out.erase(0, 1);
  return out;
}

RLCORE_INLINE std::string brief(double x) {
  if (!std::isfinite(x)) return "\xE2\x80\x93";
  const double size = std::abs(x);
  if (x == 0) return "0";
  if (size >= 1000 && size < 1e7) return decimal(x, 0);
  char buffer[64];
  const auto format = size < 1e-4 || size >= 1e7 ? std::chars_format::scientific : std::chars_format::fixed;
  const int digits = format == std::chars_format::scientific ? 3 : 3 - static_cast<int>(std::floor(std::log10(size)));
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, format, digits).ptr;
  std::string out(buffer, end), power;
  if (const std::size_t e = out.find('e'); e != out.npos) power = out.substr(e), out.resize(e);
  if (out.find('.') != out.npos) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  return out + power;
}

}  // namespace train::html
RLCORE_END
#endif
