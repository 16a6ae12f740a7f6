// Log-probs and entropies of the npu device, whole rows and tiles of columns, and their gradients, against the cpu.
#include <gtest/gtest.h>

#include <limits>

#include "device/npu/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct problem {
  extent_t t, v;
  float temperature;
  floats logits;
  indices targets;
  floats dlogp = normal(t, 8), dentropy = normal(t, 9);

  problem(extent_t rows, extent_t vocabulary, float temp) : t(rows), v(vocabulary), temperature(temp) {
    logits = normal(t * v, 7, 4);
    for (std::size_t j = 3; v > 5 && j < logits.size(); j += 11) logits[j] = -infinity;  // excluded tokens
    for (extent_t r = 0; r < t; ++r) {
      targets.push_back(static_cast<std::int32_t>((r * 1017 + 2) % v));
      logits[static_cast<std::size_t>(r * v + targets.back())] = 1.25f;
    }
  }
};
struct results {
  floats logp, entropy, statistics, slopes;
};

template <class D>
results whole(D& d, const problem& p) {
  auto logits = put(d, p.logits), logp = room<float>(d, p.t), entropy = room<float>(d, p.t),
       statistics = room<float>(d, 2 * p.t), dlogp = put(d, p.dlogp), dentropy = put(d, p.dentropy);
  auto targets = put(d, p.targets);
  d.run(rlcore::op::log_prob_forward{.logits = logits,
                                     .rows = p.t,
                                     .vocabulary = p.v,
                                     .targets = targets,
                                     .temperature = p.temperature,
                                     .logp = logp,
                                     .entropy = entropy,
                                     .statistics = statistics});
  EXPECT_EQ(logits.back(), p.logits);
  d.run(rlcore::op::log_prob_backward{.logits = logits,
                                      .rows = p.t,
                                      .width = p.v,
                                      .first = 0,
                                      .targets = targets,
                                      .temperature = p.temperature,
                                      .dlogp = dlogp,
                                      .dentropy = dentropy,
                                      .entropy = entropy,
                                      .statistics = statistics});
  return {logp.back(), entropy.back(), statistics.back(), logits.back()};
}

/// The same from tiles of `width` columns.
template <class D>
results tiled(D& d, const problem& p, extent_t width) {
  auto logp = room<float>(d, p.t), entropy = room<float>(d, p.t), statistics = room<float>(d, 2 * p.t),
       dlogp = put(d, p.dlogp), dentropy = put(d, p.dentropy);
  auto targets = put(d, p.targets);
  auto states = room<log_prob_state>(d, p.t);
  results got;
  got.slopes.resize(p.logits.size());
  const auto each_tile = [&](auto&& f) {
    for (extent_t first = 0; first < p.v; first += width) {
      const extent_t w = std::min(width, p.v - first);
      floats tile;
      for (extent_t r = 0; r < p.t; ++r)
        tile.insert(tile.end(), p.logits.begin() + r * p.v + first, p.logits.begin() + r * p.v + first + w);
      auto columns = put(d, tile);
      f(columns, w, first);
    }
  };
  each_tile([&](auto& tile, extent_t w, extent_t first) {
    d.run(rlcore::op::log_prob_accumulate{.states = states,
                                          .logits = tile,
                                          .rows = p.t,
                                          .width = w,
                                          .first = first,
                                          .targets = targets,
                                          .temperature = p.temperature});
  });
  d.run(rlcore::op::log_prob_finish{.states = states,
                                    .rows = p.t,
                                    .temperature = p.temperature,
                                    .logp = logp,
                                    .entropy = entropy,
                                    .statistics = statistics});
  each_tile([&](auto& tile, extent_t w, extent_t first) {
    d.run(rlcore::op::log_prob_backward{.logits = tile,
                                        .rows = p.t,
                                        .width = w,
                                        .first = first,
                                        .targets = targets,
                                        .temperature = p.temperature,
                                        .dlogp = dlogp,
                                        .dentropy = dentropy,
                                        .entropy = entropy,
                                        .statistics = statistics});
    const floats slopes = tile.back();
    for (extent_t r = 0; r < p.t; ++r) std::copy_n(slopes.begin() + r * w, w, got.slopes.begin() + r * p.v + first);
  });
  got.logp = logp.back(), got.entropy = entropy.back(), got.statistics = statistics.back();
  return got;
}

/// z / temperature reaches 20, whose unit is 1e-6; sums of positive terms are good to a few units.
void expect_alike(const results& got, const results& wanted) {
  expect_near(got.logp, wanted.logp, 1e-6, 4e-6, "logp");
  expect_near(got.entropy, wanted.entropy, 2e-6, 4e-6, "entropy");
  expect_near(got.slopes, wanted.slopes, 1e-5, 4e-6, "slopes");
}

TEST(npu_log_prob, whole_rows) {
  emulated_npu on;
  cpu host(1);
  for (const extent_t v : {1, 5, 43, 1000, 5003})
    for (const float temperature : {1.0f, 0.7f, 1.5f}) {
      SCOPED_TRACE(testing::Message() << v << " tokens at " << temperature);
      const problem p(5, v, temperature);
      expect_alike(whole(*on, p), whole(host, p));
    }
}

