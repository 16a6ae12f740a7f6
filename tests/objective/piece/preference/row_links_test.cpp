// Links of single rows (KTO, APO-zero unpaired, BCO) and of whole batches (AOT), and what their settings are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "objective/piece/preference/preference_batch.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/supervised.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

token<double> row_of(double score, double label) {
  token<double> row{};
  row.logp = score, row.target = label, row.weight = 0.5;
  return row;
}

TEST(row_links, equal_numbers_of_60_digits) {
  check_row_case(kto_link{.kl = kto_baseline(0.2), .desirable_weight = 1.25, .undesirable_weight = 0.75}, "kto");
  check_row_case(apo_zero_unpaired_link{}, "apo_zero_unpaired");
  check_row_case(bco_link(0.3), "bco");
}
TEST(row_links, slopes_are_derivatives) {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 300; ++k) {
    const auto row = row_of(9 * normal(random), k % 2);
    check_slope(kto_link{.kl = kto_baseline(1.5), .beta = 0.6, .undesirable_weight = 1.3}, row);
    check_slope(apo_zero_unpaired_link{.beta = 0.6}, row);
    check_slope(weighted{bco_link(-0.4, 0.6)}, row);
    const auto t = random_token(random);
    check_slope(negative_log_likelihood{}, t);
    check_slope(weighted_log_ratio_to_reference{}, t);
    check_slope(reference_log_prob{}, t);
    check_slope(head_score{}, t);
  }
}
TEST(row_links, reference_values) {
  const auto kto = at(kto_link{.kl = kto_baseline(0.2)}, row_of(1, 1));
  EXPECT_NEAR(kto.value, .480010659844418, 1e-15);
  EXPECT_NEAR(kto.slope, -.0249600426280145, 1e-16);
}

// huggingface/trl#1447, #2153: a wrong label must not count as one of the two classes.
TEST(row_links, a_label_that_is_none_shows_in_the_loss) {
  for (const double label : {0.5, -1.0, 2.0, std::nan("")}) {
    EXPECT_TRUE(std::isnan(at(kto_link{.kl = kto_baseline(0)}, row_of(1, label)).value));
    EXPECT_TRUE(std::isnan(at(bco_link(0), row_of(1, label)).slope));
  }
  EXPECT_TRUE(std::isnan(at(kto_link{.kl = kto_baseline(0)}, row_of(std::nan(""), 1)).slope));
}
TEST(row_links, monitors_are_per_class) {
  const auto up = at(kto_link{.kl = kto_baseline(0)}, row_of(3, 1)), down = at(bco_link(0), row_of(3, 0));
  EXPECT_THAT(up.monitor, testing::ElementsAre(1, testing::DoubleEq(0.3), 0));
  EXPECT_THAT(down.monitor, testing::ElementsAre(0, 0, testing::DoubleEq(0.3)));
}

// huggingface/trl#1380, #1402, #2554; LlamaFactory#7509: the baseline of a batch of one is the reward itself, and its
// mean depends on how the step is cut.
TEST(kto_baseline, is_the_mean_over_all_rows_of_the_step) {
  const preference_batch batch;
  const auto logp = batch.numbers("mismatched_logp"), ref_logp = batch.numbers("mismatched_ref_logp");
  const double whole = kto_kl_baseline(logp, ref_logp).value();
  mismatched_kl first, second;
  for (std::size_t i = 0; i < logp.size(); ++i) (i < 3 ? first : second).add(logp[i], ref_logp[i]);
  second += first;
  EXPECT_EQ(second.baseline().value(), whole);  // to the bit
  EXPECT_EQ(kto_kl_baseline(ref_logp, logp).value(), 0);

  EXPECT_THAT(message_of([&] { kto_kl_baseline(std::vector{-1.0}, std::vector{-2.0}); }),
              testing::HasSubstr("at least two mismatched completions, got 1"));
  EXPECT_THAT(message_of([&] { kto_kl_baseline(logp, std::vector{-2.0}); }), testing::HasSubstr("logp is [8]"));
  EXPECT_THAT(message_of([] { kto_baseline(-0.1); }), testing::HasSubstr("0 or more"));
  EXPECT_THAT(message_of([] { kto_kl_baseline(std::vector{std::nan(""), 1.0}, std::vector{0.0, 0.0}); }),
              testing::HasSubstr("0 or more"));
  EXPECT_EQ(mismatched_row(0, 4), 3u);
  EXPECT_EQ(mismatched_row(3, 4), 2u);
  EXPECT_THAT(message_of([] { mismatched_row(0, 1); }), testing::HasSubstr("at least two rows"));
  static_assert(!std::is_convertible_v<double, kto_baseline>);
}

