// Rows of packed sequences: keys and values in a layer's own qkv rows (no KV cache), and the backward pass over rows
// and sequences with a gradient alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/nn/attention/attention.hpp"
#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Fills space.active with the indices i of the selected `rows` for which has_gradient(i), and space.ranges with the
/// runs of adjacent segments that contain those rows.
template <class Device, class HasGradient>
void find_active_rows(workspace<Device>& space, std::span<const std::int32_t> rows, HasGradient&& has_gradient) {
  space.active.clear();
  space.ranges.clear();
  space.counts.assign(space.segments.size(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!has_gradient(i)) continue;
    space.active.push_back(static_cast<std::int32_t>(i));
    const auto after = std::upper_bound(space.segments.begin(), space.segments.end(), static_cast<extent_t>(rows[i]),
                                        [](extent_t row, const attention_segment& s) { return row < s.first_row; });
    ++space.counts[static_cast<std::size_t>(after - space.segments.begin()) - 1];
  }
  for (std::size_t s = 0; s < space.counts.size(); ++s) {
    if (space.counts[s] == 0) continue;
    if (space.ranges.empty() || space.ranges.back().end != s) space.ranges.push_back({s, s});
    space.ranges.back().end = s + 1;
  }
}

/// Calls f(pass over the rows of a range, its first row) for each of space.ranges. During the call space.segments are
/// those of the range. Only the first call overwrites gradients.
template <class Device, class F>
void for_active_rows(const pass<Device>& p, F&& f) {
  workspace<Device>& space = p.space;
  if (space.ranges.size() == 1 && space.ranges[0].end - space.ranges[0].begin == space.segments.size())
    return f(p, extent_t{0});
  space.batch_segments.assign(space.segments.begin(), space.segments.end());
  pass<Device> part = p;
  row_share share;
  for (const segment_range& r : space.ranges) {
    const auto from = space.batch_segments.begin() + static_cast<std::ptrdiff_t>(r.begin);
    const auto to = space.batch_segments.begin() + static_cast<std::ptrdiff_t>(r.end);
    const extent_t begin = from->first_row;
    space.segments.assign(from, to);
    for (attention_segment& s : space.segments) s.first_row -= begin;
    part.tokens = space.segments.back().first_row + space.segments.back().rows;
    part.positions = p.positions + begin, part.choices = p.choices.from(begin);
    if (p.share) share = p.share->of(*p.tensor, p.tokens, begin, begin + part.tokens), part.share = &share;
    f(part, begin);
    part.first = false;
  }
  space.segments.assign(space.batch_segments.begin(), space.batch_segments.end());
}

/// The same under context parallelism: space.ranges count sequences. A rank without rows in a range calls f too.
template <class Device, class F>
void for_active_sequences(const pass<Device>& p, F&& f) {
  pass<Device> part = p;
  row_share share;
  for (const segment_range& r : p.space.ranges) {
    part.context->select(r.begin, r.end);
    const extent_t begin = part.context->first_row();
    part.tokens = part.context->rows();
    part.positions = p.positions + begin, part.choices = p.choices.from(begin);
    if (p.share) share = p.share->of(*p.tensor, p.tokens, begin, begin + part.tokens), part.share = &share;
    f(part, begin);
    part.first = part.first && part.tokens == 0;
  }
}

/// Under context parallelism: has this rank rows of the sequences of space.ranges?
template <class Device>
bool has_rows_in_ranges(context_pass<Device>& context, const workspace<Device>& space) {
  return std::ranges::any_of(space.ranges, [&](const segment_range& r) {
    context.select(r.begin, r.end);
    return context.rows() > 0;
  });
}

/// In a backward pass without rows: sets the gradients of a layer's linear weights to 0, which the first pass has to
/// overwrite.
template <class Device>
void zero_linears(const pass<Device>& p, const block& b) {
  if (!p.first || !p.gradients) return;
  b.for_linears([&](const linear& each) {
    p.device.fill_zero(p.gradients + each.weight, static_cast<std::size_t>(each.outputs * each.inputs) * sizeof(float));
  });
}

/// The activations `a` from row `row`, which is row `local_row` of this rank between layers.
block_activations rows_from(const block& b, block_activations a, extent_t row, extent_t local_row);

/// Segments that read keys and values from the qkv rows of the layer itself.
template <class Device>
auto place_in_rows(workspace<Device>& space, const attention& a) {
  return [&space, &a](const float* qkv) {
    for (attention_segment& s : space.segments) {
      s.key_row = a.width();
      s.keys = qkv + s.first_row * s.key_row + a.q_width();
      s.values = s.keys + a.kv_width();
    }
    return std::span<const attention_segment>(space.segments);
  };
}

/// The same for their gradients.
template <class Device>
auto place_gradients_in_rows(workspace<Device>& space, const attention& a) {
  return [&space, &a](float* dqkv) {
    space.segment_gradients.clear();
    for (const attention_segment& s : space.segments) {
      float* keys = dqkv + s.first_row * a.width() + a.q_width();
      space.segment_gradients.push_back({keys, keys + a.kv_width()});
    }
    return std::span<const attention_segment_gradient>(space.segment_gradients);
  };
}

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE block_activations rows_from(const block& b, block_activations a, extent_t row, extent_t local_row) {
  const auto skip_rows = [](float*& p, extent_t values) {
    if (p) p += values;
  };
  const auto skip = [&](float*& p, extent_t width) { skip_rows(p, row * width); };
  const attention& m = b.self_attention;
  skip_rows(a.normed, local_row * b.hidden());
  skip_rows(a.rstd, local_row);
  skip(a.attended.qkv, m.width());
  skip(a.attended.raw, m.q_width() + m.kv_width());
  skip(a.attended.rstd_q, m.shape.heads);
  skip(a.attended.rstd_k, m.shape.kv_heads);
  skip(a.attended.attended, m.q_width());
  skip(a.attended.statistics, 2 * m.shape.heads);
  skip_rows(a.middle, local_row * b.hidden());
  skip_rows(a.post_attention_normed, local_row * b.hidden());
  skip_rows(a.middle_rstd, local_row);
  a.routed.row += row;
  if (b.experts) return a;
  skip(a.mixed.gate_up, 2 * b.feed_forward.width());
  skip(a.mixed.activated, b.feed_forward.width());
  return a;
}

}  // namespace nn
RLCORE_END
#endif
