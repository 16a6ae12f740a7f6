// Packed rows of one micro-batch, the input of policy losses.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Token fields are flat, row after row; `advantage` has one value per row, and if `token_advantage` is not empty, its
/// one value per token is meant instead. ref_logp may be empty without KL, entropy without an entropy term, `selected`
/// where nothing was selected.
struct policy_rows {
  std::span<const std::int32_t> offsets;  ///< rows + 1, starting at 0
  std::span<const float> logp, old_logp, ref_logp{}, advantage, entropy{}, token_advantage{}, selected{};
};

/// The span as a view.
template <class T>
vector_view<T> flat_view(std::span<T> s) {
  return vector_view<T>(s.data(), {static_cast<extent_t>(s.size())});
}

/// The rows as evaluate() takes them. field::rollout_logp is old_logp: both were recorded while sampling.
inline token_batch<float> batch_of(const policy_rows& rows) {
  token_batch<float> batch{
      .logp = flat_view(rows.logp), .old_logp = flat_view(rows.old_logp), .rollout_logp = flat_view(rows.old_logp)};
  if (rows.token_advantage.empty())
    batch.advantage = per_row(flat_view(rows.advantage));
  else
    batch.advantage = flat_view(rows.token_advantage);
  const bool no_tokens = rows.logp.empty();  // then empty fields are complete
  if (!rows.ref_logp.empty() || no_tokens) batch.ref_logp = flat_view(rows.ref_logp);
  if (!rows.entropy.empty() || no_tokens) batch.entropy = flat_view(rows.entropy);
  if (!rows.selected.empty() || no_tokens) batch.selected = flat_view(rows.selected);
  batch.offsets = flat_view(rows.offsets);
  return batch;
}

/// Where the slopes of these rows go; an empty dentropy is not written.
inline token_gradients<float> gradients_of(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) {
  token_gradients<float> gradients{.logp = flat_view(dlogp)};
  if (!dentropy.empty() || rows.logp.empty()) gradients.entropy = flat_view(dentropy);
  return gradients;
}

RLCORE_ALGORITHM_END
RLCORE_END
