// What must not be visible in a single bit, for any objective: splits, threads, masked slots. And what the loop makes
// of a piece against the piece's own body, token by token, in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

namespace rlcore_test {

using namespace rlcore;

/// Any aggregation behind one type, so that an objective is compiled once for all of them.
struct any_weight {
  static constexpr bool averages_tokens = true;
  double (*function)(row_info, const global_counts&);
  double weight(row_info row, const global_counts& step) const noexcept { return function(row, step); }
};

struct named_weight {
  const char* name;
  bool averages_tokens;
  any_weight weight;
};

inline const std::vector<named_weight>& all_weights() {
  static const std::vector<named_weight> weights{
      {"sequence_mean_token_mean", true, {[](row_info r, const global_counts& s) {
         return sequence_mean_token_mean{}.weight(r, s);
       }}},
      {"row_mean_token_mean", true, {[](row_info r, const global_counts& s) {
         return row_mean_token_mean{}.weight(r, s);
       }}},
      {"token_mean", false, {[](row_info r, const global_counts& s) { return token_mean{}.weight(r, s); }}},
      {"token_sum", false, {[](row_info r, const global_counts& s) { return token_sum{}.weight(r, s); }}},
      {"sequence_mean_token_sum", false, {[](row_info r, const global_counts& s) {
         return sequence_mean_token_sum{}.weight(r, s);
       }}},
      {"fixed_length", false, {[](row_info r, const global_counts& s) { return fixed_length{512}.weight(r, s); }}}};
  return weights;
}

/// A padded batch of every field: rows of many lengths, one of them empty, holes in their masks, and NaN wherever the
/// mask is 0.
struct poisoned_batch {
  static constexpr extent_t rows = 120, width = 301;
  std::vector<float> data[field_count];
  std::vector<float> row_advantage;
  std::vector<std::uint8_t> mask;

  explicit poisoned_batch(double ratio_spread = 0.3) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    const auto n = static_cast<std::size_t>(rows * width);
    mask.assign(n, 0);
    for (auto& x : data) x.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      const extent_t i = static_cast<extent_t>(k) / width, t = static_cast<extent_t>(k) % width;
      const extent_t length = i == 5 ? 0 : i == 0 ? width : (i * 97) % width + 1;
      mask[k] = t < length && !(i % 3 == 1 && t % 7 == 3);
      const float logp = -std::abs(normal(random)) - 0.01f, spread = static_cast<float>(ratio_spread);
      const float of_token[field_count] = {logp,
                                           logp + spread * normal(random),
                                           logp + 0.5f * normal(random),
                                           logp + spread * normal(random),
                                           normal(random),
                                           std::abs(normal(random)),
                                           std::abs(normal(random)),
                                           normal(random),
                                           normal(random),
                                           normal(random),
                                           normal(random) > 0 ? 1.0f : 0.0f,
                                           0};
      for (std::size_t f = 0; f < field_count; ++f)
        data[f][k] = mask[k] ? of_token[f] : std::numeric_limits<float>::quiet_NaN();
    }
    for (extent_t i = 0; i < rows; ++i) row_advantage.push_back(normal(random));
  }

  template <class T>
  matrix_view<T> cut(std::vector<T>& x, extent_t first, extent_t last) const {
    return {x.data() + first * width, {last - first, width}};
  }
  token_batch<float> part(extent_t first, extent_t last) {
    token_batch<float> b;
    token_field<const float>* const fields[] = {&b.logp,      &b.old_logp, &b.ref_logp, &b.rollout_logp,
                                                nullptr,      &b.weight,   &b.entropy,  &b.value,
                                                &b.old_value, &b.target,   &b.selected};
    for (std::size_t f = 0; f + 1 < field_count; ++f)
      if (fields[f]) *fields[f] = token_field<const float>(cut(data[f], first, last));
    b.advantage = std::span<const float>(row_advantage)
                      .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    b.mask = cut(mask, first, last);
    return b;
  }
  global_counts counts() const {
    global_counts c;
    for (extent_t i = 0; i < rows; ++i) c.add_row(live(i));
    return c;
  }
  std::int64_t live(extent_t i) const {
    std::int64_t n = 0;
    for (extent_t t = 0; t < width; ++t) n += mask[static_cast<std::size_t>(i * width + t)];
    return n;
  }
  token<double> at(extent_t i, extent_t t) const {
    token<double> x{};
    for (std::size_t f = 0; f < field_count; ++f)
      x.*field_member<double>[f] = static_cast<double>(data[f][static_cast<std::size_t>(i * width + t)]);
    x.advantage = static_cast<double>(row_advantage[static_cast<std::size_t>(i)]);
    return x;
  }
};

