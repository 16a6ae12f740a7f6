// Attention segments of one operator call, with their keys and values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// The keys that the last row of a segment attends to; the segment has no others.
inline extent_t keys_of(const attention_segment& s) { return s.first_position + s.rows; }

/// Segments with consecutive rows; `query_ends` and `key_ends` are the ends of each segment's rows and keys.
struct attention_run {
  std::span<const attention_segment> segments;
  std::size_t first = 0;  ///< number of the first segment in the call
  extent_t first_row = 0, rows = 0, keys = 0;
  std::vector<std::int64_t> query_ends, key_ends;
};

/// Calls f(run) for all rows of the call. A run has at most 2048 segments, 2^20 rows and 2^20 keys, unless a single
/// segment has more: the limits of the operators over packed sequences.
template <class F>
void for_runs(const context& c, std::span<const attention_segment> segments, F&& f) {
  constexpr std::size_t most = 2048;
  constexpr extent_t most_keys = extent_t{1} << 20;
  attention_run run;
  for (std::size_t i = 0; i < segments.size(); i += std::max<std::size_t>(1, run.segments.size())) {
    run = {{}, i, segments[i].first_row, 0, 0, {}, {}};
    std::size_t n = 0;
    for (; i + n < segments.size() && n < most; ++n) {
      const attention_segment &s = segments[i + n], &head = segments[i];
      if (s.rows <= 0) break;
      if (n > 0 && std::max(run.rows + s.rows, run.keys + keys_of(s)) > most_keys) break;
      if (s.first_row != head.first_row + run.rows || (s.pages == nullptr) != (head.pages == nullptr)) break;
      if (s.pages != nullptr && (s.keys != head.keys || !c.memory.same(s.pages, head.pages))) break;
      run.rows += s.rows;
      run.keys += keys_of(s);
      run.query_ends.push_back(run.rows);
      run.key_ends.push_back(run.keys);
    }
    run.segments = segments.subspan(i, n);
    if (n > 0) f(std::as_const(run));
  }
}

/// f(offset in the run's keys, keys, pointer to keys, pointer to values, row) for contiguous ranges of keys; place(i) =
/// (keys, values) of segment i of the run.
template <class Place, class F>
void for_stretches(const attention_run& run, Place&& place, F&& f) {
  extent_t done = 0;
  for (std::size_t i = 0; i < run.segments.size();) {
    const auto [keys, values] = place(i);
    const extent_t row = run.segments[i].key_row, begin = done;
    for (; i < run.segments.size() && run.segments[i].key_row == row; ++i) {
      const auto [k, v] = place(i);
      if (k != keys + (done - begin) * row || v != values + (done - begin) * row) break;
      done += keys_of(run.segments[i]);
    }
    f(begin, done - begin, keys, values, row);
  }
}

/// The rows of a layer's pages, seen as [rows, kv_heads * head_dim], that hold the positions of a run: first the keys,
/// then the values. Inside a page this device keeps kv_page rows of keys, then as many of values. The layers after the
/// first reuse the result.
class page_rows {
 public:
  /// With `written` only the rows that the segments write, not all keys that they read.
  explicit page_rows(bool written) : written_only_(written) {}

  extent_t count() const noexcept { return count_; }
  /// [2 count()] indices.
  const std::int32_t* operator()(context& c, const attention_run& run);
  /// The range has been overwritten: recomputes row numbers that depend on it.
  void written(const memory_range& where) noexcept { kept_.written(where); }

 private:
  using key = std::tuple<const std::int32_t*, extent_t, extent_t>;
  bool written_only_;
  derived kept_;
  std::vector<key> key_, known_;
  std::vector<std::int32_t> host_;
  extent_t count_ = 0;
  std::optional<scratch<std::int32_t>> rows_;
};

/// All rows of a layer of the cache: pages of kv_page rows of keys, then of values.
inline tensor_argument layer_rows(const context& c, const attention_segment& g, const float* layer, extent_t w) {
  if (g.layer_pages <= 0) throw std::invalid_argument("rlcore: npu: attention over pages without layer_pages");
  return c.table(layer, g.layer_pages * 2 * kv_page, w);
}

