// Fused LM head: log-probs, entropies and gradients with a memory limit for the logits [rows, vocabulary]; all-gathered
// logits under tensor parallelism.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// The tile of logits computed at a time: within the limits, but at least one row of 1024. Columns are the vocabulary
/// or a multiple of 1024. More rows make the weight gradient faster, since each row tile reads and writes it once.
struct logit_tile {
  extent_t rows = 0, columns = 0;

  /// The tile for `rows` rows of `vocabulary` columns within the limits, with at least one row.
  static logit_tile of(extent_t rows, extent_t vocabulary, const logit_limits& most) {
    constexpr extent_t block = 1024;
    const auto floats = static_cast<extent_t>(most.bytes / sizeof(float));
    const extent_t r = std::max<extent_t>(1, std::min({rows, most.rows, floats / std::min(block, vocabulary)}));
    return {r, std::min(vocabulary, std::max(block, floats / r / block * block))};
  }
};

/// The backward inputs of n rows, all in device memory. The logits of the first `kept` rows are in memory. `tokens` is
/// the result of head_rows::take_tokens(), `active` the numbers of the rows in the forward (empty: 0, 1, ...).
struct head_slopes {
  extent_t n = 0, kept = 0;
  const float* normed = nullptr;  ///< [n, hidden]
  const std::int32_t* tokens = nullptr;
  const float *dlogp = nullptr, *dentropy = nullptr, *entropy = nullptr, *statistics = nullptr;
  std::span<const std::int32_t> active = {};
};

/// Fuses projection, log-prob and entropy. Computes logits in tiles and consumes them while they are in cache. The
/// forward keeps the logits of as many rows as memory allows; the backward recomputes the rest. The bits do not depend
/// on this, since every sum has a fixed order. Under tensor parallelism this class all-reduces the sums and dnormed.
template <class Device>
class head_rows {
 public:
  /// Allocates memory for n rows: at most `bytes` of logits, and at most one tile unless `keep`. `sampling_mask` is
  /// that of nn::targets, and must outlive this object.
  head_rows(const pass<Device>& p, const head& top, float temperature, extent_t n, std::size_t bytes, bool keep,
            const ragged<std::int32_t>* sampling_mask = nullptr)
      : top_(top),
        sampling_mask_(sampling_mask != nullptr && !sampling_mask->empty() ? sampling_mask : nullptr),
        temperature_(temperature),
        chunks_(static_cast<extent_t>(top.chunks.count)) {
    const extent_t v = top.output.outputs;
    const auto rows_in = [v](std::size_t room) {
      return static_cast<extent_t>(room / (static_cast<std::size_t>(v) * sizeof(float)));
    };
    const logit_limits most = p.device.logit_tile();
    const std::size_t one = std::min(bytes, most.bytes);
    if (keep) kept_ = n <= rows_in(bytes) ? n : rows_in(bytes - one);
    tile_ = logit_tile::of(std::max<extent_t>(n - kept_, 1), v, {one, most.rows});
    columns_ = logit_tile::of(std::max<extent_t>(kept_, 1), v, most).columns;
    states_ = p.space.template take<log_prob_state>(apart() ? n * chunks_ : std::max(tile_.rows, kept_));
    if (kept_ > 0) logits_ = p.space.template take<float>(kept_ * v);
    if (kept_ < n) part_ = p.space.template take<float>(tile_.rows * tile_.columns);
  }

  extent_t kept() const { return kept_; }

  /// Device copy of the target tokens, as read by forward() and backward().
  const std::int32_t* take_tokens(workspace<Device>& space, std::span<const std::int32_t> tokens) const {
    if (!apart()) return space.take_copy(tokens.data(), std::ssize(tokens));
    top_.chunks.count_from(tokens, top_.chunks.first, top_.chunks.count, space.index);
    return space.take_copy(space.index.data(), std::ssize(space.index));
  }

