// All-gathers the piece lists of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"

RLCORE_BEGIN
namespace parallel {

/// All-gathers bytes, one entry per rank.
template <communicator C>
std::vector<std::string> gather_texts(C& c, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(c.size());
  std::vector<std::size_t> sizes(ranks);
  const std::size_t size = mine.size();
  c.all_gather(std::span<const std::size_t>(&size, 1), std::span<std::size_t>(sizes));
  std::string gathered(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  c.all_gather_v(std::span<const char>(mine), std::span<char>(gathered), std::span<const std::size_t>(sizes));
  std::vector<std::string> texts;
  for (std::size_t r = 0, at = 0; r < ranks; at += sizes[r++]) texts.push_back(gathered.substr(at, sizes[r]));
  return texts;
}

/// All-gathers the piece lists, one entry per rank.
template <communicator C>
piece_layout gather_pieces(C& c, std::span<const shard_piece> mine) {
  std::string text;
  const auto number = [&](std::uint64_t n) {
    for (int i = 0; i < 8; ++i) text += static_cast<char>(n >> (8 * i) & 0xff);
  };
  for (const shard_piece& p : mine) {
    number(p.tensor.size());
    text += p.tensor;
    number(p.shape.size());
    for (const auto* list : {&p.shape, &p.start, &p.extent})
      for (const std::int64_t n : *list) number(static_cast<std::uint64_t>(n));
    number(p.first);
    number(p.last);
  }
  piece_layout layout;
  for (const std::string& theirs : gather_texts(c, text)) {
    layout.emplace_back();
    std::size_t at = 0;
    const auto next = [&] {
      std::uint64_t n = 0;
      for (std::size_t i = 0; i < 8; ++i) n |= std::uint64_t{static_cast<unsigned char>(theirs[at++])} << (8 * i);
      return n;
    };
    while (at < theirs.size()) {
      shard_piece p;
      const std::size_t length = next();
      p.tensor = theirs.substr(at, length);
      at += length;
      p.shape.resize(next());
      p.start.resize(p.shape.size());
      p.extent.resize(p.shape.size());
      for (auto* list : {&p.shape, &p.start, &p.extent})
        for (std::int64_t& n : *list) n = static_cast<std::int64_t>(next());
      p.first = next();
      p.last = next();
      layout.back().push_back(std::move(p));
    }
  }
  return layout;
}

}  // namespace parallel
RLCORE_END
