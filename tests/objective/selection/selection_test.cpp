// Which tokens verl and TRL choose, and that a split of the step chooses the same.
#include <cmath>
#include <random>

#include "objective/correction/correction_data.hpp"
#include "rlcore/objective/selection/replay.hpp"
#include "rlcore/objective/selection/tokens.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace correction_test;

namespace {

/// Part of the rows, and where their selection goes.
struct parts {
  std::vector<double> logp, old_logp, entropy, advantage, selected;
  std::ptrdiff_t rows, width;

  parts(std::ptrdiff_t rows_, std::ptrdiff_t width_, unsigned seed) : rows(rows_), width(width_) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (std::ptrdiff_t i = 0; i < rows; ++i) advantage.push_back(2 * normal(random));
    for (std::ptrdiff_t k = 0; k < rows * width; ++k) {
      logp.push_back(-2 * std::abs(normal(random)));
      old_logp.push_back(logp.back() + 0.1 * normal(random));
      entropy.push_back(std::abs(normal(random)));
    }
    selected.resize(logp.size());
  }
  matrix_view<double> cut(std::vector<double>& x, std::ptrdiff_t first, std::ptrdiff_t count) const {
    return matrix(x.data() + first * width, count, width);
  }
  token_batch<double> batch(std::ptrdiff_t first, std::ptrdiff_t count) {
    return {.logp = cut(logp, first, count),
            .old_logp = cut(old_logp, first, count),
            .advantage = std::span<const double>(advantage).subspan(static_cast<std::size_t>(first),
                                                                    static_cast<std::size_t>(count)),
            .entropy = cut(entropy, first, count)};
  }
};

double count(const std::vector<double>& selected) {
  double n = 0;
  for (const double x : selected) n += x;
  return n;
}

/// The selection of a step in micro-batches of three rows.
template <class Rule>
std::vector<double> in_parts(const Rule& rule, parts& p) {
  covariance_means means;
  for (std::ptrdiff_t first = 0; first < p.rows; first += 3) {
    covariance_means some;
    some.add(p.batch(first, std::min<std::ptrdiff_t>(3, p.rows - first)));
    means += some;
  }
  auto choice = token_choice::share_of(rule.share, means.tokens());
  for (std::ptrdiff_t first = (p.rows - 1) / 3 * 3; first >= 0; first -= 3) {
    auto some = token_choice::share_of(rule.share, means.tokens());
    rule.offer(p.batch(first, std::min<std::ptrdiff_t>(3, p.rows - first)), first, means, some);
    choice += some;
  }
  for (std::ptrdiff_t first = 0; first < p.rows; first += 3) {
    const auto n = std::min<std::ptrdiff_t>(3, p.rows - first);
    mark(choice, p.batch(first, n), first, p.cut(p.selected, first, n));
  }
  return p.selected;
}

}  // namespace

TEST(selection, high_entropy_as_trl) {
  golden_data d;
  for (const auto& [share, want] : d.cases["trl_high_entropy"].items()) {
    const token_batch<double> batch{.entropy = golden_data::shaped(d.entropy), .mask = golden_data::shaped(d.mask)};
    std::vector<double> selected(72, -7.0);
    select(high_entropy{.share = std::stod(share)}, batch, golden_data::shaped(selected));
    expect_equal(selected, want, "share " + share, 0);
  }
  entropy_sample all;
  all.add(token_batch<double>{.entropy = golden_data::shaped(d.entropy), .mask = golden_data::shaped(d.mask)});
  for (const auto& [q, want] : d.cases["quantile"].items())
    EXPECT_DOUBLE_EQ(all.quantile(std::stod(q)), want.get<double>()) << q;
  EXPECT_EQ(entropy_sample{}.quantile(0.5), std::numeric_limits<double>::infinity());
  EXPECT_THROW(all.quantile(1.5), std::invalid_argument);
  d.entropy[0] = NAN;
  EXPECT_THROW(all.add(token_batch<double>{.entropy = golden_data::shaped(d.entropy)}), std::invalid_argument);
}