  /// Computes logp [n], entropy [n] (may be null), statistics [n, 2] (may be null) of normed rows and their tokens.
  void forward(const pass<Device>& p, const float* normed, const std::int32_t* tokens, extent_t n, float* logp,
               float* entropy, float* statistics) const {
    for_blocks(n, kept_, [&](extent_t i, extent_t rows) {
      for (extent_t c = 0; c < chunks_; ++c) {
        log_prob_state* states = apart() ? states_ + c * n + i : states_;
        for_tiles(i, kept_, c, [&](extent_t first, extent_t before, extent_t columns, float* logits) {
          top_.forward_columns(p, logits, normed + i * top_.output.inputs, rows, first, columns);
          exclude_unsampled(p, logits, i, rows, first, columns, {});
          p.device.run(op::log_prob_accumulate{.states = states,
                                               .logits = logits,
                                               .rows = rows,
                                               .width = columns,
                                               .first = before,
                                               .targets = tokens + c * n + i,
                                               .temperature = temperature_});
        });
      }
      if (!apart())
        p.device.run(op::log_prob_finish{.states = states_,
                                         .rows = rows,
                                         .temperature = temperature_,
                                         .logp = logp + i,
                                         .entropy = entropy ? entropy + i : nullptr,
                                         .statistics = statistics ? statistics + 2 * i : nullptr});
    });
    if (apart())
      p.device.run(op::log_prob_finish{.states = merge(p, n),
                                       .rows = n,
                                       .temperature = temperature_,
                                       .logp = logp,
                                       .entropy = entropy,
                                       .statistics = statistics});
  }

  /// Compacts the kept logits to the ascending rows `active`; returns the number of these rows.
  extent_t move_kept(Device& device, std::span<const std::int32_t> active) const {
    const auto end = std::lower_bound(active.begin(), active.end(), static_cast<std::int32_t>(kept_));
    const auto rows = static_cast<extent_t>(end - active.begin());
    if (rows == kept_) return rows;
    for (extent_t c = 0; c < chunks_; ++c)
      for_tiles(0, kept_, c, [&](extent_t, extent_t, extent_t columns, float* logits) {
        for (extent_t to = 0; to < rows; ++to) {
          const extent_t from = active[static_cast<std::size_t>(to)];
          if (from != to)
            device.run(op::copy_rows{.y = logits + to * columns,
                                     .y_row = columns,
                                     .x = logits + from * columns,
                                     .x_row = columns,
                                     .count = 1,
                                     .width = columns});
        }
      });
    return rows;
  }

  /// Computes dnormed [n, hidden] and the weight's gradient (see head::backward_columns).
  void backward(const pass<Device>& p, const head_slopes& s, float* dnormed) const {
    const extent_t h = top_.output.inputs;
    pass<Device> part = p;
    for_blocks(s.n, s.kept, [&](extent_t i, extent_t rows) {
      const float* normed = s.normed + i * h;
      part.first = p.first && i == 0;
      sum_of_chunks(p, dnormed + i * h, rows * h, 0, chunks_, [&](extent_t c, float* out) {
        for_tiles(i, s.kept, c, [&](extent_t first, extent_t before, extent_t columns, float* logits) {
          if (i >= s.kept) {
            top_.forward_columns(p, logits, normed, rows, first, columns);
            exclude_unsampled(p, logits, i, rows, first, columns, s.active);
          }
          p.device.run(op::log_prob_backward{.logits = logits,
                                             .rows = rows,
                                             .width = columns,
                                             .first = before,
                                             .targets = s.tokens + c * s.n + i,
                                             .temperature = temperature_,
                                             .dlogp = s.dlogp + i,
                                             .dentropy = s.dentropy + i,
                                             .entropy = s.entropy + i,
                                             .statistics = s.statistics + 2 * i});
          top_.exclude_slopes(p, logits, rows, first, columns);
          top_.backward_columns(part, out, logits, normed, rows, first, columns, before > 0);
        });
      });
    });
    sum_over_ranks(p, dnormed, s.n * h);
  }

 private:
  bool apart() const { return top_.chunks.apart(); }

  /// Sets the logits [rows, columns] of rows i, i + 1, ..., columns from `first`, that are outside of the sampling mask
  /// to -infinity. `active`: the numbers of the rows in the mask.
  void exclude_unsampled(const pass<Device>& p, float* logits, extent_t i, extent_t rows, extent_t first,
                         extent_t columns, std::span<const std::int32_t> active) const {
    if (sampling_mask_ == nullptr) return;
    const auto begin = static_cast<std::int32_t>(first + (apart() ? top_.chunks.part(top_.chunks.first).begin : 0)),
               end = begin + static_cast<std::int32_t>(columns);
    std::vector<std::int32_t>& places = p.space.index;  // of the logits that stay
    places.clear();
    for (extent_t r = 0; r < rows; ++r) {
      const auto at = static_cast<std::size_t>(i + r);
      const std::span<const std::int32_t> kept =
          sampling_mask_->row(active.empty() ? at : static_cast<std::size_t>(active[at]));
      const auto row = static_cast<std::int32_t>(r * columns);
      if (kept.empty())
        for (std::int32_t c = 0; c < end - begin; ++c) places.push_back(row + c);
      for (auto id = std::ranges::lower_bound(kept, begin); id != kept.end() && *id < end; ++id)
        places.push_back(row + *id - begin);
    }
    const typename workspace<Device>::scope scope(p.space);
    const auto n = rows * columns, count = static_cast<extent_t>(places.size());
    const std::int32_t* ids = p.space.take_copy(places.data(), count);
    float* values = p.space.template take<float>(count);
    if (count > 0)
      p.device.run(op::gather_rows{.y = values, .x = logits, .x_rows = n, .ids = ids, .count = count, .width = 1});
    p.device.run(op::fill{.y = logits, .value = -std::numeric_limits<float>::infinity(), .n = n});
    if (count > 0)
      p.device.run(
          op::copy_rows{.y = logits, .y_row = 1, .ids = {ids, n}, .x = values, .x_row = 1, .count = count, .width = 1});
  }