/// The keys, then the values of a run, contiguous: [2, keys, kv_heads * head_dim].
template <class T>
scratch<T> gather_keys_values(context& c, page_rows& pages, const attention_shape& s, const attention_run& run) {
  const extent_t w = s.kv_heads * s.head_dim, key_elements = run.keys * w;
  scratch<T> to = c.take<T>(2 * key_elements);
  if (run.segments[0].pages != nullptr) {
    const std::int32_t* rows = pages(c, run);
    const float* layer = run.segments[0].keys;
    const auto from = layer_rows(c, run.segments[0], layer, w);
    if constexpr (std::is_same_v<T, float>) {
      c.select(from, c.view(rows, {2 * run.keys}), c.rows(to.data(), 2 * run.keys, w));
    } else {
      const auto read = c.take<float>(2 * key_elements);
      c.select(from, c.view(rows, {2 * run.keys}), c.rows(read.data(), 2 * run.keys, w));
      c.convert(c.view(read.data(), {2 * key_elements}), c.view(to.data(), {2 * key_elements}));
    }
    return to;
  }
  for_stretches(
      run, [&](std::size_t i) { return std::pair{run.segments[i].keys, run.segments[i].values}; },
      [&](extent_t first, extent_t n, const float* keys, const float* values, extent_t row) {
        c.convert(c.rows(keys, n, w, row), c.rows(to.data() + first * w, n, w));
        c.convert(c.rows(values, n, w, row), c.rows(to.data() + key_elements + first * w, n, w));
      });
  return to;
}

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE const std::int32_t* page_rows::operator()(context& c, const attention_run& run) {
  key_.clear();
  for (const attention_segment& s : run.segments) key_.emplace_back(s.pages, s.first_position, s.rows);
  if (kept_.valid() && key_ == known_) return rows_->data();
  kept_.forget();
  const std::int32_t *base = run.segments[0].pages, *end = base;
  for (const attention_segment& s : run.segments) {
    base = std::min(base, s.pages);
    end = std::max(end, s.pages + kv_pages(keys_of(s)));
  }
  count_ = written_only_ ? run.rows : run.keys;
  const auto n = static_cast<std::size_t>(count_);
  host_.resize(4 * n);  // [page of the list | row in the page], each for keys, then for values
  std::size_t at = 0;
  for (const attention_segment& s : run.segments)
    for (extent_t p = written_only_ ? s.first_position : 0; p < keys_of(s); ++p, ++at) {
      host_[at] = host_[n + at] = static_cast<std::int32_t>((s.pages - base) + p / kv_page);
      host_[2 * n + at] = static_cast<std::int32_t>(p % kv_page);
      host_[3 * n + at] = static_cast<std::int32_t>(kv_page + p % kv_page);
    }
  const auto numbers = c.take<std::int32_t>(4 * count_), pages = c.take<std::int32_t>(2 * count_);
  c.q.upload(numbers.data(), host_.data(), host_.size() * sizeof(std::int32_t));
  rows_.reset();
  rows_ = c.take<std::int32_t>(2 * count_);
  c.select(c.view(base, {end - base}), c.view(numbers.data(), {2 * count_}), c.view(pages.data(), {2 * count_}));
  // Not Add's alpha: its integer kernel computes in float, which is inexact for rows beyond 2^24.
  c.run(c.op().aclnnMuls, c.view(pages.data(), {2 * count_}), c.q.scalar(static_cast<std::int64_t>(2 * kv_page)),
        c.view(pages.data(), {2 * count_}));
  c.add_integers(c.view(numbers.data() + 2 * count_, {2 * count_}), c.view(pages.data(), {2 * count_}),
                 c.view(rows_->data(), {2 * count_}));
  kept_.made_from({{base, static_cast<std::size_t>(end - base) * sizeof(*base)}});
  known_ = key_;
  return rows_->data();
}

}  // namespace ascend::kernels
RLCORE_END
#endif