// TRL's moments are updated per micro-batch, so its BCO loss depends on how the step is cut.
TEST(running_mean, is_the_mean_of_everything_seen) {
  running_mean m;
  m.update(std::vector{1.0, 2.0, 6.0});
  EXPECT_DOUBLE_EQ(m.mean, 3);
  m.update(std::vector{-1.0});
  EXPECT_DOUBLE_EQ(m.mean, 2);
  EXPECT_EQ(m.count, 4);
  m.update(std::vector<double>{});
  EXPECT_DOUBLE_EQ(m.mean, 2);
  running_mean other;
  other.update(std::vector{6.0, 1.0, 2.0});
  other.update(std::vector{-1.0});
  EXPECT_EQ(m.mean, other.mean);
  EXPECT_THAT(message_of([&] { m.update(std::vector{1.0, std::nan("")}); }), testing::HasSubstr("reward 1"));
  EXPECT_DOUBLE_EQ(m.mean, 2);
}

TEST(udm_weight, is_the_odds_within_bounds) {
  EXPECT_NEAR(udm_weight(0.75), 3, 1e-6);
  EXPECT_EQ(udm_weight(0.01), 0.5);
  EXPECT_EQ(udm_weight(1.0), 10);
}

std::vector<token<double>> batch_of(const std::vector<double>& scores, const std::vector<double>& gathered) {
  std::vector<token<double>> rows(scores.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].logp = scores[i], rows[i].gathered = gathered[i];
  return rows;
}
template <class Link>
std::pair<double, std::vector<double>> judge_batch(const Link& link, const std::vector<token<double>>& rows) {
  std::vector<double> slope(rows.size(), -7);
  const double value = link(std::span<const token<double>>(rows), std::span<double>(slope));
  return {value, slope};
}

TEST(batch_links, slopes_are_derivatives) {
  std::mt19937_64 random(21);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 20; ++k) {
    std::vector<double> scores(10), reference(10);
    for (auto& x : scores) x = 5 * normal(random);
    for (auto& x : reference) x = 5 * normal(random);
    const auto check = [&](const auto& link) {
      const auto [value, slope] = judge_batch(link, batch_of(scores, reference));
      for (std::size_t i = 0; i < scores.size(); ++i) {  // central differences; a sort has no dual number
        const double h = 1e-5;
        auto up = scores, down = scores;
        up[i] += h, down[i] -= h;
        const double numeric =
            (judge_batch(link, batch_of(up, reference)).first - judge_batch(link, batch_of(down, reference)).first) /
            (2 * h);
        EXPECT_NEAR(slope[i], numeric, 1e-9) << link.name;
      }
    };
    check(aot_link{.beta = 0.4, .smoothing = 0.1});
    check(aot_unpaired_link{.beta = 0.4, .smoothing = 0.1});
  }
}

TEST(batch_links, equal_gaps_keep_the_order_of_their_rows) {
  const std::vector<double> scores{1, 0, 3, 2, 2, 1}, reference{0, 0, 1, 0, 5, 0};  // all policy gaps are 1
  const auto [value, slope] = judge_batch(aot_link{.beta = 1}, batch_of(scores, reference));
  const auto third = [](double z) { return -exact_math::sigmoid(-z) / 3; };
  EXPECT_DOUBLE_EQ(slope[0], third(1 - 0));
  EXPECT_DOUBLE_EQ(slope[2], third(1 - 1));
  EXPECT_DOUBLE_EQ(slope[4], third(1 - 5));
  EXPECT_EQ(slope[1], -slope[0]);
}

TEST(batch_links, do_not_depend_on_the_order_of_pairs) {
  const std::vector<double> scores{1.5, 0, -3, 2, 2, 1}, reference{0.5, 0, 1, 0, 5, 0};
  const std::vector<double> turned{2, 1, 1.5, 0, -3, 2}, turned_reference{5, 0, 0.5, 0, 1, 0};
  const auto a = judge_batch(aot_link{}, batch_of(scores, reference));
  const auto b = judge_batch(aot_link{}, batch_of(turned, turned_reference));
  EXPECT_EQ(a.first, b.first);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(a.second[i], b.second[(i + 2) % 6]);
}

TEST(batch_links, edges) {
  EXPECT_EQ(judge_batch(aot_link{}, {}).first, 0);
  EXPECT_THAT(message_of([] { judge_batch(aot_unpaired_link{}, std::vector<token<double>>(3)); }),
              testing::HasSubstr("rows in pairs"));
  const double nan = std::nan("");
  const auto [value, slope] = judge_batch(aot_unpaired_link{}, batch_of({nan, 0, 1, 0}, {0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(slope[0]));
  EXPECT_FALSE(std::isnan(slope[2]));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
