// Disjoint tensor pieces of all ranks and the ranks that hold them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/layout/piece_overlap.hpp"
#include "rlcore/parallel/layout/shard_piece.hpp"

RLCORE_BEGIN
namespace parallel {

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
