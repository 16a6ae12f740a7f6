// Context parallel group, and its plan: the rows of a packed batch that each rank computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Positions [first, first + rows) of a sequence, stored from row `at` of the batch of `rank`.
struct context_piece {
  std::size_t sequence = 0;
  extent_t first = 0, rows = 0, at = 0;
  int rank = 0;
};

/// Depends only on the lengths, hence the same in all ranks.
///
/// gather_kv and ring keep a sequence whole on one rank while the work of the ranks differs by at most a tenth; else
/// they cut the longest sequences. gather_kv cuts a sequence into 2 P chunks. Rank r has the chunks r and 2 P - 1 - r,
/// so that every rank has the same share of a causal triangle. ring cuts a sequence into P runs of whole tiles of keys;
/// rank r has run r. ulysses with H = head_ranks() has groups of H neighbouring ranks that exchange heads: groups() is
/// the plan of the P / H groups as if each were one rank, and the packed rows of a group are cut into H equal runs.
class context_plan {
 public:
  /// `lengths` of the sequences; `constant` as in parallel::sequence_cost; a ring reads `tile` keys at once (0: the
  /// device has no ring, groups() is gather_kv). `head_ranks` of ulysses divides `ranks`; 0: all of them.
  context_plan(parallel::context_kind kind, int ranks, std::span<const extent_t> lengths, double constant,
               extent_t tile, int head_ranks = 0);

  parallel::context_kind kind() const noexcept { return kind_; }
  int ranks() const noexcept { return ranks_; }
  /// ulysses: the ranks of a group. Other kinds: 1.
  int head_ranks() const noexcept { return groups_ ? ranks_ / groups_->ranks_ : 1; }
  /// ulysses alone: the rows of each group; its rank r is the group of ranks r head_ranks() and following.
  const context_plan& groups() const noexcept { return *groups_; }
  std::size_t sequences() const noexcept { return shared_.size(); }
  /// Is the sequence split between several ranks?
  bool shared(std::size_t sequence) const { return shared_[sequence]; }
  /// The pieces of a rank, by sequence and position.
  std::span<const context_piece> pieces(int rank) const { return pieces_[static_cast<std::size_t>(rank)]; }
  /// The pieces of a rank in sequences [begin, end).
  std::span<const context_piece> pieces(int rank, std::size_t begin, std::size_t end) const;
  /// The number of rows of a rank.
  extent_t rows(int rank) const {
    const auto local = pieces(rank);
    return local.empty() ? 0 : local.back().at + local.back().rows;
  }
  /// The piece that holds a position of a sequence.
  const context_piece& at(std::size_t sequence, extent_t position) const;

 private:
  void add(std::size_t rank, std::size_t sequence, extent_t first, extent_t end) {
    if (first < end) pieces_[rank].push_back({sequence, first, end - first, 0, static_cast<int>(rank)});
  }

  void cut_rows_of_groups();

  void cut_sequences(std::span<const extent_t> lengths, double constant, extent_t tile);

  void tell_places();

  parallel::context_kind kind_;
  int ranks_;
  std::vector<std::vector<context_piece>> pieces_;
  std::vector<context_piece> sorted_;
  std::vector<bool> shared_;
  std::shared_ptr<const context_plan> groups_;
};

/// A workspace with a context group runs passes over packed sequences (forward_backward, value_forward_backward,
/// log_probs, values) together with all ranks of the group. Every rank passes the same sequences and targets and gets
/// the same results. Each rank's gradients of weights are its part of the sum over the ranks.
struct context_group {
  parallel::any_communicator* ranks = nullptr;
  parallel::context_kind kind = parallel::context_kind::gather_kv;

  bool shares() const { return ranks != nullptr && ranks->size() > 1; }
};

/// The neighbouring ranks of a ulysses group of `ranks` that exchange heads: as many as divide both the ranks and the
/// key heads. If they are not all of the ranks, each key head lives on ranks / this many ranks, which share the
/// sequences of their heads among each other as a ring (Fang and Zhao 2024, arXiv:2405.07719). So a key head has all of
/// its query heads on every rank that has it, and its gradient is summed in the order of one rank.
inline int ulysses_head_ranks(int ranks, extent_t kv_heads) {
  return static_cast<int>(std::gcd(static_cast<extent_t>(ranks), kv_heads));
}