template <class Piece>
double gather_row(const Piece& piece, const poisoned_batch& b, extent_t i) {
  using Gather = gathers_of<Piece>;
  if constexpr (std::is_same_v<Gather, no_gather>) {
    return 0;
  } else {
    const auto score = score_of(piece);
    double sum = 0;
    for (extent_t t = 0; t < b.width; ++t)
      if (b.mask[static_cast<std::size_t>(i * b.width + t)])
        sum += score.template operator()<exact_math, double>(b.at(i, t)).value;
    return Gather::averages ? sum / static_cast<double>(b.live(i)) : sum;
  }
}

struct gradient_set {
  std::vector<float> logp, entropy, value;
  gradient_set() : logp(poisoned_batch::rows * poisoned_batch::width, -7.0f), entropy(logp), value(logp) {}
  bool same_bits(const gradient_set& o) const {
    const std::size_t bytes = logp.size() * sizeof(float);
    return std::memcmp(logp.data(), o.logp.data(), bytes) == 0 &&
           std::memcmp(entropy.data(), o.entropy.data(), bytes) == 0 &&
           std::memcmp(value.data(), o.value.data(), bytes) == 0;
  }
};

/// The whole check for one piece under every aggregation that takes it.
template <class Piece>
void check_invariance(const Piece& piece, double tolerance = 1e-5, double ratio_spread = 0.3) {
  poisoned_batch b(ratio_spread);
  const global_counts step = b.counts();
  for (const named_weight& w : all_weights()) {
    if (is_per_sequence<Piece> && !w.averages_tokens) continue;
    SCOPED_TRACE(std::string(Piece::name) + " under " + w.name);
    const auto run = [&](const std::vector<extent_t>& cuts, const auto& exec, gradient_set& g) {
      report_of<Piece> report;
      for (std::size_t k = cuts.size() - 1; k > 0; --k) {
        const extent_t first = cuts[k - 1], last = cuts[k];
        report += evaluate(exec, piece, w.weight, b.part(first, last), step,
                           {.logp = b.cut(g.logp, first, last),
                            .entropy = b.cut(g.entropy, first, last),
                            .value = b.cut(g.value, first, last)});
      }
      return report;
    };
    gradient_set whole, parts, threaded;
    const auto one = run({0, b.rows}, serial{}, whole), many = run({0, 1, 2, 50, 51, 111, b.rows}, serial{}, parts),
               shared = run({0, 7, b.rows}, threads(2), threaded);
    EXPECT_EQ(one.loss(), many.loss());
    EXPECT_EQ(one.loss(), shared.loss());
    for (const std::string_view name : monitors_of<Piece>()) EXPECT_EQ(one[name], many[name]);
    EXPECT_TRUE(whole.same_bits(parts));
    EXPECT_TRUE(whole.same_bits(threaded));

    double loss = 0, size = 0;
    const std::vector<float>& slopes = wrt_of<Piece>() == field::value     ? whole.value
                                       : wrt_of<Piece>() == field::entropy ? whole.entropy
                                                                           : whole.logp;
    int wrong = 0;
    for (extent_t i = 0; i < b.rows; ++i) {
      const std::int64_t live = b.live(i);
      const double gathered = live > 0 ? gather_row(piece, b, i) : 0.0;
      const double weight = live > 0 ? w.weight.weight(row_info{live, i}, step) : 0.0;
      for (extent_t t = 0; t < b.width; ++t) {
        const std::size_t k = static_cast<std::size_t>(i * b.width + t);
        if (!b.mask[k]) {
          wrong += slopes[k] != 0;
          continue;
        }
        token<double> x = b.at(i, t);
        x.gathered = gathered;
        const auto exact = piece.template operator()<exact_math, double>(x);
        loss += weight * exact.value, size += std::abs(weight * exact.value);
        const double slope = weight * exact.slope;
        // A slope of 0 beside one that is not: the token sits on the kink to within float's rounding.
        if (std::abs(static_cast<double>(slopes[k]) - slope) > tolerance * (std::abs(slope) + weight)) ++wrong;
      }
    }
    EXPECT_LE(wrong, 1) << "tokens whose gradient is not weight times slope";
    EXPECT_NEAR(one.loss(), loss, tolerance * (size + 1e-6));
  }
}

}  // namespace rlcore_test