TEST(selection, off_policy_sequences_as_trl) {
  golden_data d;
  for (const auto& [threshold, want] : d.cases["trl_off_policy"].items()) {
    token_batch<double> batch = d.batch(true);
    batch.advantage = d.advantage;
    std::vector<double> selected(72, -7.0);
    const off_policy_sequence rule{.threshold = std::stod(threshold)};
    select(rule, batch, golden_data::shaped(selected));
    expect_equal(selected, want, "threshold " + threshold, 0);
    batch.old_logp = golden_data::shaped(d.rollout_logp), batch.rollout_logp = {};
    std::vector<double> again(72);
    select(off_policy_sequence{.threshold = rule.threshold, .behaviour = field::old_logp}, batch,
           golden_data::shaped(again));
    EXPECT_EQ(again, selected);
  }
}

TEST(selection, candidates_of_clip_cov_as_verl) {
  golden_data d;
  auto logp = flat(d.json["wide_logp"]), old_logp = flat(d.json["wide_old_logp"]);
  const token_batch<double> batch{.logp = golden_data::shaped(logp),
                                  .old_logp = golden_data::shaped(old_logp),
                                  .advantage = d.advantage,
                                  .mask = golden_data::shaped(d.mask)};
  std::vector<double> all(72, -7.0), few(72, -7.0);
  clip_covariance rule{.low = 0.5, .high = 2.5, .share = 1};
  select(rule, batch, golden_data::shaped(all));
  expect_equal(all, d.cases["verl_clip_cov_candidates"], "all candidates", 0);
  rule.share = 0.05;  // of 42 tokens: 2
  rule.key = {17};
  select(rule, batch, golden_data::shaped(few));
  EXPECT_EQ(count(few), 2);
  for (std::size_t k = 0; k < 72; ++k) EXPECT_LE(few[k], all[k]);
  rule.share = 1e-4;
  select(rule, batch, golden_data::shaped(few));
  EXPECT_EQ(count(few), 1);  // at least one
}

TEST(selection, kl_cov_as_verl) {
  golden_data d;
  auto logp = flat(d.json["wide_logp"]);
  const token_batch<double> batch{
      .logp = golden_data::shaped(logp), .advantage = d.advantage, .mask = golden_data::shaped(d.mask)};
  std::vector<double> selected(72, -7.0);
  select(kl_covariance{.share = 0.2}, batch, golden_data::shaped(selected));
  expect_equal(selected, d.cases["verl_kl_cov_selected"], "KL-Cov", 0);
}

TEST(selection, a_step_in_parts_is_the_same_step) {
  parts whole(40, 33, 3), cut(40, 33, 3);
  const auto check = [&](const auto& rule) {
    select(rule, whole.batch(0, 40), whole.cut(whole.selected, 0, 40));
    EXPECT_EQ(in_parts(rule, cut), whole.selected);
    EXPECT_EQ(count(whole.selected), std::floor(rule.share * 40 * 33));
  };
  check(kl_covariance{.share = 0.03});
  check(clip_covariance{.share = 0.01, .key = {5}});

  select(high_entropy{}, whole.batch(0, 40), whole.cut(whole.selected, 0, 40));
  entropy_sample step;
  for (const int first : {24, 0}) {
    entropy_sample some;
    some.add(cut.batch(first, first == 0 ? 24 : 16));
    step += some;
  }
  for (const int first : {0, 24})
    high_entropy{}.mark(step, cut.batch(first, first == 0 ? 24 : 16),
                        cut.cut(cut.selected, first, first == 0 ? 24 : 16));
  EXPECT_EQ(cut.selected, whole.selected);
}

