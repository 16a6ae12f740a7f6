// Token sampling from logits on the CPU: temperature, top-k, top-p, min-p.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/device/cpu/arguments.hpp"
#include "rlcore/exec/threads.hpp"

RLCORE_BEGIN

/// cpu::sample. The result for a row does not depend on other rows or on threads; for one that is not finite it is some
/// token of the vocabulary. The object keeps its scratch memory.
class cpu_sampler {
 public:
  /// Draws one token per row, see op::sample.
  void operator()(const cpu_kernels::table& kernels, const threads& pool, const sampling_arguments& arguments,
                  const float* logits, extent_t rows, extent_t vocabulary, const double* uniform,
                  std::int32_t* tokens) {
    if (rows <= 0) return;
    constexpr extent_t block = cpu_kernels::log_prob_block;
    const extent_t blocks = (vocabulary + block - 1) / block, row_blocks = rows * blocks;
    const bool greedy = arguments.temperature == 0, whole = (arguments.top_k <= 0 || arguments.top_k >= vocabulary) &&
                                                            arguments.top_p >= 1 && arguments.min_p <= 0;
    const auto factor =  // of powers of 2
        static_cast<float>(greedy ? 1 : 1.4426950408889634 / static_cast<double>(arguments.temperature));
    if (top_.size() < static_cast<std::size_t>(row_blocks))
      top_.resize(static_cast<std::size_t>(row_blocks)), mass_ = top_;
    const bool threaded = rows * vocabulary > 32768;
    const auto split = [&](extent_t n, auto&& f) {  // f(begin, end, number of the range)
      const extent_t parts = threaded ? std::min(n, static_cast<extent_t>(pool.concurrency())) : 1;
      pool.for_each(static_cast<std::size_t>(parts), [&](std::size_t c) {
        const auto part = static_cast<extent_t>(c);
        f(n * part / parts, n * (part + 1) / parts, c);
      });
    };
    split(row_blocks, [&](extent_t begin, extent_t end, std::size_t) {
      while (begin < end) {
        const extent_t row = begin / blocks, first = begin % blocks, last = std::min(blocks, first + end - begin);
        kernels.sample_blocks(logits + row * vocabulary, vocabulary, factor, first, last, top_.data() + row * blocks,
                              greedy ? nullptr : mass_.data() + row * blocks);
        begin += last - first;
      }
    });
    if (!whole && scratch_.empty()) scratch_.resize(pool.concurrency());
    split(rows, [&](extent_t begin, extent_t end, std::size_t part) {
      for (extent_t r = begin; r < end; ++r) {
        const row_of_logits row{kernels, logits + r * vocabulary,  vocabulary,
                                factor,  top_.data() + r * blocks, mass_.data() + r * blocks,
                                blocks};
        tokens[r] = greedy ? row.argmax()
                           : (whole ? row.draw(uniform[r]) : row.draw_top(arguments, uniform[r], scratch_[part]));
      }
    });
  }

 private:
  struct scratch {
    std::vector<float> weight, below;  // of candidates, in order of their ids
    std::vector<std::int32_t> id, edge, drawn;
    std::size_t count = 0;
  };

  struct row_of_logits {
    const cpu_kernels::table& kernels;
    const float* logits;
    extent_t vocabulary;
    float factor;
    const float *top, *mass;
    extent_t blocks;

    extent_t block_of_largest() const { return std::max_element(top, top + blocks) - top; }

    std::int32_t argmax() const {
      const extent_t b = block_of_largest(), begin = b * cpu_kernels::log_prob_block,
                     end = std::min(vocabulary, begin + cpu_kernels::log_prob_block);
      return static_cast<std::int32_t>(std::max_element(logits + begin, logits + end) - logits);
    }

    /// Inverse CDF over the whole vocabulary in order of ids: over the blocks' masses, then inside one block.
    std::int32_t draw(double u) const {
      const float largest = top[block_of_largest()];
      const auto share = [&](extent_t b) { return elementary::exp2(static_cast<double>(top[b] - largest)); };
      const double goal = u * total_mass();
      double before = 0;
      extent_t chosen = block_of_largest();
      for (extent_t b = 0; b < blocks; ++b) {
        const double here = static_cast<double>(mass[b]) * share(b);
        if (here > 0) chosen = b;
        if (before + here > goal || b + 1 == blocks) break;
        before += here;
      }
      float weight[cpu_kernels::log_prob_block];
      const extent_t first = chosen * cpu_kernels::log_prob_block;
      const extent_t n = std::min(cpu_kernels::log_prob_block, vocabulary - first);
      kernels.sample_weights(logits + first, n, factor, top[chosen], weight, nullptr);
      const double rest = (goal - before) / share(chosen);
      double reached = 0;
      extent_t last = 0;
      for (extent_t j = 0; j < n; ++j) {
        if (!(weight[j] > 0)) continue;
        last = j;
        reached += static_cast<double>(weight[j]);
        if (reached > rest) break;
      }
      return static_cast<std::int32_t>(first + last);
    }

