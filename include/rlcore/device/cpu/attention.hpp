// Work partitioning of attention over CPU threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"

RLCORE_BEGIN

namespace cpu_kernels {

/// One thread's work: rows begin .. end - 1, a row being a (query, head of the group), of a (segment, key head).
struct attention_unit {
  std::size_t segment;
  extent_t kv_head, begin, end;
  extent_t products;  ///< (row, key) pairs
};

/// The units of one call, the largest first. Allocates nothing after the largest call.
class attention_units {
 public:
  /// (segment, key head) pairs, cut every `most_rows` rows.
  void plan(const attention_shape& s, std::span<const attention_segment> segments, extent_t most_rows) {
    units_.clear();
    products_ = 0;
    const extent_t group = s.heads / s.kv_heads;
    extent_t longest = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const attention_segment& g = segments[i];
      longest = std::max(longest, g.rows);
      for (extent_t begin = 0; begin < g.rows * group; begin += most_rows) {
        const extent_t end = std::min(g.rows * group, begin + most_rows);
        const extent_t keys = g.first_position + (s.causal ? (begin + end) / (2 * group) + 1 : g.rows);
        const extent_t products = (end - begin) * keys;
        for (extent_t h = 0; h < s.kv_heads; ++h) units_.push_back({i, h, begin, end, products});
        products_ += products * s.kv_heads;
      }
    }
    if (longest > 1)
      std::sort(units_.begin(), units_.end(), [](const auto& a, const auto& b) { return a.products > b.products; });
  }
  std::span<const attention_unit> units() const { return units_; }
  /// Products of all units together.
  extent_t products() const { return products_; }

 private:
  std::vector<attention_unit> units_;
  extent_t products_ = 0;
};

}  // namespace cpu_kernels

RLCORE_END