  /// Calls f(first row, rows): first the `kept` rows, then blocks of tile rows.
  template <class F>
  void for_blocks(extent_t n, extent_t kept, F&& f) const {
    if (kept > 0) f(extent_t{0}, kept);
    for (extent_t i = kept; i < n; i += tile_.rows) f(i, std::min(tile_.rows, n - i));
  }
  /// Calls f(first column, columns of the chunk before it, columns, logits) for the tiles of chunk c of a block of
  /// rows. The tiles of kept rows are stored separately, with kept_ rows each.
  template <class F>
  void for_tiles(extent_t i, extent_t kept, extent_t c, F&& f) const {
    const slice chunk = top_.columns(c);
    const auto begin = static_cast<extent_t>(chunk.begin), end = static_cast<extent_t>(chunk.end);
    const bool stays = i < kept;
    const extent_t most = stays ? columns_ : tile_.columns;
    for (extent_t first = begin; first < end; first += most)
      f(first, first - begin, std::min(most, end - first), stays ? logits_ + kept_ * first : part_);
  }
  /// The softmax states of n rows over all columns.
  const log_prob_state* merge(const pass<Device>& p, extent_t n) const {
    merge_log_probs(p.device, states_, n, chunks_);
    if (!p.tensor) return states_;
    tensor_group& group = *p.tensor;
    const auto local = static_cast<std::size_t>(n), total = local * static_cast<std::size_t>(group.size());
    group.own_states.resize(local), group.states.resize(total);
    p.device.download(group.own_states.data(), states_, local * sizeof(log_prob_state));
    group.gather(std::span<const log_prob_state>(group.own_states), std::span<log_prob_state>(group.states));
    auto* states = p.space.template take<log_prob_state>(static_cast<extent_t>(total));
    p.device.upload(states, group.states.data(), total * sizeof(log_prob_state));
    merge_log_probs(p.device, states, n, group.size());
    return states;
  }

  const head& top_;
  const ragged<std::int32_t>* sampling_mask_;  // null: none
  float temperature_;
  extent_t chunks_ = 1;              // local chunks of the vocabulary
  extent_t kept_ = 0, columns_ = 0;  // rows with kept logits, and the columns of their tiles
  logit_tile tile_;                  // for the remaining rows
  float *logits_ = nullptr, *part_ = nullptr;
  log_prob_state* states_ = nullptr;
};

/// out [n, vocabulary] for normed rows, bit-identical in all ranks. Uses workspace memory during the call.
template <class Device>
void all_logits(const causal_lm<Device>& model, const pass<Device>& p, float* out, const float* normed, extent_t n) {
  if (!p.tensor) return model.head().forward(p, out, normed, n);
  const typename workspace<Device>::scope scope(p.space);
  const auto local = static_cast<extent_t>(model.vocabulary().size()),
             vocabulary = static_cast<extent_t>(model.settings().vocab_size);
  float *mine = p.space.template take<float>(n * local), *parts = p.space.template take<float>(n * vocabulary);
  model.head().forward(p, mine, normed, n);
  pass<Device> gathered = p;  // [local, n] of every rank, concatenated
  row_share share;
  const int ranks = p.tensor->size();
  for (int r = 0; r < ranks; ++r)
    share.counts.push_back(static_cast<std::size_t>(vocabulary_part(model.settings().vocab_size, r, ranks).size()));
  share.rows = local;
  gathered.tokens = vocabulary, gathered.share = &share;
  all_rows(gathered, mine, parts, n);
  extent_t first = 0;
  for (const std::size_t columns : share.counts) {
    const auto width = static_cast<extent_t>(columns);
    p.device.run(op::copy_rows{
        .y = out + first, .y_row = vocabulary, .x = parts + first * n, .x_row = width, .count = n, .width = width});
    first += width;
  }
}

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class head_rows<cpu>;
extern template class head_rows<any_device>;
}  // namespace nn
RLCORE_END
#endif
