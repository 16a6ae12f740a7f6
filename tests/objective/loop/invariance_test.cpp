// What must not be visible in a single bit: splits, threads, layouts, the content of masked slots.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

const auto objective = sum{dual_clip{}, scaled{0.04, k3{}}, entropy_bonus(0.01)};
using result = report_of<std::remove_const_t<decltype(objective)>>;

/// Packed rows of uneven lengths, one of them empty, long enough for several chunks of work.
struct rows {
  std::vector<std::int32_t> offsets{0};
  std::vector<float> logp, old_logp, ref_logp, entropy, advantage;

  explicit rows(int count = 60) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> length(0, 1500);
    for (int i = 0; i < count; ++i) {
      const int n = i == 7 ? 0 : length(random);
      for (int t = 0; t < n; ++t) {
        logp.push_back(-std::abs(normal(random)));
        old_logp.push_back(logp.back() + 0.3f * normal(random));
        ref_logp.push_back(logp.back() + 0.3f * normal(random));
        entropy.push_back(std::abs(normal(random)));
      }
      advantage.push_back(normal(random));
      offsets.push_back(static_cast<std::int32_t>(logp.size()));
    }
  }
  token_batch<float> part(std::size_t first, std::size_t last, std::vector<std::int32_t>& local) const {
    const auto begin = static_cast<std::size_t>(offsets[first]), size = static_cast<std::size_t>(offsets[last]) - begin;
    local.clear();
    for (std::size_t i = first; i <= last; ++i) local.push_back(offsets[i] - offsets[first]);
    const auto cut = [&](const std::vector<float>& x) { return std::span<const float>(x).subspan(begin, size); };
    return {.logp = cut(logp),
            .old_logp = cut(old_logp),
            .ref_logp = cut(ref_logp),
            .advantage = per_row(std::span<const float>(advantage).subspan(first, last - first)),
            .entropy = cut(entropy),
            .offsets = local};
  }
};

struct outcome {
  result report;
  std::vector<float> logp, entropy;
};

template <class Executor>
outcome evaluate_in_parts(const rows& r, const std::vector<std::size_t>& cuts, const Executor& exec,
                          bool backwards = false) {
  global_counts counts;
  for (std::size_t i = 0; i + 1 < r.offsets.size(); ++i) counts.add_row(r.offsets[i + 1] - r.offsets[i]);
  outcome out;
  out.logp.assign(r.logp.size(), -7.0f), out.entropy = out.logp;
  std::vector<std::int32_t> local;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    const std::size_t at = backwards ? cuts.size() - 2 - k : k;
    const auto batch = r.part(cuts[at], cuts[at + 1], local);
    const auto begin = static_cast<std::size_t>(r.offsets[cuts[at]]),
               size = static_cast<std::size_t>(r.offsets[cuts[at + 1]]) - begin;
    out.report += evaluate(
        exec, objective, sequence_mean_token_mean{}, batch, counts,
        {.logp = std::span(out.logp).subspan(begin, size), .entropy = std::span(out.entropy).subspan(begin, size)});
  }
  return out;
}

void expect_same_bits(const result& a, const result& b) {
  const auto same = [](double x, double y) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(x), std::bit_cast<std::uint64_t>(y));
  };
  same(a.loss(), b.loss());
  for (std::size_t i = 0; i < a.piece.size(); ++i)
    same(a.piece[i].aggregated.value(), b.piece[i].aggregated.value()),
        same(a.piece[i].total.value(), b.piece[i].total.value());
  for (std::size_t i = 0; i < a.monitor.size(); ++i) same(a.monitor[i].total.value(), b.monitor[i].total.value());
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.sequences, b.sequences);
  EXPECT_EQ(a.rows, b.rows);
}
void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}
void expect_same_bits(const outcome& a, const outcome& b) {
  expect_same_bits(a.report, b.report);
  expect_same_bits(a.logp, b.logp);
  expect_same_bits(a.entropy, b.entropy);
}

