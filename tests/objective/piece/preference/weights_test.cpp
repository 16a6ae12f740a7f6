// Weights of LD-DPO and WPO, and the links inside the loop: per-row fields, a second gather, scores of a head, a
// likelihood term added by a second call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objective/piece/preference/preference_batch.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/kto.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/preference/weights.hpp"
#include "rlcore/objective/piece/reward_model.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

const double nan = std::nan("");

TEST(ld_dpo_weights, count_live_tokens_of_the_shorter_answer) {
  std::vector<int> mask{1, 1, 0, 1, 1, 0,   // 4 live tokens with a hole
                        0, 1, 1, 0, 0, 0};  // 2
  std::vector<float> w(12, -1.0f);
  ld_dpo_weights(matrix_view<const int>(mask.data(), {2, 6}), 0.25, matrix_view<float>(w.data(), {2, 6}));
  EXPECT_THAT(w, testing::ElementsAre(1, 1, 0, .25f, .25f, 0, 0, 1, 1, 0, 0, 0));
  const auto refuse = [&](extents<2> shape, double alpha) {
    EXPECT_THROW(
        ld_dpo_weights(matrix_view<const int>(mask.data(), shape), alpha, matrix_view<float>(w.data(), {2, 6})),
        std::invalid_argument);
  };
  refuse({3, 4}, 0.5), refuse({2, 5}, 0.5), refuse({2, 6}, 1.5), refuse({2, 6}, nan);
}

TEST(wpo_weights, are_geometric_means_over_live_tokens) {
  const std::vector<double> logp{-1, -2, nan, -0.5, nan, nan}, squares{-0.5, -1, nan, -2, nan, nan};
  const std::vector<int> mask{1, 1, 0, 1, 0, 0};
  std::vector<double> w(3);
  const auto call = [&](extents<2> shape) {
    wpo_weights(matrix_view<const double>(logp.data(), shape), matrix_view<const double>(squares.data(), {3, 2}),
                matrix_view<const int>(mask.data(), {3, 2}), w);
  };
  call({3, 2});
  EXPECT_DOUBLE_EQ(w[0], std::exp(-0.75));
  EXPECT_DOUBLE_EQ(w[1], std::exp(1.5));
  EXPECT_EQ(w[2], 1);  // no live token
  EXPECT_THROW(call({2, 3}), std::invalid_argument);
}

class preference_loop : public testing::Test {
 protected:
  preference_loop() {
    for (std::size_t k = 0; k < batch.logp.size(); ++k)
      if (batch.mask[k] == 0) batch.logp[k] = batch.ref_logp[k] = nan;  // masked slots are never read
    gradient.assign(batch.logp.size(), -1.0);
  }
  template <class X>
  auto matrix(X* data) const {
    return matrix_view<X>(data, {static_cast<extent_t>(batch.rows), static_cast<extent_t>(batch.width)});
  }
  token_batch<double> fields() const {
    return {.logp = matrix(batch.logp.data()),
            .ref_logp = matrix(batch.ref_logp.data()),
            .target = batch.label,
            .mask = matrix(batch.mask.data())};
  }
  template <class Gather, class Link, class Aggregation>
  void check(Gather gather, const Link& link, const Aggregation& aggregation, const token_batch<double>& b) {
    const auto r = evaluate(serial{}, sequence_objective{gather, link}, aggregation, b, loss_counts(b),
                            {.logp = matrix(gradient.data())});
    const auto want = batch(gather, link);
    expect_close(r.loss(), want.loss, 1e-14, std::string(Link::name));
    for (std::size_t k = 0; k < gradient.size(); ++k)
      expect_close(gradient[k], want.gradient[k], 1e-14, std::string(Link::name));
  }

  preference_batch batch;
  std::vector<double> gradient;
};

