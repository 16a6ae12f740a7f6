// Tokens drawn from rows of logits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/device/cpu/arguments.hpp"
#include "rlcore/exec/threads.hpp"

RLCORE_BEGIN

/// cpu::sample. Every row is one fixed computation: neither the other rows nor the threads show. Keeps its scratch.
class cpu_sampler {
 public:
  /// See device::sample.
  void operator()(const cpu_kernels::table& kernels, const threads& pool, const sampling_arguments& how,
                  const float* logits, extent_t rows, extent_t vocabulary, const double* uniform,
                  std::int32_t* tokens) {
    if (rows <= 0) return;
    constexpr extent_t block = cpu_kernels::log_prob_block;
    const extent_t blocks = (vocabulary + block - 1) / block, all = rows * blocks;
    const bool greedy = how.temperature == 0, whole = (how.top_k <= 0 || how.top_k >= vocabulary) && how.top_p >= 1;
    const float inverse_temperature = greedy ? 1 : 1 / how.temperature;
    if (top_.size() < static_cast<std::size_t>(all)) top_.resize(static_cast<std::size_t>(all)), mass_ = top_;
    const bool threaded = rows * vocabulary > 32768;
    const auto split = [&](extent_t n, auto&& f) {  // f(begin, end, number of the range)
      const extent_t parts = threaded ? std::min(n, static_cast<extent_t>(pool.concurrency())) : 1;
      pool.for_each(static_cast<std::size_t>(parts), [&](std::size_t c) {
        const auto part = static_cast<extent_t>(c);
        f(n * part / parts, n * (part + 1) / parts, c);
      });
    };
    split(all, [&](extent_t begin, extent_t end, std::size_t) {
      while (begin < end) {
        const extent_t row = begin / blocks, first = begin % blocks, last = std::min(blocks, first + end - begin);
        kernels.sample_blocks(logits + row * vocabulary, vocabulary, inverse_temperature, first, last,
                              top_.data() + row * blocks, greedy || !whole ? nullptr : mass_.data() + row * blocks);
        begin += last - first;
      }
    });
    if (!whole && scratch_.empty()) scratch_.resize(pool.concurrency());
    split(rows, [&](extent_t begin, extent_t end, std::size_t part) {
      for (extent_t r = begin; r < end; ++r) {
        const row_of_logits row{kernels,
                                logits + r * vocabulary,
                                vocabulary,
                                inverse_temperature,
                                top_.data() + r * blocks,
                                mass_.data() + r * blocks,
                                blocks};
        tokens[r] = greedy
                        ? row.argmax()
                        : (whole ? row.draw(uniform[r])
                                 : row.draw_top(how.top_k, static_cast<double>(how.top_p), uniform[r], scratch_[part]));
      }
    });
  }

 private:
  struct scratch {
    std::vector<float> weight, below;
    std::vector<std::int32_t> edge, drawn;
  };

  struct row_of_logits {
    const cpu_kernels::table& kernels;
    const float* logits;
    extent_t vocabulary;
    float inverse_temperature;
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
      const auto share = [&](extent_t b) { return std::exp(static_cast<double>(top[b] - largest)); };
      double total = 0;
      for (extent_t b = 0; b < blocks; ++b) total += static_cast<double>(mass[b]) * share(b);
      const double goal = u * total;
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
      kernels.sample_weights(logits + first, n, inverse_temperature, top[chosen], weight, nullptr);
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

    // Tokens by falling probability without a sort of the vocabulary: logits fall into 1024 buckets of a sixteenth
    // below the largest, and only the buckets in which the limits and the drawn number lie are sorted.
    static constexpr int buckets = 1024;
    static int bucket_of(float below) {
      const float b = below * 16;
      return b < static_cast<float>(buckets - 1) ? static_cast<int>(b) : buckets - 1;
    }
    /// The tokens of a bucket, most likely first, equals by id; only the first `wanted` are in order.
    void sort_bucket(int bucket, std::size_t wanted, const scratch& s, std::vector<std::int32_t>& ids) const {
      ids.clear();
      for (extent_t j = 0; j < vocabulary; ++j)
        if (bucket_of(s.below[static_cast<std::size_t>(j)]) == bucket) ids.push_back(static_cast<std::int32_t>(j));
      wanted = std::min(wanted, ids.size());
      std::partial_sort(
          ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(wanted), ids.end(),
          [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
      ids.resize(wanted);
    }

    /// Kept are the whole buckets [0, edge_bucket) and, of that one, the tokens s.edge.
    std::int32_t draw_top(extent_t top_k, double top_p, double u, scratch& s) const {
      const auto n = static_cast<std::size_t>(vocabulary);
      s.weight.resize(n), s.below.resize(n);
      kernels.sample_weights(logits, vocabulary, inverse_temperature, top[block_of_largest()], s.weight.data(),
                             s.below.data());
      std::array<double, buckets> mass_of{};
      std::array<extent_t, buckets> count{};
      for (std::size_t j = 0; j < n; ++j) {
        const auto b = static_cast<std::size_t>(bucket_of(s.below[j]));
        ++count[b];
        mass_of[b] += static_cast<double>(s.weight[j]);
      }
      const auto weight_of = [&](std::int32_t id) {
        return static_cast<double>(s.weight[static_cast<std::size_t>(id)]);
      };
      int edge_bucket = 0;
      double total = 0;
      extent_t room = top_k > 0 ? std::min(top_k, vocabulary) : vocabulary;
      for (; edge_bucket < buckets && count[static_cast<std::size_t>(edge_bucket)] <= room; ++edge_bucket) {
        room -= count[static_cast<std::size_t>(edge_bucket)];
        total += mass_of[static_cast<std::size_t>(edge_bucket)];
      }
      s.edge.clear();
      if (edge_bucket < buckets && room > 0) sort_bucket(edge_bucket, static_cast<std::size_t>(room), s, s.edge);
      for (const std::int32_t id : s.edge) total += weight_of(id);
      if (top_p < 1) {
        const double enough = total * top_p;
        double reached = 0;
        int b = 0;
        for (; b < edge_bucket && reached + mass_of[static_cast<std::size_t>(b)] < enough; ++b)
          reached += mass_of[static_cast<std::size_t>(b)];
        if (b < edge_bucket) sort_bucket(edge_bucket = b, n, s, s.edge);
        std::size_t kept = 0;
        while (kept < s.edge.size() && reached < enough) reached += weight_of(s.edge[kept++]);
        s.edge.resize(kept);
        total = reached;
      }
      const double goal = u * total;
      double reached = 0;
      int b = 0, last = -1;
      for (; b < edge_bucket && reached + mass_of[static_cast<std::size_t>(b)] <= goal; ++b) {
        if (mass_of[static_cast<std::size_t>(b)] > 0) last = b;
        reached += mass_of[static_cast<std::size_t>(b)];
      }
      const bool at_edge = b == edge_bucket && !s.edge.empty();
      if (!at_edge) sort_bucket(b < edge_bucket ? b : std::max(last, 0), n, s, s.drawn);
      const std::vector<std::int32_t>& ids = at_edge ? s.edge : s.drawn;
      std::int32_t chosen = ids.empty() ? 0 : ids.front();
      for (const std::int32_t id : ids) {
        if (!(weight_of(id) > 0)) break;
        chosen = id;
        reached += weight_of(id);
        if (reached > goal) break;
      }
      return chosen;
    }
  };

  std::vector<float> top_, mass_;
  std::vector<scratch> scratch_;
};

RLCORE_END
