// Pieces of parameters that ranks hold, and their overlaps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// A rectangle of a tensor (tensor and expert parallelism), restricted to a range of its elements in row-major order
/// (data parallelism with sharded weights). Placement is explicit, never inferred from values or sizes. A scalar has no
/// dimensions and one element.
struct shard_piece {
  std::string tensor;
  std::vector<std::int64_t> shape;          ///< of the whole tensor
  std::vector<std::int64_t> start, extent;  ///< the rectangle, one entry per dimension
  std::size_t first = 0, last = 0;          ///< elements of the rectangle

  std::size_t size() const noexcept { return last - first; }
  bool operator==(const shard_piece&) const = default;
};

/// The number of elements of a tensor or rectangle.
inline std::size_t elements_of(const std::vector<std::int64_t>& extents) noexcept {
  std::size_t n = 1;
  for (const std::int64_t e : extents) n *= static_cast<std::size_t>(e);
  return n;
}

/// The piece that covers a whole tensor.
inline shard_piece whole_tensor(std::string name, std::vector<std::int64_t> shape) {
  const std::size_t size = elements_of(shape);
  std::vector<std::int64_t> start(shape.size());
  std::vector<std::int64_t> extent = shape;
  return {std::move(name), std::move(shape), std::move(start), std::move(extent), 0, size};
}