TEST_F(preference_loop, labels_are_read_per_row) {
  check(sum_of<log_ratio_to_reference>{}, kto_link{.kl = kto_baseline(0.2)}, sequence_mean{}, fields());
}
/// The mean of TRL's KTOTrainer (and of OpenRLHF's KTOLoss) is over all rows: one without a token has the term of score
/// 0 and no gradient.
TEST_F(preference_loop, rows_without_tokens_count_in_unpaired_means) {
  for (std::size_t k = batch.width; k < 3 * batch.width; ++k) batch.mask[k] = 0;  // rows 1 and 2
  const auto kl = kto_kl_baseline(batch.numbers("mismatched_logp"), batch.numbers("mismatched_ref_logp"));
  const auto expect = [&](const auto& algorithm, const char* name) {
    const auto b = fields();
    const auto r = evaluate(serial{}, algorithm, b, loss_counts(b), {.logp = matrix(gradient.data())});
    expect_same({r.loss(), gradient}, batch.system("trl", name), 1e-12, name);
    EXPECT_EQ(r.units, static_cast<std::int64_t>(batch.rows));
  };
  expect(paper::kto({.kl = kl, .desirable_weight = 1.25, .undesirable_weight = 0.75}), "kto_empty");
  expect(paper::apo_zero_unpaired({.desirable_weight = 1.25, .undesirable_weight = 0.75}), "apo_zero_unpaired_empty");
}
TEST_F(preference_loop, optimal_transport_sees_all_rows_and_gathers_the_reference) {
  check(sum_of<log_prob>{}, aot_link{}, batch_total{}, fields());
}
TEST_F(preference_loop, sums_and_averages_in_one_objective) {
  check(sum_of<log_ratio_to_reference>{}, mixed{bradley_terry{}, scaled{0.25, per_token{ipo_link{}}}}, pair_mean{},
        fields());
}
TEST_F(preference_loop, token_weights_and_pair_weights) {
  ld_dpo_weights(matrix(std::as_const(batch).mask.data()), 0.25, matrix(batch.weight.data()));
  auto b = fields();
  b.weight = matrix(std::as_const(batch).weight.data());
  check(sum_of<weighted_log_ratio_to_reference>{}, bradley_terry{}, pair_mean{}, b);
  for (std::size_t i = 0; i < batch.rows; ++i) batch.row_weight[i] = 0.25 * static_cast<double>(i + 1);
  b.weight = std::as_const(batch).row_weight;
  check(sum_of<log_ratio_to_reference>{}, weighted_pair{bradley_terry{}}, pair_mean{}, b);
}

TEST_F(preference_loop, likelihood_of_the_chosen_rows_is_added) {
  const auto b = fields();
  global_counts chosen;
  for (std::size_t i = 0; i < batch.rows; i += 2) chosen.add_row(static_cast<std::int64_t>(batch.live(i)));
  const auto pairs = evaluate(serial{}, sequence_objective{sum_of<log_ratio_to_reference>{}, bradley_terry{}},
                              pair_mean{}, b, loss_counts(b), {.logp = matrix(gradient.data())});
  const auto without = gradient;
  const auto likelihood = evaluate(serial{}, scaled{0.5, negative_log_likelihood{}}, chosen_token_mean{chosen}, b,
                                   loss_counts(b), {.logp = matrix(gradient.data()), .add = true});
  const auto& sigmoid = batch.system("trl", "sigmoid");
  const auto& sft = batch.system("trl", "sft");
  EXPECT_NEAR(pairs.loss() + likelihood.loss(), sigmoid["loss"].get<double>() + 0.5 * sft["loss"].get<double>(), 1e-12);
  for (std::size_t k = 0; k < gradient.size(); ++k)
    EXPECT_NEAR(gradient[k], without[k] + 0.5 * sft["gradient"][k].get<double>(), 1e-12);
}

// OpenRLHF's nll_loss_coef: the mean over the chosen rows of each one's token mean.
TEST_F(preference_loop, likelihood_of_the_chosen_rows_as_openrlhf_has_it) {
  const auto b = fields();
  global_counts chosen;
  for (std::size_t i = 0; i < batch.rows; i += 2) chosen.add_row(static_cast<std::int64_t>(batch.live(i)));
  const auto report = evaluate(serial{}, negative_log_likelihood{}, chosen_sequence_mean{chosen}, b, loss_counts(b),
                               {.logp = matrix(gradient.data())});
  const auto& theirs = batch.system("openrlhf", "nll");
  EXPECT_NEAR(report.loss(), theirs["loss"].get<double>(), 1e-12);
  for (std::size_t k = 0; k < gradient.size(); ++k)
    EXPECT_NEAR(gradient[k], theirs["gradient"][k].get<double>(), 1e-12);
}

TEST_F(preference_loop, reward_model_scores_live_in_value) {
  std::vector<double> head(batch.logp.size(), nan), margins(batch.rows), slopes(batch.logp.size(), -1.0);
  std::vector<int> at_end(batch.logp.size());
  for (std::size_t i = 0; i < batch.rows; ++i) {  // one live token per row, where the head is read
    const std::size_t last = i * batch.width + static_cast<std::size_t>(batch.live(i)) - 1;
    head[last] = batch.score[i], at_end[last] = 1;
    margins[i] = i % 2 == 0 ? batch.margin[i / 2] : nan;  // the margin is the chosen row's
  }
  const token_batch<double> b{
      .value = matrix(std::as_const(head).data()), .target = margins, .mask = matrix(std::as_const(at_end).data())};
  const auto r = evaluate(serial{}, sequence_objective{sum_of<head_score>{}, bradley_terry_with_margin{}}, pair_mean{},
                          b, loss_counts(b), {.value = matrix(slopes.data())});
  const auto& want = batch.system("trl", "reward_margin");
  EXPECT_NEAR(r.loss(), want["loss"], 1e-14);
  for (std::size_t i = 0; i < batch.rows; ++i)
    for (std::size_t t = 0; t < batch.width; ++t)
      EXPECT_NEAR(slopes[i * batch.width + t], at_end[i * batch.width + t] != 0 ? want["gradient"][i].get<double>() : 0,
                  1e-15);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
