// The candidate tokens after top-k, top-p and min-p truncation.
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

/// kept = the tokens that `settings` may draw from a row of logits, by descending probability, ties by id, with the
/// log-probs of the draw: softmax(logits / temperature) over the tokens left by min_p, top_k and then top_p, in double.
/// Greedy: all of softmax(logits). Sorts the tokens left by min_p and top_k: for reports, not for sampling.
void kept_tokens(const sampling& settings, std::span<const float> logits, std::vector<token_logprob>& kept);

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void kept_tokens(const sampling& settings, std::span<const float> logits,
                               std::vector<token_logprob>& kept) {
  const sampling how = settings.greedy() ? sampling{} : settings;
  kept.clear();
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > -std::numeric_limits<float>::infinity())) continue;
    kept.push_back({static_cast<std::int32_t>(i), logits[i]});
    largest = std::max(largest, logits[i]);
  }
  const auto below = [&](const token_logprob& t) {
    return (static_cast<double>(t.logp) - static_cast<double>(largest)) / static_cast<double>(how.temperature);
  };
  if (how.min_p > 0) {
    const double least = elementary::log(static_cast<double>(how.min_p));
    std::erase_if(kept, [&](const token_logprob& t) { return below(t) < least; });
  }
  const auto likelier = [](const token_logprob& a, const token_logprob& b) {
    return a.logp > b.logp || (a.logp == b.logp && a.token < b.token);
  };
  if (how.top_k > 0 && how.top_k < std::ssize(kept)) {
    std::ranges::nth_element(kept, kept.begin() + how.top_k, likelier);
    kept.resize(static_cast<std::size_t>(how.top_k));
  }
  std::ranges::sort(kept, likelier);
  double total = 0;
  for (const token_logprob& t : kept) total += elementary::exp(below(t));
  if (how.top_p < 1) {
    const double enough = total * static_cast<double>(how.top_p);
    std::size_t n = 0;
    for (total = 0; n < kept.size() && total < enough; ++n) total += elementary::exp(below(kept[n]));
    kept.resize(n);
  }
  const double log_total = elementary::log(total);
  for (token_logprob& t : kept) t.logp = static_cast<float>(below(t) - log_total);
}

}  // namespace rollout
RLCORE_END
#endif
