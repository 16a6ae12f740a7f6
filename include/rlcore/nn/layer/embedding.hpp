// Token embeddings, vocabulary parallel across tensor parallel ranks.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// x [n, hidden] = rows `ids` of this rank's embedding, from the packed or the float copy.
template <class Device>
void look_up(const causal_lm<Device>& model, const pass<Device>& p, float* x, const std::int32_t* ids, extent_t n) {
  const auto h = static_cast<extent_t>(model.settings().hidden_size);
  const float* table = model.packed_alone() ? model.embedding_rows() : p.weights + model.embedding_offset();
  if constexpr (packed_rows<Device>)
    if (table == nullptr)
      return p.device.run(op::gather_packed_rows{.y = x,
                                                 .packed = p.packed.at(model.embedding_number()),
                                                 .format = p.packed.format,
                                                 .ids = ids,
                                                 .count = n,
                                                 .inputs = h});
  p.device.run(op::gather_rows{.y = x,
                               .x = table,
                               .x_rows = static_cast<extent_t>(model.vocabulary().size()),
                               .ids = ids,
                               .count = n,
                               .width = h});
}

/// x [own rows, hidden] = the embeddings of the tokens of the pass, given on the host and on the device.
template <class Device>
void embed(const causal_lm<Device>& model, const pass<Device>& p, float* x, std::span<const std::int32_t> ids,
           const std::int32_t* device_ids) {
  const auto h = static_cast<extent_t>(model.settings().hidden_size);
  if (!p.tensor) return look_up(model, p, x, device_ids, p.tokens);
  float* part = partial_rows(p, x, p.share ? p.share->whole : nullptr);
  p.device.run(op::fill{.y = part, .value = -0.0f, .n = p.tokens * h});  // -0.0 is the additive identity
  const typename workspace<Device>::scope scope(p.space);
  std::vector<std::int32_t>&local_ids = p.space.ids_here, &rows = p.space.rows_here;
  choose_tokens(model.vocabulary(), ids, local_ids, rows);
  const auto n = static_cast<extent_t>(local_ids.size());
  if (n > 0) {
    float* found = p.space.template take<float>(n * h);
    look_up(model, p, found, p.space.take_copy(local_ids.data(), n), n);
    p.device.run(op::copy_rows{.y = part,
                               .y_row = h,
                               .ids = {p.space.take_copy(rows.data(), n), p.tokens},
                               .x = found,
                               .x_row = h,
                               .count = n,
                               .width = h});
  }
  sum_rows_over_ranks(p, x, part, h);
}

}  // namespace nn
RLCORE_END
