// The tokens that a draw may give.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/rollout/token_logprob.hpp"

RLCORE_BEGIN
namespace rollout {

/// kept = the tokens that `settings` may draw from a row of logits, by falling probability, equals by id, with the
/// log-probs of the draw: softmax(logits / temperature) over what min_p, top_k and then top_p leave, in double. Greedy:
/// all of softmax(logits). It sorts the vocabulary: for reports, not for drawing.
inline void kept_tokens(const sampling& settings, std::span<const float> logits, std::vector<token_logprob>& kept) {
  kept.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -std::numeric_limits<float>::infinity()) kept.push_back({static_cast<std::int32_t>(i), logits[i]});
  if (kept.empty()) return;
  std::ranges::stable_sort(kept, [](const token_logprob& a, const token_logprob& b) { return a.logp > b.logp; });

  const double temperature = settings.greedy() ? 1.0 : static_cast<double>(settings.temperature);
  const auto largest = static_cast<double>(kept.front().logp);
  const auto below = [&](const token_logprob& t) { return (static_cast<double>(t.logp) - largest) / temperature; };
  std::size_t n = 0;
  double total = 0;
  const bool limited = !settings.greedy() && settings.top_k > 0;
  const std::size_t most = limited ? std::min(kept.size(), static_cast<std::size_t>(settings.top_k)) : kept.size();
  const double least = settings.greedy() ? 0.0 : static_cast<double>(settings.min_p);
  for (; n < most; ++n) {
    const double weight = elementary::exp(below(kept[n]));
    if (weight < least) break;
    total += weight;
  }
  if (!settings.greedy() && settings.top_p < 1) {
    const double enough = total * static_cast<double>(settings.top_p);
    const std::size_t all = n;
    for (n = 0, total = 0; n < all && total < enough; ++n) total += elementary::exp(below(kept[n]));
  }
  kept.resize(n);
  const double log_total = elementary::log(total);
  for (token_logprob& t : kept) t.logp = static_cast<float>(below(t) - log_total);
}

}  // namespace rollout
RLCORE_END
