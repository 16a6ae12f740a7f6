// How a model's flat vector of parameters is shared between ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

struct value_range {
  std::size_t first = 0, last = 0;
  std::size_t size() const noexcept { return last - first; }
};

/// The vector is cut into units (what is gathered at a time: the embedding, a layer, the head), each unit into blocks
/// of 1024 values from its begin. A rank owns consecutive whole blocks of every unit; its shard holds them one after
/// the other. Ranks may own nothing of a unit.
class shard_layout {
 public:
  static constexpr std::size_t block = 1024;

  /// Unit u ends at ends[u], where the next one begins.
  shard_layout(std::vector<std::size_t> ends, int ranks)
      : ends_(std::move(ends)), ranks_(static_cast<std::size_t>(ranks)) {
    at_.resize((units() + 1) * ranks_);
    for (std::size_t u = 0; u < units(); ++u) {
      const std::size_t blocks = (unit(u).size() + block - 1) / block;
      for (std::size_t r = 0; r < ranks_; ++r) {
        const auto edge = [&](std::size_t k) { return std::min(unit(u).size(), k * blocks / ranks_ * block); };
        counts_.push_back(edge(r + 1) - edge(r));
        starts_.push_back(unit(u).first + edge(r));
        at_[(u + 1) * ranks_ + r] = at_[u * ranks_ + r] + counts_.back();
      }
    }
  }

  std::size_t units() const noexcept { return ends_.size(); }
  std::size_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t ranks() const noexcept { return ranks_; }
  value_range unit(std::size_t u) const { return {u == 0 ? 0 : ends_[u - 1], ends_[u]}; }
  /// What each rank owns of a unit, in the order in which it lies.
  std::span<const std::size_t> counts(std::size_t u) const { return std::span(counts_).subspan(u * ranks_, ranks_); }
  /// Rank r's part of a unit in the vector, and where it lies in its shard.
  value_range part(std::size_t u, std::size_t r) const {
    const std::size_t i = u * ranks_ + r;
    return {starts_[i], starts_[i] + counts_[i]};
  }
  std::size_t place(std::size_t u, std::size_t r) const { return at_[u * ranks_ + r]; }
  std::size_t shard_size(std::size_t r) const { return at_[units() * ranks_ + r]; }
  /// Blocks of a range that begins with one.
  static std::size_t blocks(std::size_t values) noexcept { return (values + block - 1) / block; }

 private:
  std::vector<std::size_t> ends_;
  std::size_t ranks_;
  std::vector<std::size_t> counts_, starts_, at_;
};

}  // namespace parallel
RLCORE_END