TEST(npu_log_prob, tiles_of_columns) {
  emulated_npu on;
  cpu host(1);
  problem p(6, 6 * 1024 + 77, 0.7f);
  for (extent_t j = 0; j < p.v; ++j) {
    const auto at = [&](extent_t row) { return static_cast<std::size_t>(row * p.v + j); };
    p.logits[at(1)] = static_cast<float>(j) * 0.003f;   // every tile has a new maximum
    p.logits[at(2)] = static_cast<float>(-j) * 0.003f;  // none has
    if (j < 2500) p.logits[at(3)] = -infinity;          // tiles without a token
    if (j != 4000) p.logits[at(4)] = -infinity;         // one token
  }
  p.targets[3] = 6220, p.targets[4] = 4000;
  const results wanted = whole(host, p);
  for (const extent_t width : {1024, 3072, 8192}) {
    SCOPED_TRACE(width);
    expect_alike(tiled(*on, p, width), wanted);
  }
}

/// The vocabulary in `parts` parts, as tensor parallel ranks have it: each knows where the targets are from its begin.
template <class D>
results merged(D& d, const problem& p, extent_t parts) {
  const extent_t width = p.v / parts;
  std::vector<decltype(room<log_prob_state>(d, p.t))> states;
  for (extent_t part = 0; part < parts; ++part) {
    floats columns;
    indices targets;
    for (extent_t r = 0; r < p.t; ++r) {
      const auto row = p.logits.begin() + r * p.v + part * width;
      columns.insert(columns.end(), row, row + width);
      targets.push_back(p.targets[static_cast<std::size_t>(r)] - static_cast<std::int32_t>(part * width));
    }
    states.push_back(room<log_prob_state>(d, p.t));
    auto logits = put(d, columns);
    auto ids = put(d, targets);
    d.run(rlcore::op::log_prob_accumulate{.states = states.back(),
                                          .logits = logits,
                                          .rows = p.t,
                                          .width = width,
                                          .first = 0,
                                          .targets = ids,
                                          .temperature = p.temperature});
  }
  for (std::size_t step = 1; step < states.size(); step *= 2)
    for (std::size_t i = 0; i + step < states.size(); i += 2 * step)
      d.run(rlcore::op::log_prob_merge{.a = states[i], .b = states[i + step], .rows = p.t});
  auto logp = room<float>(d, p.t), entropy = room<float>(d, p.t), statistics = room<float>(d, 2 * p.t);
  d.run(rlcore::op::log_prob_finish{.states = states[0],
                                    .rows = p.t,
                                    .temperature = p.temperature,
                                    .logp = logp,
                                    .entropy = entropy,
                                    .statistics = statistics});
  return {logp.back(), entropy.back(), statistics.back(), {}};
}

TEST(npu_log_prob, parts_of_the_vocabulary) {
  emulated_npu on;
  cpu host(1);
  problem p(8, 4 * 250, 0.7f);
  for (extent_t j = 0; j < p.v; ++j) {
    p.logits[static_cast<std::size_t>(3 * p.v + j)] = j < 510 ? -infinity : 1;  // parts without a token
    if (j != 800) p.logits[static_cast<std::size_t>(4 * p.v + j)] = -infinity;  // one token
    p.logits[static_cast<std::size_t>(5 * p.v + j)] = j / 250 == 2 ? 200 : -3;  // nothing is left of the others
  }
  p.targets[3] = 999, p.targets[4] = 800, p.targets[5] = 600;
  for (std::size_t r = 6; r < 8; ++r) p.targets[r] = r == 6 ? 249 : 250;  // on both sides of a border
  const results wanted = whole(host, p);
  for (const extent_t parts : {1, 2, 4}) {
    SCOPED_TRACE(parts);
    const results got = merged(*on, p, parts);
    expect_near(got.logp, wanted.logp, 1e-6, 4e-6, "logp");
    expect_near(got.entropy, wanted.entropy, 2e-6, 4e-6, "entropy");
  }
}

TEST(npu_log_prob, only_what_is_asked_for) {
  emulated_npu on;
  npu& d = *on;
  auto logits = put(d, floats{0, 0}), logp = put(d, floats{5});
  auto targets = put(d, indices{1});
  d.run(rlcore::op::log_prob_forward{
      .logits = logits, .rows = 1, .vocabulary = 2, .targets = targets, .temperature = 1, .logp = logp});
  EXPECT_NEAR(logp.back()[0], -0.693147f, 1e-6f);
  d.run(rlcore::op::log_prob_forward{
      .logits = logits, .rows = 0, .vocabulary = 2, .targets = targets, .temperature = 1, .logp = logp});
}

TEST(npu_log_prob, not_a_number_is_seen) {
  emulated_npu on;
  npu& d = *on;
  for (const float bad : {std::nanf(""), infinity}) {
    floats row(300, 0.0f);
    row[200] = bad;
    auto logits = put(d, row), logp = room<float>(d, 1), entropy = room<float>(d, 1);
    auto targets = put(d, indices{5});
    d.run(rlcore::op::log_prob_forward{.logits = logits,
                                       .rows = 1,
                                       .vocabulary = 300,
                                       .targets = targets,
                                       .temperature = 1,
                                       .logp = logp,
                                       .entropy = entropy});
    EXPECT_FALSE(std::isfinite(logp.back()[0]));
    EXPECT_FALSE(std::isfinite(entropy.back()[0]));
  }
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
