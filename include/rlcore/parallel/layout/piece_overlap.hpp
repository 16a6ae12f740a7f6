// Intersection of two pieces of a tensor, as contiguous runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/layout/shard_piece.hpp"

RLCORE_BEGIN
namespace parallel {

/// Maps the elements of a piece to the whole tensor. Piece and tensor have the same element order, so both positions
/// grow together. Positions in the piece count from its rectangle's first element. The piece must outlive it.
class piece_positions {
 public:
  /// Valid pieces only (check_piece()).
  explicit piece_positions(const shard_piece& p) : piece_(&p), strides_(p.shape.size()) {
    std::uint64_t stride = 1;
    for (std::size_t d = p.shape.size(); d-- > 0; stride *= static_cast<std::uint64_t>(p.shape[d]))
      strides_[d] = stride;
    for (outer_ = p.shape.size(); outer_ > 0;) {
      --outer_;
      run_ *= static_cast<std::uint64_t>(p.extent[outer_]);
      if (p.extent[outer_] != p.shape[outer_]) break;
    }
  }

  /// The position in the tensor of element `at` of the rectangle, and the number of contiguous elements from there.
  struct run {
    std::uint64_t global = 0, count = 0;
  };
  /// The contiguous run from element `at` of the rectangle, clipped to the piece.
  run at(std::size_t at) const noexcept {
    const std::uint64_t within = at % run_;
    std::uint64_t index = at / run_, global = within;
    if (outer_ < strides_.size()) global += place(outer_);
    for (std::size_t d = outer_; d-- > 0;) {
      const auto n = static_cast<std::uint64_t>(piece_->extent[d]);
      global += place(d) + index % n * strides_[d];
      index /= n;
    }
    return {global, std::min<std::uint64_t>(run_ - within, piece_->last - at)};
  }
  /// The first element of the rectangle at or after `global` in the tensor; the size of the rectangle if there is none.
  std::size_t find(std::uint64_t global) const noexcept {
    std::size_t local = 0, inner = elements_of(piece_->extent);
    for (std::size_t d = 0; d < strides_.size(); ++d) {
      const auto start = static_cast<std::uint64_t>(piece_->start[d]),
                 n = static_cast<std::uint64_t>(piece_->extent[d]);
      const std::uint64_t coordinate = global / strides_[d];
      global %= strides_[d];
      inner /= n;
      if (coordinate < start) return local;
      if (coordinate >= start + n) return local + n * inner;
      local += (coordinate - start) * inner;
    }
    return local;
  }

 private:
  std::uint64_t place(std::size_t d) const noexcept {
    return static_cast<std::uint64_t>(piece_->start[d]) * strides_[d];
  }

  const shard_piece* piece_;
  std::vector<std::uint64_t> strides_;
  std::size_t outer_ = 0;  // dimensions outside of a run
  std::uint64_t run_ = 1;  // contiguous elements
};

/// Iterates over the common elements of two pieces in ascending order, without storing a list.
class piece_overlap {
 public:
  /// Positions count from the first element of each piece.
  struct part {
    std::size_t a = 0, b = 0, count = 0;
  };

  /// Both pieces belong to the same tensor and must outlive the overlap.
  piece_overlap(const shard_piece& a, const shard_piece& b)
      : a_piece_(&a), b_piece_(&b), a_at_(a), b_at_(b), a_(a.first), b_(b.first) {}

  /// The next run that is contiguous in both pieces, at most `limit` elements; count 0 at the end.
  part next(std::size_t limit = std::numeric_limits<std::size_t>::max()) {
    while (a_ < a_piece_->last && b_ < b_piece_->last) {
      const piece_positions::run a = a_at_.at(a_), b = b_at_.at(b_);
      if (a.global + a.count <= b.global) {
        a_ = std::max(a_ + a.count, a_at_.find(b.global));
      } else if (b.global + b.count <= a.global) {
        b_ = std::max(b_ + b.count, b_at_.find(a.global));
      } else {
        const std::uint64_t begin = std::max(a.global, b.global);
        const std::uint64_t end = std::min(a.global + a.count, b.global + b.count);
        a_ += begin - a.global;
        b_ += begin - b.global;
        const part found{a_ - a_piece_->first, b_ - b_piece_->first, std::min<std::uint64_t>(end - begin, limit)};
        a_ += found.count;
        b_ += found.count;
        return found;
      }
    }
    return {};
  }

 private:
  const shard_piece *a_piece_, *b_piece_;
  piece_positions a_at_, b_at_;
  std::size_t a_, b_;
};

/// Calls f(position in a, position in b, count) for each run of common elements.
template <class F>
void for_each_overlap(const shard_piece& a, const shard_piece& b, F&& f) {
  piece_overlap common(a, b);
  for (auto part = common.next(); part.count != 0; part = common.next()) f(part.a, part.b, part.count);
}

}  // namespace parallel
RLCORE_END