/// Throws config_error, in all ranks, unless the group can share attention on such a device.
template <class Device>
void check_context(const Device& device, const context_group& group) {
  if (!group.shares()) return;
  if (group.kind == parallel::context_kind::ring && attention_tile(device) == 0)
    throw config_error("rlcore: device " + std::string(device.name()) +
                       " cannot carry the state of attention around a ring; context parallelism by gather_kv or "
                       "ulysses can be had on it");
}

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE context_plan::context_plan(parallel::context_kind kind, int ranks, std::span<const extent_t> lengths,
                                         double constant, extent_t tile, int head_ranks)
    : kind_(kind), ranks_(ranks), pieces_(static_cast<std::size_t>(ranks)), shared_(lengths.size(), false) {
  if (kind == parallel::context_kind::ulysses) {
    using parallel::context_kind;
    groups_ = std::make_shared<const context_plan>(tile > 0 ? context_kind::ring : context_kind::gather_kv,
                                                   head_ranks > 0 ? ranks / head_ranks : 1, lengths, constant, tile);
    cut_rows_of_groups();
  } else {
    cut_sequences(lengths, constant, tile);
  }
  tell_places();
}

RLCORE_INLINE std::span<const context_piece> context_plan::pieces(int rank, std::size_t begin, std::size_t end) const {
  const auto& local = pieces_[static_cast<std::size_t>(rank)];
  const auto from = [&](std::size_t s) {
    return std::lower_bound(local.begin(), local.end(), s,
                            [](const context_piece& p, std::size_t n) { return p.sequence < n; });
  };
  return {from(begin), from(end)};
}

RLCORE_INLINE const context_piece& context_plan::at(std::size_t sequence, extent_t position) const {
  const auto after = std::upper_bound(
      sorted_.begin(), sorted_.end(), std::pair(sequence, position),
      [](const auto& wanted, const context_piece& p) { return wanted < std::pair(p.sequence, p.first); });
  return *(after - 1);
}

RLCORE_INLINE void context_plan::cut_rows_of_groups() {
  const extent_t p = head_ranks();
  for (std::size_t r = 0; r < pieces_.size(); ++r) {
    const auto rank = static_cast<extent_t>(r), n = rank % p;
    const int group = static_cast<int>(rank / p);
    const extent_t total = groups_->rows(group), begin = total * n / p, end = total * (n + 1) / p;
    for (const context_piece& piece : groups_->pieces(group)) {
      const extent_t before = piece.first - piece.at;
      add(r, piece.sequence, std::max(begin + before, piece.first), std::min(end + before, piece.first + piece.rows));
    }
  }
  shared_.assign(shared_.size(), true);
}

RLCORE_INLINE void context_plan::cut_sequences(std::span<const extent_t> lengths, double constant, extent_t tile) {
  const bool ring = kind_ == parallel::context_kind::ring;
  tile = std::max<extent_t>(tile, 1);
  const extent_t p = ranks_, least = ring ? tile + 1 : 2 * p;
  std::vector<double> cost(lengths.size());
  std::vector<std::size_t> longest(lengths.size());
  std::iota(longest.begin(), longest.end(), std::size_t{0});
  std::stable_sort(longest.begin(), longest.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  double whole = 0, cut = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) whole += cost[s] = parallel::sequence_cost(constant, lengths[s]);
  std::vector<std::vector<std::uint32_t>> parts;
  for (std::size_t n = 0;; ++n) {
    parts = parallel::balance(cost, pieces_.size());
    double most = 0;
    for (const auto& part : parts) {
      double sum = 0;
      for (const std::uint32_t s : part) sum += cost[s];
      most = std::max(most, sum);
    }
    const double share = (whole + cut) / static_cast<double>(p);
    if (n == longest.size() || lengths[longest[n]] < least || most + cut / static_cast<double>(p) <= 1.1 * share) break;
    shared_[longest[n]] = true;
    cut += cost[longest[n]], whole -= cost[longest[n]];
    cost[longest[n]] = 0;
  }
  for (std::size_t r = 0; r < pieces_.size(); ++r)
    for (const std::uint32_t s : parts[r])
      if (!shared_[s]) add(r, s, 0, lengths[s]);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (!shared_[s]) continue;
    const extent_t tiles = (lengths[s] + tile - 1) / tile;
    for (extent_t r = 0; r < p; ++r) {
      const auto chunk = [&](extent_t c) { return lengths[s] * c / (2 * p); };
      const auto run = [&](extent_t c) { return std::min(lengths[s], tiles * c / p * tile); };
      const auto rank = static_cast<std::size_t>(r);
      if (ring) {
        add(rank, s, run(r), run(r + 1));
      } else {
        add(rank, s, chunk(r), chunk(r + 1));
        add(rank, s, chunk(2 * p - 1 - r), chunk(2 * p - r));
      }
    }
  }
}

RLCORE_INLINE void context_plan::tell_places() {
  const auto before = [](const context_piece& a, const context_piece& b) {
    return std::pair(a.sequence, a.first) < std::pair(b.sequence, b.first);
  };
  for (auto& local : pieces_) {
    std::sort(local.begin(), local.end(), before);
    extent_t at = 0;
    for (context_piece& p : local) p.at = std::exchange(at, at + p.rows);
    sorted_.insert(sorted_.end(), local.begin(), local.end());
  }
  std::sort(sorted_.begin(), sorted_.end(), before);
}

}  // namespace nn
RLCORE_END
#endif
