// A small model's tensors, cut over ranks in every way that training and rollout cut them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/parallel/layout/held_pieces.hpp"

namespace shard_layouts {

using rlcore::parallel::piece_layout;
using rlcore::parallel::shard_piece;
using rlcore::parallel::whole_tensor;

/// Odd sizes, one element, a scalar, nothing.
inline const std::map<std::string, std::vector<std::int64_t>>& tensors() {
  static const std::map<std::string, std::vector<std::int64_t>> all{
      {"embed", {29, 6}}, {"column", {13, 7}}, {"row", {5, 11}},  {"norm", {7}},   {"experts", {6, 3, 5}},
      {"one", {1}},       {"scalar", {}},      {"empty", {0, 4}}, {"ones", {2, 9}}};
  return all;
}

/// A number for each place of each tensor, exact in bf16. "ones" is 1 everywhere: equal shards that are no copies.
inline float value(const std::string& tensor, std::uint64_t place) {
  if (tensor == "ones") return 1;
  return static_cast<float>(
      static_cast<int>((tensor.size() * 31 + static_cast<unsigned char>(tensor[0]) + place * 7) % 251) - 125);
}

template <class T = float>
std::vector<T> values(const shard_piece& p, float factor = 1) {
  std::vector<T> all;
  const rlcore::parallel::piece_positions positions(p);
  for (std::size_t i = p.first; i < p.last; ++i) all.push_back(T(factor * value(p.tensor, positions.at(i).global)));
  return all;
}

/// Part `part` of `parts` along dimension `dim`; the last parts may be smaller or empty.
inline shard_piece slice(shard_piece p, std::size_t dim, std::size_t part, std::size_t parts) {
  const auto n = static_cast<std::size_t>(p.extent[dim]), step = (n + parts - 1) / parts;
  const std::size_t from = std::min(n, part * step), to = std::min(n, from + step);
  p.start[dim] += static_cast<std::int64_t>(from);
  p.extent[dim] = static_cast<std::int64_t>(to - from);
  p.first = 0, p.last = rlcore::parallel::elements_of(p.extent);
  return p;
}
/// Elements of the rectangle: whole blocks of 4, the last ranks may get less or nothing.
inline shard_piece flat(shard_piece p, std::size_t part, std::size_t parts) {
  const std::size_t n = p.last, step = (n + 4 * parts - 1) / (4 * parts) * 4;
  p.first = std::min(n, part * step);
  p.last = std::min(n, p.first + step);
  return p;
}

/// `tp` ranks share rows of "embed" and "column" and columns of "row", `ep` share "experts"; of what is left each of
/// the others has all or, with `sharded`, a range. Rank = data * tp + tensor; experts lie over the data ranks.
inline piece_layout cut(std::size_t ranks, std::size_t tp, std::size_t ep, bool sharded) {
  piece_layout layout(ranks);
  const std::size_t data = ranks / tp;
  for (std::size_t r = 0; r < ranks; ++r)
    for (const auto& [name, shape] : tensors()) {
      shard_piece p = whole_tensor(name, shape);
      if (name == "embed" || name == "column") p = slice(p, 0, r % tp, tp);
      if (name == "row") p = slice(p, 1, r % tp, tp);
      const bool expert = name == "experts" && ep > 1;
      if (expert) p = slice(p, 0, r / tp % ep, ep);
      if (sharded && expert) p = flat(p, r / tp / ep, data / ep);
      if (sharded && !expert) p = flat(p, r / tp, data);
      layout[r].push_back(p);
    }
  return layout;
}

inline std::vector<std::pair<std::string, piece_layout>> all(std::size_t ranks) {
  std::vector<std::pair<std::string, piece_layout>> layouts{{"replicated", cut(ranks, 1, 1, false)},
                                                            {"sharded", cut(ranks, 1, 1, true)},
                                                            {"tensor", cut(ranks, ranks, 1, false)},
                                                            {"expert", cut(ranks, 1, ranks, false)}};
  if (ranks % 2 == 0) layouts.emplace_back("tensor x data", cut(ranks, 2, 1, true));
  if (ranks == 4) layouts.emplace_back("expert x data", cut(ranks, 1, 2, true));
  if (ranks == 4) layouts.emplace_back("tensor x expert", cut(ranks, 2, 2, true));
  return layouts;
}

}  // namespace shard_layouts