std::vector<std::size_t> cuts_of(std::size_t rows, std::size_t each) {
  std::vector<std::size_t> cuts{0};
  while (cuts.back() < rows) cuts.push_back(std::min(cuts.back() + each, rows));
  return cuts;
}

TEST(split_invariance, any_micro_batches_in_any_order) {
  const rows r;
  const outcome whole = evaluate_in_parts(r, {0, 60}, serial{});
  for (const std::size_t each : {1u, 2u, 7u, 59u})
    expect_same_bits(evaluate_in_parts(r, cuts_of(60, each), serial{}), whole);
  expect_same_bits(evaluate_in_parts(r, cuts_of(60, 3), serial{}, true), whole);
  std::mt19937 random(1);
  for (int k = 0; k < 10; ++k) {
    std::vector<std::size_t> cuts{0};
    while (cuts.back() < 60) cuts.push_back(std::min<std::size_t>(60, cuts.back() + 1 + random() % 20));
    expect_same_bits(evaluate_in_parts(r, cuts, serial{}), whole);
  }
}

TEST(thread_invariance, any_number_of_threads) {
  const rows r;
  const outcome whole = evaluate_in_parts(r, {0, 60}, serial{});
  for (const int n : {1, 2, 3, 5}) {
    const threads pool(n);
    for (int repeat = 0; repeat < 5; ++repeat) expect_same_bits(evaluate_in_parts(r, {0, 60}, pool), whole);
    expect_same_bits(evaluate_in_parts(r, cuts_of(60, 17), pool), whole);
  }
}

/// The same rows in a rectangle: [rows, tokens], padded with `padding`.
struct rectangle {
  extent_t count, width;
  std::vector<float> logp, old_logp, ref_logp, entropy, gradient, entropy_gradient;

  rectangle(const rows& r, extent_t width_, float padding) : count(std::ssize(r.advantage)), width(width_) {
    const auto fill = [&](std::vector<float>& to, const std::vector<float>& from) {
      to.assign(static_cast<std::size_t>(count * width), padding);
      for (std::size_t i = 0; i < r.advantage.size(); ++i)
        std::copy(from.begin() + r.offsets[i], from.begin() + r.offsets[i + 1],
                  to.begin() + static_cast<extent_t>(i) * width);
    };
    fill(logp, r.logp), fill(old_logp, r.old_logp), fill(ref_logp, r.ref_logp), fill(entropy, r.entropy);
    gradient.assign(logp.size(), -7.0f), entropy_gradient = gradient;
  }
  /// Row-major, or every other element of column-major storage when `transposed`.
  matrix_view<float> at(std::vector<float>& x, std::vector<float>& storage, bool transposed) {
    if (!transposed) return {x.data(), {count, width}};
    storage.assign(x.size() * 2, std::nanf(""));
    for (extent_t i = 0; i < count; ++i)
      for (extent_t t = 0; t < width; ++t)
        storage[static_cast<std::size_t>(2 * (t * count + i))] = x[static_cast<std::size_t>(i * width + t)];
    return {storage.data(), {count, width}, {2, 2 * count}};
  }
};

