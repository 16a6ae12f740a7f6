// Log-probs and entropies of the head's rows and their gradients, with as much of [rows, vocabulary] in memory as is
// allowed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/nn/head.hpp"
#include "rlcore/nn/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Rows and columns of logits computed at a time: at most `bytes` of them, but at least one row of 1024. Columns are
/// the vocabulary or a multiple of 1024. Many rows are good for the gradient of the weight, which is read and written
/// once per tile of rows.
struct logit_tile {
  extent_t rows = 0, columns = 0;

  static logit_tile of(extent_t rows, extent_t vocabulary, std::size_t bytes) {
    constexpr extent_t block = 1024, most_rows = 1024;
    const auto floats = static_cast<extent_t>(bytes / sizeof(float));
    const extent_t r = std::max<extent_t>(1, std::min({rows, most_rows, floats / std::min(block, vocabulary)}));
    return {r, std::min(vocabulary, std::max(block, floats / r / block * block))};
  }
};

/// What the gradient of n rows is made of; all device memory. The logits of the first `kept` rows are in memory.
struct head_slopes {
  extent_t n = 0, kept = 0;
  const float* normed = nullptr;  ///< [n, hidden]
  const std::int32_t* tokens = nullptr;
  const float *dlogp = nullptr, *dentropy = nullptr, *entropy = nullptr, *statistics = nullptr;
};

/// The fused form of projection, log-prob and entropy. Logits are made in tiles and consumed while they are in cache;
/// those of as many rows as there is memory for stay from the forward to the backward, tile by tile, the others are
/// made again. No bit depends on that, since every sum has one order.
template <class Device>
class head_rows {
 public:
  static constexpr std::size_t tile_bytes = std::size_t{8} << 20;

  /// Takes memory for n rows: at most `bytes` of logits, and no more than a tile unless `keep`.
  head_rows(const pass<Device>& p, const head& top, float temperature, extent_t n, std::size_t bytes, bool keep)
      : top_(top), temperature_(temperature) {
    const extent_t v = top.output.outputs;
    const auto rows_in = [v](std::size_t room) {
      return static_cast<extent_t>(room / (static_cast<std::size_t>(v) * sizeof(float)));
    };
    const std::size_t one = std::min(bytes, tile_bytes);
    if (keep) kept_ = n <= rows_in(bytes) ? n : rows_in(bytes - one);
    tile_ = logit_tile::of(std::max<extent_t>(n - kept_, 1), v, one);
    columns_ = logit_tile::of(std::max<extent_t>(kept_, 1), v, tile_bytes).columns;
    states_ = p.space.template take<log_prob_state>(std::max(tile_.rows, kept_));
    if (kept_ > 0) logits_ = p.space.template take<float>(kept_ * v);
    if (kept_ < n) part_ = p.space.template take<float>(tile_.rows * tile_.columns);
  }

  extent_t kept() const { return kept_; }

  /// logp [n], entropy [n] (may be null), statistics [n, 2] (may be null) of normed rows and their tokens.
  void forward(const pass<Device>& p, const float* normed, const std::int32_t* tokens, extent_t n, float* logp,
               float* entropy, float* statistics) const {
    for_tiles(n, kept_, [&](extent_t i, extent_t rows, extent_t first, extent_t columns, float* logits) {
      top_.forward_columns(p, logits, normed + i * top_.output.inputs, rows, first, columns);
      p.device.log_prob_accumulate(states_, logits, rows, columns, first, tokens + i, temperature_);
      if (first + columns == top_.output.outputs)
        p.device.log_prob_finish(states_, rows, temperature_, logp + i, entropy ? entropy + i : nullptr,
                                 statistics ? statistics + 2 * i : nullptr);
    });
  }

  /// Moves the kept logits of the ascending rows `active` together; returns how many rows those are.
  extent_t move_kept(Device& device, std::span<const std::int32_t> active) const {
    const auto end = std::lower_bound(active.begin(), active.end(), static_cast<std::int32_t>(kept_));
    const auto rows = static_cast<extent_t>(end - active.begin());
    if (rows == kept_) return rows;
    for_tiles(kept_, kept_, [&](extent_t, extent_t, extent_t, extent_t columns, float* logits) {
      for (extent_t to = 0; to < rows; ++to) {
        const extent_t from = active[static_cast<std::size_t>(to)];
        if (from != to)
          device.copy_rows(logits + to * columns, columns, nullptr, logits + from * columns, columns, 1, columns);
      }
    });
    return rows;
  }

  /// dnormed [n, hidden] and the weight's gradient (see head::backward_columns).
  void backward(const pass<Device>& p, const head_slopes& s, float* dnormed) const {
    const extent_t h = top_.output.inputs;
    pass<Device> part = p;
    for_tiles(s.n, s.kept, [&](extent_t i, extent_t rows, extent_t first, extent_t columns, float* logits) {
      const float* normed = s.normed + i * h;
      part.first = p.first && i == 0;
      if (i >= s.kept) top_.forward_columns(p, logits, normed, rows, first, columns);
      p.device.log_prob_backward(logits, rows, columns, first, s.tokens + i, temperature_, s.dlogp + i, s.dentropy + i,
                                 s.entropy + i, s.statistics + 2 * i);
      top_.backward_columns(part, dnormed + i * h, logits, normed, rows, first, columns);
    });
  }

 private:
  /// f(first row, rows, first column, columns, logits): `kept` rows first, whose tiles stay apart, kept_ rows each.
  template <class F>
  void for_tiles(extent_t n, extent_t kept, F&& f) const {
    const extent_t v = top_.output.outputs;
    for (extent_t first = 0; kept > 0 && first < v; first += columns_)
      f(extent_t{0}, kept, first, std::min(columns_, v - first), logits_ + kept_ * first);
    for (extent_t i = kept; i < n; i += tile_.rows)
      for (extent_t first = 0; first < v; first += tile_.columns)
        f(i, std::min(tile_.rows, n - i), first, std::min(tile_.columns, v - first), part_);
  }

  const head& top_;
  float temperature_;
  extent_t kept_ = 0, columns_ = 0;  // rows whose logits are kept, and the columns of their tiles
  logit_tile tile_;                  // of the others
  float *logits_ = nullptr, *part_ = nullptr;
  log_prob_state* states_ = nullptr;
};

}  // namespace nn
RLCORE_END