    double total_mass() const {
      const float largest = top[block_of_largest()];
      double total = 0;
      for (extent_t b = 0; b < blocks; ++b)
        total += static_cast<double>(mass[b]) * elementary::exp2(static_cast<double>(top[b] - largest));
      return total;
    }

    // Tokens in order of decreasing probability without sorting the vocabulary. Candidates are the tokens close enough
    // to the most likely one. They fall into 1024 buckets of a factor of 2^(1/16). Only the buckets that hold the
    // limits and the drawn number are sorted.
    static constexpr int buckets = 1024;
    static int bucket_of(float below) {  // 0 for less than 0 too, which a row with NaN can have
      const float b = below * 16;
      return b >= static_cast<float>(buckets - 1) ? buckets - 1 : b > 0 ? static_cast<int>(b) : 0;
    }

    /// The distance to the largest logit beyond which no token is kept. At least k tokens are as large as the k-th
    /// largest of the blocks' maxima. Tokens beyond log2(V / ((1 - p) total)) sum to less than 1 - p of the total.
    float reach(extent_t top_k, double top_p, double total, scratch& s) const {
      if (top_k > 0 && top_k <= blocks) {
        s.below.assign(top, top + blocks);
        for (float& x : s.below)
          if (std::isnan(x)) x = -std::numeric_limits<float>::infinity();  // has no order
        std::nth_element(s.below.begin(), s.below.begin() + (top_k - 1), s.below.end(),
                         [](float a, float b) { return a > b; });
        return top[block_of_largest()] - s.below[static_cast<std::size_t>(top_k - 1)] + 0.01f;  // roundings
      }
      if (top_k > 0 || top_p >= 1) return std::numeric_limits<float>::infinity();
      return static_cast<float>(elementary::log2(static_cast<double>(vocabulary) / ((1 - top_p) * total))) + 1;
    }
    void find_candidates(float farthest, scratch& s) const {
      constexpr extent_t block = cpu_kernels::log_prob_block;
      const auto n = static_cast<std::size_t>(blocks * block);
      s.weight.resize(n), s.below.resize(n), s.id.resize(n);
      const float largest = top[block_of_largest()];
      float weight[block], below[block];
      s.count = 0;
      for (extent_t b = 0; b < blocks; ++b) {
        if (!(largest - top[b] <= farthest)) continue;
        const extent_t here = std::min(block, vocabulary - b * block);
        kernels.sample_weights(logits + b * block, here, factor, largest, weight, below);
        for (extent_t j = 0; j < here; ++j) {
          s.weight[s.count] = weight[j];
          s.below[s.count] = below[j];
          s.id[s.count] = static_cast<std::int32_t>(b * block + j);
          s.count += below[j] <= farthest;
        }
      }
    }
    /// Drops the candidates that are more than `distance` below the most likely one.
    static void drop_unlikely(float distance, scratch& s) {
      if (s.count == 0) return;  // not a number
      const float nearest = *std::min_element(s.below.begin(), s.below.begin() + static_cast<std::ptrdiff_t>(s.count));
      const std::size_t all = std::exchange(s.count, 0);
      for (std::size_t i = 0; i < all; ++i) {
        s.weight[s.count] = s.weight[i], s.below[s.count] = s.below[i], s.id[s.count] = s.id[i];
        s.count += s.below[i] - nearest <= distance;
      }
    }
    /// Finds the candidates. Returns the total mass that top_p refers to, 0 if top_k limits it.
    double find_limited(extent_t top_k, double top_p, float min_p, scratch& s) const {
      double total = 0;
      if (min_p <= 0) {
        if (top_k == 0) total = total_mass();
        find_candidates(reach(top_k, top_p, total, s), s);
        return total;
      }
      const auto distance = static_cast<float>(-elementary::log2(static_cast<double>(min_p)));
      find_candidates(std::min(reach(top_k, 1, 0, s), distance + 0.01f), s);  // roundings
      drop_unlikely(distance, s);
      for (std::size_t i = 0; top_k == 0 && i < s.count; ++i) total += static_cast<double>(s.weight[i]);
      return total;
    }
    /// which = the first `wanted` candidates of a bucket, most likely first, ties by id.
    void sort_bucket(int bucket, std::size_t wanted, const scratch& s, std::vector<std::int32_t>& which) const {
      which.clear();
      for (std::size_t i = 0; i < s.count; ++i)
        if (bucket_of(s.below[i]) == bucket) which.push_back(static_cast<std::int32_t>(i));
      wanted = std::min(wanted, which.size());
      const auto logit = [&](std::int32_t i) { return logits[s.id[static_cast<std::size_t>(i)]]; };
      const auto likelier = [&](std::int32_t a, std::int32_t b) {
        return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
      };
      const auto middle = which.begin() + static_cast<std::ptrdiff_t>(wanted);
      if (middle != which.end()) std::nth_element(which.begin(), middle, which.end(), likelier);
      std::sort(which.begin(), middle, likelier);
      which.resize(wanted);
    }