// Every candidate is as likely as any other: 200 keys, 10 of 100 each, so 20 +- 4.2 times per candidate.
TEST(selection, clip_cov_draws_uniformly) {
  std::vector<double> logp(100), advantage(100), selected(100), times(100);
  for (std::size_t k = 0; k < 100; ++k)
    logp[k] = k % 2 ? -1.0 : -3.0, advantage[k] = k % 2 ? 2.0 : -2.0;  // covariance 2 for all
  const token_batch<double> batch{.logp = matrix(logp.data(), 4, 25),
                                  .old_logp = matrix(logp.data(), 4, 25),
                                  .advantage = matrix(advantage.data(), 4, 25)};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    select(clip_covariance{.share = 0.1, .key = {seed}}, batch, matrix(selected.data(), 4, 25));
    EXPECT_EQ(count(selected), 10);
    for (std::size_t k = 0; k < 100; ++k) times[k] += selected[k];
  }
  double chi_square = 0;
  for (const double n : times) chi_square += (n - 20) * (n - 20) / (20 * 0.9);
  EXPECT_LT(chi_square, 149);  // 99 degrees of freedom: 0.999
  EXPECT_GT(chi_square, 60);   //                         0.001
}

TEST(selection, ties_go_to_the_earlier_token) {
  std::vector<double> logp(12, -1.0), advantage{1, 1, 1}, selected(12);
  const token_batch<double> batch{.logp = matrix(logp.data(), 3, 4), .advantage = advantage};
  select(kl_covariance{.share = 0.5}, batch, matrix(selected.data(), 3, 4));
  EXPECT_EQ(selected, (std::vector<double>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_THROW(token_choice::share_of(0, 12), std::invalid_argument);
}

TEST(selection, selections_are_joined_by_and) {
  golden_data d;
  token_batch<double> batch = d.batch(true);
  batch.advantage = d.advantage, batch.entropy = golden_data::shaped(d.entropy);
  std::vector<double> a(72), b(72), both(72);
  select(high_entropy{.share = 0.5}, batch, golden_data::shaped(a));
  select(off_policy_sequence{.threshold = 0.02}, batch, golden_data::shaped(b));
  select(high_entropy{.share = 0.5}, batch, golden_data::shaped(both));
  batch.selected = golden_data::shaped(both);
  select(off_policy_sequence{.threshold = 0.02}, batch, golden_data::shaped(both));
  for (std::size_t k = 0; k < 72; ++k) EXPECT_EQ(both[k], a[k] * b[k]);
  ASSERT_LT(count(both), count(a));
}

TEST(selection, padding_is_never_read) {
  golden_data d;
  for (std::size_t k = 0; k < 72; ++k)
    if (d.mask[k] == 0) d.entropy[k] = d.logp[k] = d.rollout_logp[k] = NAN;
  token_batch<double> batch = d.batch(true);
  batch.advantage = d.advantage, batch.entropy = golden_data::shaped(d.entropy);
  std::vector<double> selected(72, NAN);
  select(high_entropy{.share = 0.5}, batch, golden_data::shaped(selected));
  expect_equal(selected, d.cases["trl_high_entropy"]["0.5"], "high entropy", 0);
  select(off_policy_sequence{.threshold = 0.02}, batch, golden_data::shaped(selected));
  expect_equal(selected, d.cases["trl_off_policy"]["0.02"], "off policy", 0);
  select(kl_covariance{.share = 0.2}, batch, golden_data::shaped(selected));
  EXPECT_EQ(count(selected), 8);
}

TEST(selection, replay_scores_of_trl) {
  golden_data d;
  const auto rewards = flat(d.cases["replay_scores"]["rewards"]), want = flat(d.cases["replay_scores"]["scores"]);
  std::vector<double> scores(2);
  group_replay_scores(rewards, d.advantage, 3, scores);
  EXPECT_NEAR(scores[0], want[0], 1e-14);
  EXPECT_EQ(scores[1], 0.0);  // three times 0.1: no deviation, not a rounded one
  EXPECT_THROW(group_replay_scores(rewards, d.advantage, 4, scores), std::invalid_argument);
}

}  // namespace RLCORE_TEST_ID
