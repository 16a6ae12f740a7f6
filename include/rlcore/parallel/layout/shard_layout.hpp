// Shard layout of a flat parameter vector over ranks (ZeRO/FSDP).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Values [first, last) of the flat vector.
struct value_range {
  std::size_t first = 0, last = 0;
  std::size_t size() const noexcept { return last - first; }
};

/// The vector is divided into units, which are gathered one at a time: the embedding, a layer, the head. Each unit is
/// divided into blocks of 1024 values, which start at the begin of the unit and again at every restart. A rank owns
/// consecutive whole blocks of every unit; its shard is their concatenation. A rank may own no block of a unit.
class shard_layout {
 public:
  static constexpr std::size_t block = 1024;

  /// Unit u ends at ends[u], where the next one begins; blocks also begin at the ascending `restarts`.
  shard_layout(std::vector<std::size_t> ends, int ranks, std::span<const std::size_t> restarts = {})
      : ends_(std::move(ends)), ranks_(static_cast<std::size_t>(ranks)) {
    at_.resize((units() + 1) * ranks_);
    auto next = restarts.begin();
    for (std::size_t u = 0; u < units(); ++u) {
      const std::size_t first_run = runs_.size();
      runs_.push_back({unit(u).first, unit(u).last});
      for (; next != restarts.end() && *next < unit(u).last; ++next)
        if (*next > runs_.back().first && (*next - runs_.back().first) % block != 0) {
          runs_.back().last = *next;
          runs_.push_back({*next, unit(u).last});
        }
      run_ends_.push_back(runs_.size());
      std::size_t total = 0;
      for (std::size_t k = first_run; k < runs_.size(); ++k) total += blocks(runs_[k].size());
      std::size_t edge = unit(u).first, run = first_run, before = 0;  // blocks before this run
      for (std::size_t r = 0; r < ranks_; ++r) {
        const std::size_t wanted = (r + 1) * total / ranks_;
        while (run < runs_.size() && before + blocks(runs_[run].size()) <= wanted)
          before += blocks(runs_[run++].size());
        const std::size_t end = run == runs_.size() ? unit(u).last : runs_[run].first + (wanted - before) * block;
        starts_.push_back(edge);
        counts_.push_back(end - edge);
        at_[(u + 1) * ranks_ + r] = at_[u * ranks_ + r] + counts_.back();
        edge = end;
      }
    }
  }

  std::size_t units() const noexcept { return ends_.size(); }
  std::size_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t ranks() const noexcept { return ranks_; }
  /// The values of unit u.
  value_range unit(std::size_t u) const { return {u == 0 ? 0 : ends_[u - 1], ends_[u]}; }
  /// The number of values of a unit per rank.
  std::span<const std::size_t> counts(std::size_t u) const { return std::span(counts_).subspan(u * ranks_, ranks_); }
  /// Rank r's part of a unit in the vector; place() is its offset in the rank's shard.
  value_range part(std::size_t u, std::size_t r) const {
    const std::size_t i = u * ranks_ + r;
    return {starts_[i], starts_[i] + counts_[i]};
  }
  /// The offset of rank r's part of unit u in its shard.
  std::size_t place(std::size_t u, std::size_t r) const { return at_[u * ranks_ + r]; }
  /// The number of values that rank r owns.
  std::size_t shard_size(std::size_t r) const { return at_[units() * ranks_ + r]; }
  /// The number of blocks in a range that begins with a block.
  static std::size_t blocks(std::size_t values) noexcept { return (values + block - 1) / block; }
  /// Calls f(range) for each contiguous run of blocks of rank r's part of a unit.
  template <class F>
  void for_runs(std::size_t u, std::size_t r, F&& f) const {
    const value_range local = part(u, r);
    for (std::size_t k = u == 0 ? 0 : run_ends_[u - 1]; k < run_ends_[u]; ++k) {
      const value_range both{std::max(local.first, runs_[k].first), std::min(local.last, runs_[k].last)};
      if (both.first < both.last) f(both);
    }
  }
  /// The number of blocks in rank r's part of a unit.
  std::size_t blocks_of(std::size_t u, std::size_t r) const {
    std::size_t n = 0;
    for_runs(u, r, [&](const value_range& run) { n += blocks(run.size()); });
    return n;
  }

 private:
  std::vector<std::size_t> ends_;
  std::size_t ranks_;
  std::vector<std::size_t> counts_, starts_, at_;
  std::vector<value_range> runs_;      // of blocks without a gap, unit after unit
  std::vector<std::size_t> run_ends_;  // of each unit
};

}  // namespace parallel
RLCORE_END