template <class Mask>
void check_rectangle(const rows& r, const outcome& packed, extent_t width, float padding, bool transposed,
                     bool by_length) {
  rectangle x(r, width, padding);
  std::vector<float> storage[6];
  const auto mask = std::make_unique<Mask[]>(x.logp.size());
  std::vector<std::int64_t> lengths;
  global_counts counts;
  for (std::size_t i = 0; i < r.advantage.size(); ++i) {
    const auto n = static_cast<std::size_t>(r.offsets[i + 1] - r.offsets[i]);
    Mask* const row = mask.get() + i * static_cast<std::size_t>(width);
    for (std::size_t t = 0; t < n; ++t) row[t] = Mask(1);
    for (std::size_t t = n; t < static_cast<std::size_t>(width); ++t) row[t] = static_cast<Mask>(-0.0);
    lengths.push_back(static_cast<std::int64_t>(n));
    counts.add_row(static_cast<std::int64_t>(n));
  }
  token_batch<float> batch{.logp = x.at(x.logp, storage[0], transposed),
                           .old_logp = x.at(x.old_logp, storage[1], transposed),
                           .ref_logp = x.at(x.ref_logp, storage[2], transposed),
                           .advantage = r.advantage,
                           .entropy = x.at(x.entropy, storage[3], transposed)};
  if (by_length)
    batch.lengths = lengths;
  else
    batch.mask = matrix_view<Mask>(mask.get(), {x.count, x.width});
  const auto gradient = x.at(x.gradient, storage[4], transposed),
             entropy = x.at(x.entropy_gradient, storage[5], transposed);
  const result report =
      evaluate(serial{}, objective, sequence_mean_token_mean{}, batch, counts, {.logp = gradient, .entropy = entropy});
  expect_same_bits(report, packed.report);
  std::vector<float> got, got_entropy;
  for (std::size_t i = 0; i < r.advantage.size(); ++i)
    for (extent_t t = 0; t < width; ++t) {
      if (t < lengths[i]) {
        got.push_back(gradient(i, t)), got_entropy.push_back(entropy(i, t));
      } else {
        EXPECT_EQ(gradient(i, t), 0.0f);
        EXPECT_EQ(entropy(i, t), 0.0f);
      }
    }
  expect_same_bits(got, packed.logp);
  expect_same_bits(got_entropy, packed.entropy);
}

TEST(layout_invariance, packed_padded_transposed_and_every_type_of_mask) {
  const rows r(12);
  const outcome packed = evaluate_in_parts(r, {0, 12}, serial{});
  const float nan = std::nanf("");
  check_rectangle<std::uint8_t>(r, packed, 1500, 0.0f, false, false);
  check_rectangle<bool>(r, packed, 1537, nan, false, false);  // masked slots are never read
  check_rectangle<std::int16_t>(r, packed, 1537, nan, true, false);
  check_rectangle<std::int32_t>(r, packed, 1537, nan, false, false);
  check_rectangle<std::int64_t>(r, packed, 1501, std::numeric_limits<float>::infinity(), false, false);
  check_rectangle<float>(r, packed, 1600, nan, false, false);
  check_rectangle<double>(r, packed, 1600, nan, true, false);
  check_rectangle<float>(r, packed, 1600, nan, false, true);
  check_rectangle<float>(r, packed, 1600, nan, true, true);
}

TEST(masks, holes_with_poison_change_nothing) {
  std::mt19937 random(8);
  const extent_t width = 333;
  rows r(4);
  rectangle clean(r, 1500, 0.5f), poisoned(r, 1500, 0.5f);
  std::vector<float> mask(clean.logp.size());
  for (std::size_t k = 0; k < mask.size(); ++k) {
    mask[k] = random() % 3 == 0 ? 0.0f : 1.0f;
    if (mask[k] == 0)
      poisoned.logp[k] = std::nanf(""), poisoned.old_logp[k] = INFINITY, poisoned.ref_logp[k] = -INFINITY,
      poisoned.entropy[k] = std::nanf("");
  }
  const auto run = [&](rectangle& x) {
    const auto m = [&](std::vector<float>& v) { return matrix_view<float>(v.data(), {4, width}, {1500, 1}); };
    const token_batch<float> batch{.logp = m(x.logp),
                                   .old_logp = m(x.old_logp),
                                   .ref_logp = m(x.ref_logp),
                                   .advantage = r.advantage,
                                   .entropy = m(x.entropy),
                                   .mask = m(mask)};
    return evaluate(serial{}, objective, token_mean{}, batch, loss_counts(batch),
                    {.logp = m(x.gradient), .entropy = m(x.entropy_gradient)});
  };
  expect_same_bits(run(clean), run(poisoned));
  expect_same_bits(clean.gradient, poisoned.gradient);
  expect_same_bits(clean.entropy_gradient, poisoned.entropy_gradient);
  EXPECT_TRUE(std::isfinite(run(poisoned).loss()));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
