// Generation: prefill chunks and single tokens of many sequences in one pass over the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/kv_cache.hpp"
#include "rlcore/nn/log_probs.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// Feeds token ids[i] at positions[i] of the sequence in slots[i], i = 0, 1, ...: any mix of prefill chunks and single
/// tokens. Tokens of one slot are neighbours with consecutive positions, and everything before the first of them is in
/// the cache already. Their keys and values are stored; logits [wanted_rows.size(), vocabulary] of the wanted rows are
/// written to host memory. The logits of a token have the same bits as in training, whatever else is in the pass.
template <class Device>
void decode(const causal_lm<Device>& model, workspace<Device>& space, kv_cache<Device>& cache,
            std::span<const std::int32_t> ids, std::span<const std::int32_t> slots,
            std::span<const std::int32_t> positions, std::span<const std::int32_t> wanted_rows, float* logits) {
  const config& c = model.settings();
  const auto t = static_cast<extent_t>(ids.size()), n = static_cast<extent_t>(wanted_rows.size());
  if (slots.size() != ids.size() || positions.size() != ids.size())
    throw std::invalid_argument("rlcore: decode: " + std::to_string(ids.size()) + " tokens, " +
                                std::to_string(slots.size()) + " slots and " + std::to_string(positions.size()) +
                                " positions");
  check_ids(ids, c.vocab_size, "token");
  check_ids(slots, cache.slots(), "slot");
  check_ids(positions, std::min(cache.capacity(), c.max_position_embeddings), "position");
  check_ids(wanted_rows, static_cast<std::int64_t>(t), "wanted row");
  if (t == 0) return;
  space.reset();
  space.segments.clear();
  space.index.clear();
  std::int32_t longest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && slots[i] == slots[i - 1]) {
      if (positions[i] != positions[i - 1] + 1)
        throw std::invalid_argument("rlcore: decode: slot " + std::to_string(slots[i]) + " has position " +
                                    std::to_string(positions[i]) + " after " + std::to_string(positions[i - 1]) +
                                    "; expected consecutive positions");
      ++space.segments.back().rows;
    } else {
      space.segments.push_back({nullptr, nullptr, cache.row(), static_cast<extent_t>(i), 1, positions[i]});
    }
    space.index.push_back(static_cast<std::int32_t>(slots[i] * cache.capacity() + positions[i]));
    longest = std::max(longest, positions[i]);
  }
  space.prepare_rope(c, longest + 1);

  Device& device = model.device();
  const auto h = static_cast<extent_t>(c.hidden_size), v = static_cast<extent_t>(c.vocab_size);
  const std::int32_t* at = space.take_copy(space.index.data(), t);
  const std::int32_t *tokens = space.take_copy(ids.data(), t), *where = space.take_copy(positions.data(), t);
  const pass<Device> p{device, space, model.weights().data(), nullptr, t, where};
  float *x = space.template take<float>(t * h), *y = space.template take<float>(t * h);
  device.gather_rows(x, p.weights, tokens, t, h);
  const block_activations a = model.blocks().front().take(space, t);
  extent_t layer = 0;
  for (const block& b : model.blocks()) {
    float* keys = cache.layer(layer++);
    b.forward(p, a, y, x, [&](const float* qkv) {
      device.copy_rows(keys, cache.row(), at, qkv + b.mixer.q_width(), b.mixer.width(), t, cache.row());
      for (attention_segment& s : space.segments) {
        const auto slot = static_cast<extent_t>(slots[static_cast<std::size_t>(s.first_row)]);
        s.keys = keys + slot * static_cast<extent_t>(cache.capacity()) * cache.row();
        s.values = s.keys + cache.width();
      }
      return std::span<const attention_segment>(space.segments);
    });
    std::swap(x, y);
  }
  if (n == 0) return;
  const head_activations rows = model.head().gather(p, x, space.take_copy(wanted_rows.data(), n), n);
  if constexpr (Device::host_readable) {
    model.head().forward(p, logits, rows.normed, n);
    device.wait();
  } else {
    const extent_t chunk = logit_rows(model, space, n);
    float* part = space.template take<float>(chunk * v);
    for (extent_t i = 0; i < n; i += chunk) {
      const extent_t m = std::min(chunk, n - i);
      model.head().forward(p, part, rows.normed + i * h, m);
      device.download(logits + i * v, part, static_cast<std::size_t>(m * v) * sizeof(float));
    }
  }
}

}  // namespace nn
RLCORE_END
