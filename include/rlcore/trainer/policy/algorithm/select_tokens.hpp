// Token selection over a whole step, before its first update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Every token takes part.
struct no_selection {};

/// Sets trajectory::selected with select(rule, batch, selected): clip_covariance, kl_covariance, high_entropy, ... The
/// rule sees the policy at the start of the step: sampling recorded logp, old_logp and entropy. A rule with a `key`
/// draws with the step's key. verl differs: it selects within each micro-batch.
template <class Rule>
void select_tokens(Rule rule, std::span<trajectory> batch, random_key key) {
  if constexpr (requires { rule.key = key; }) rule.key = key;
  std::vector<std::int32_t> offsets{0};
  std::vector<float> logp, entropy, advantage;
  for (const trajectory& t : batch) {
    logp.insert(logp.end(), t.old_logp.begin(), t.old_logp.end());
    entropy.insert(entropy.end(), t.entropy.begin(), t.entropy.end());
    if (t.token_advantage.empty())
      advantage.insert(advantage.end(), t.old_logp.size(), t.advantage);
    else
      advantage.insert(advantage.end(), t.token_advantage.begin(), t.token_advantage.end());
    offsets.push_back(static_cast<std::int32_t>(logp.size()));
  }
  std::vector<float> selected(logp.size());
  const auto flat = [](const std::vector<float>& x) { return flat_view(std::span(x)); };
  token_batch<float> tokens{.logp = flat(logp), .old_logp = flat(logp), .advantage = flat(advantage)};
  if (entropy.size() == logp.size()) tokens.entropy = flat(entropy);
  tokens.offsets = flat_view(std::span<const std::int32_t>(offsets));
  select(rule, tokens, flat_view(std::span(selected)));
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].selected.assign(selected.begin() + offsets[i], selected.begin() + offsets[i + 1]);
}

}  // namespace trainer
RLCORE_END