/// "model.norm.weight [4, 6]: 3 .. 9 of the rectangle [2, 6] at [1, 0]"
inline std::string text_of(const shard_piece& p) {
  const auto list = [](const std::vector<std::int64_t>& v) {
    std::string text = "[";
    for (std::size_t i = 0; i < v.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(v[i]);
    return text + "]";
  };
  std::string text =
      p.tensor + " " + list(p.shape) + ": elements " + std::to_string(p.first) + " .. " + std::to_string(p.last);
  if (p.extent != p.shape) text += " of the rectangle " + list(p.extent) + " at " + list(p.start);
  return text;
}

/// The error of an invalid piece; empty if the piece is valid.
inline std::string fault_of(const shard_piece& p) {
  if (p.start.size() != p.shape.size() || p.extent.size() != p.shape.size())
    return "a rectangle with another number of dimensions than the tensor";
  std::size_t n = 1;
  for (std::size_t d = 0; d < p.shape.size(); ++d) {
    if (p.start[d] < 0 || p.extent[d] < 0 || p.shape[d] < 0 || p.extent[d] > p.shape[d] ||
        p.start[d] > p.shape[d] - p.extent[d])
      return "a rectangle that reaches past the tensor";
    const auto e = static_cast<std::size_t>(p.shape[d]);
    if (e != 0 && n > (std::size_t{1} << 60) / e) return "a tensor that is too large";
    if (e != 0) n *= e;
  }
  if (p.first > p.last || p.last > elements_of(p.extent)) return "elements past its rectangle";
  return "";
}

/// Throws std::invalid_argument naming the piece if it is invalid.
inline void check_piece(const shard_piece& p) {
  if (const std::string fault = fault_of(p); !fault.empty())
    throw std::invalid_argument("rlcore: piece " + text_of(p) + " has " + fault);
}

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

/// The pieces of every rank.
using piece_layout = std::vector<std::vector<shard_piece>>;

/// A piece and all ranks that hold it. In a holder it starts at element `offset` of its piece number `piece`.
struct held_piece {
  /// A rank that holds the piece.
  struct holder {
    std::size_t rank = 0, piece = 0, offset = 0;
  };
  shard_piece piece;
  std::vector<holder> holders;
  std::uint64_t begin = 0, end = 0;  ///< the range of the tensor that contains all elements
};

/// Elements `from` .. `to` of a piece, counted from its first.
inline shard_piece part_of(const shard_piece& p, std::size_t from, std::size_t to) {
  shard_piece part = p;
  part.first = p.first + from;
  part.last = p.first + to;
  return part;
}

namespace detail {

/// Fills in `begin` and `end`.
inline held_piece held(shard_piece piece, std::vector<held_piece::holder> holders) {
  held_piece h{std::move(piece), std::move(holders), 0, 0};
  const piece_positions positions(h.piece);
  h.begin = positions.at(h.piece.first).global;
  h.end = positions.at(h.piece.last - 1).global + 1;
  return h;
}

/// Adds a piece of one rank to the disjoint pieces of its tensor; splits these at its ends.
inline void hold(std::vector<held_piece>& pieces, const shard_piece& piece, held_piece::holder who) {
  const held_piece mine = held(piece, {who});
  std::vector<std::pair<std::size_t, std::size_t>> known;  // elements of `piece` that other ranks hold too
  for (std::size_t i = 0, count = pieces.size(); i < count; ++i) {
    if (pieces[i].end <= mine.begin || mine.end <= pieces[i].begin) continue;
    if (pieces[i].piece == piece) return pieces[i].holders.push_back(who);
    std::vector<piece_overlap::part> parts;
    for_each_overlap(pieces[i].piece, piece, [&](std::size_t a, std::size_t b, std::size_t n) {
      if (!parts.empty() && parts.back().a + parts.back().count == a && parts.back().b + parts.back().count == b)
        parts.back().count += n;
      else
        parts.push_back({a, b, n});
    });
    if (parts.empty()) continue;
    const held_piece whole = std::exchange(pieces[i], {});
    const auto cut = [&](std::size_t from, std::size_t to, const held_piece::holder* more) {
      if (from == to) return;
      std::vector<held_piece::holder> holders = whole.holders;
      for (held_piece::holder& h : holders) h.offset += from;
      if (more != nullptr) holders.push_back(*more);
      pieces.push_back(held(part_of(whole.piece, from, to), std::move(holders)));
    };
    std::size_t at = 0;
    for (const piece_overlap::part& p : parts) {
      cut(at, p.a, nullptr);
      const held_piece::holder here{who.rank, who.piece, who.offset + p.b};
      cut(p.a, p.a + p.count, &here);
      at = p.a + p.count;
      known.emplace_back(p.b, p.b + p.count);
    }
    cut(at, whole.piece.size(), nullptr);
  }
  std::sort(known.begin(), known.end());
  known.emplace_back(piece.size(), piece.size());
  std::size_t at = 0;
  for (const auto& [from, to] : known) {
    if (at < from) pieces.push_back(held(part_of(piece, at, from), {{who.rank, who.piece, who.offset + at}}));
    at = std::max(at, to);
  }
  pieces.erase(std::remove_if(pieces.begin(), pieces.end(), [](const held_piece& h) { return h.holders.empty(); }),
               pieces.end());
}

}  // namespace detail

/// For each tensor the disjoint pieces that the ranks hold, in ascending order of their first elements. The result is
/// the same in all ranks. Throws std::invalid_argument for an invalid piece, a piece that a rank holds twice, and ranks
/// that disagree on a tensor's shape.
inline std::map<std::string, std::vector<held_piece>> held_pieces(const piece_layout& layout) {
  std::map<std::string, std::vector<held_piece>> tensors;
  std::map<std::string, const shard_piece*> seen;
  for (std::size_t rank = 0; rank < layout.size(); ++rank)
    for (std::size_t i = 0; i < layout[rank].size(); ++i) {
      const shard_piece& p = layout[rank][i];
      check_piece(p);
      const shard_piece& one = *seen.emplace(p.tensor, &p).first->second;
      if (one.shape != p.shape)
        throw std::invalid_argument("rlcore: ranks disagree on a shape: " + text_of(one) + ", but " + text_of(p));
      std::vector<held_piece>& of_tensor = tensors[p.tensor];
      if (p.size() != 0) detail::hold(of_tensor, p, {rank, i, 0});
    }
  for (auto& [name, pieces] : tensors) {
    std::sort(pieces.begin(), pieces.end(), [](const held_piece& a, const held_piece& b) { return a.begin < b.begin; });
    for (const held_piece& h : pieces)
      for (std::size_t k = 1; k < h.holders.size(); ++k)
        if (h.holders[k].rank == h.holders[k - 1].rank)
          throw std::invalid_argument("rlcore: rank " + std::to_string(h.holders[k].rank) + " holds " +
                                      text_of(h.piece) + " twice");
  }
  return tensors;
}

/// Returns the first tensor whose pieces do not add up to its size; empty if every tensor is complete.
inline std::string missing_of(const std::map<std::string, std::vector<held_piece>>& held,
                              const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  for (const auto& [name, shape] : shapes) {
    std::size_t count = 0;
    if (const auto at = held.find(name); at != held.end())
      for (const held_piece& h : at->second) count += h.piece.size();
    if (count != elements_of(shape))
      return "tensor '" + name + "': " + std::to_string(elements_of(shape) - count) + " of " +
             std::to_string(elements_of(shape)) + " elements are missing";
  }
  return "";
}

/// A part of one of a rank's pieces: `index` is the number of the piece, `offset` the first element of the part in it.
struct assigned_piece {
  shard_piece piece;
  std::size_t index = 0, offset = 0;
};

/// The parts that `rank` writes; every element is written once. A piece held by several ranks is split into ranges of
/// at least `grain` elements, which are assigned to its holders round-robin.
inline std::vector<assigned_piece> assign_pieces(const std::map<std::string, std::vector<held_piece>>& held,
                                                 std::size_t rank, std::size_t grain = std::size_t{1} << 16) {
  std::vector<assigned_piece> mine;
  std::size_t turn = 0;
  for (const auto& [name, pieces] : held)
    for (const held_piece& h : pieces) {
      const std::size_t n = h.piece.size(), holders = h.holders.size(),
                        parts = std::clamp<std::size_t>(n / grain, 1, holders);
      for (std::size_t k = 0; k < parts; ++k) {
        const held_piece::holder& who = h.holders[(turn + k) % holders];
        if (who.rank != rank) continue;
        const std::size_t from = n * k / parts, to = n * (k + 1) / parts;
        mine.push_back({part_of(h.piece, from, to), who.piece, who.offset + from});
      }
      turn += parts;
    }
  return mine;
}

}  // namespace parallel
RLCORE_END