    /// The kept candidates are those of the buckets [0, edge_bucket), and s.edge of edge_bucket.
    std::int32_t draw_top(const sampling_arguments& arguments, double u, scratch& s) const {
      const extent_t top_k = arguments.top_k;
      const auto top_p = static_cast<double>(arguments.top_p);
      const bool no_top_k = top_k <= 0 || top_k >= vocabulary;
      double total = find_limited(no_top_k ? 0 : top_k, top_p, arguments.min_p, s);
      std::array<double, buckets> mass_of{};
      std::array<extent_t, buckets> count{};
      for (std::size_t i = 0; i < s.count; ++i) {
        const auto b = static_cast<std::size_t>(bucket_of(s.below[i]));
        ++count[b];
        mass_of[b] += static_cast<double>(s.weight[i]);
      }
      const auto weight_of = [&](std::int32_t i) { return static_cast<double>(s.weight[static_cast<std::size_t>(i)]); };
      const auto mass_in = [&](int b) { return mass_of[static_cast<std::size_t>(b)]; };
      int edge_bucket = buckets;
      s.edge.clear();
      if (!no_top_k) {
        extent_t room = top_k;
        for (edge_bucket = 0; edge_bucket < buckets && count[static_cast<std::size_t>(edge_bucket)] <= room;
             ++edge_bucket) {
          room -= count[static_cast<std::size_t>(edge_bucket)];
          total += mass_in(edge_bucket);
        }
        if (edge_bucket < buckets && room > 0) sort_bucket(edge_bucket, static_cast<std::size_t>(room), s, s.edge);
        for (const std::int32_t i : s.edge) total += weight_of(i);
      }
      if (top_p < 1) {
        const double enough = total * top_p;
        double reached = 0;
        int b = 0;
        for (; b < edge_bucket && reached + mass_in(b) < enough; ++b) reached += mass_in(b);
        if (b < edge_bucket) sort_bucket(edge_bucket = b, s.count, s, s.edge);
        std::size_t kept = 0;
        while (kept < s.edge.size() && reached < enough) reached += weight_of(s.edge[kept++]);
        s.edge.resize(kept);
        total = reached;
      }
      const double goal = u * total;
      double reached = 0;
      int b = 0, last = 0;
      for (; b < edge_bucket && reached + mass_in(b) <= goal; ++b) {
        if (mass_in(b) > 0) last = b;
        reached += mass_in(b);
      }
      const bool at_edge = b == edge_bucket && !s.edge.empty();
      if (!at_edge) sort_bucket(b < edge_bucket ? b : last, s.count, s, s.drawn);
      const std::vector<std::int32_t>& which = at_edge ? s.edge : s.drawn;
      std::int32_t chosen = which.empty() ? argmax() : s.id[static_cast<std::size_t>(which.front())];
      for (const std::int32_t i : which) {
        if (!(weight_of(i) > 0)) break;
        chosen = s.id[static_cast<std::size_t>(i)];
        reached += weight_of(i);
        if (reached > goal) break;
      }
      return chosen;
    }
  };

  std::vector<float> top_, mass_;
  std::vector<scratch> scratch_;
};

RLCORE_END
