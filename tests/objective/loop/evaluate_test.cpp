// Loss and gradient of every piece and aggregation against PyTorch autograd.
#include "rlcore/objective/loop/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "objective/golden.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/distillation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-12;

template <class T>
void expect_close(double got, double want, double scale, const std::string& what) {
  EXPECT_NEAR(got, want, tolerance<T> * (std::abs(want) + scale)) << what;
}

/// One type for all aggregations, so that each objective is instantiated once.
struct any {
  std::function<double(row_info, const global_counts&)> f;
  template <class A>
  any(A a) : f([a](row_info row, const global_counts& step) { return a.weight(row, step); }) {}
  double weight(row_info row, const global_counts& step) const noexcept { return f(row, step); }
};

/// `scale` allows for cancellation where an objective adds pieces of opposite sign.
template <class T, class Objective>
void check(const std::string& name, const Objective& objective, const std::string& how, const any& aggregation,
           double scale) {
  golden_batch<T> g;
  const auto& want = golden()["pieces"][name];
  const auto counts = loss_counts(g.batch());
  const auto report = evaluate(serial{}, objective, aggregation, g.batch(), counts, g.gradients());
  expect_close<T>(report.loss(), want["loss"][how], std::abs(want["loss"][how].get<double>()) + scale,
                  name + " " + how);
  EXPECT_EQ(report.rows, g.rows);
  EXPECT_EQ(report.tokens, counts.tokens());
  for (const bool entropy : {false, true}) {
    const auto& table = entropy ? "entropy_gradient" : "logp_gradient";
    const auto& got = entropy ? g.entropy_gradient : g.logp_gradient;
    const bool given = want.contains(table) && want[table].contains(how);
    if (!given && want.contains(table)) continue;  // this gradient is on file for other aggregations
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_close<T>(static_cast<double>(got[i]), given ? want[table][how][i].template get<double>() : 0.0,
                      scale / static_cast<double>(counts.tokens()),
                      name + " " + how + " gradient " + std::to_string(i));
  }
}

template <class T, class Objective>
void check_all(const std::string& name, const Objective& objective, double scale = 0) {
  check<T>(name, objective, "token_mean", token_mean{}, scale);
  check<T>(name, objective, "token_sum", token_sum{}, scale);
  check<T>(name, objective, "sequence_mean_token_mean", sequence_mean_token_mean{}, scale);
  check<T>(name, objective, "sequence_mean_token_sum", sequence_mean_token_sum{}, scale);
  check<T>(name, objective, "fixed_length", fixed_length{48}, scale);
  check<T>(name, objective, "fixed_length_unaveraged", fixed_length_unaveraged{48}, scale);
}

template <class T>
class against_pytorch : public testing::Test {};
using types = testing::Types<float, double>;
TYPED_TEST_SUITE(against_pytorch, types);

TYPED_TEST(against_pytorch, surrogates) {
  using T = TypeParam;
  const ppo_clip clip{.low = 0.2, .high = 0.28};
  check_all<T>("clipped_ratio", clip);
  check_all<T>("dual_clipped_ratio", dual_clip{.low = 0.2, .high = 0.28, .bound = 3});
  check_all<T>("weighted_clipped_ratio", weighted{clip});
  check_all<T>("policy_gradient", policy_gradient{});
}
TYPED_TEST(against_pytorch, divergences) {
  using T = TypeParam;
  check_all<T>("k1", accept_zero_gradient{k1{}}, 1);
  check_all<T>("absolute", abs_kl{});
  check_all<T>("k2", k2{});
  check_all<T>("k3", k3{});
  check_all<T>("clamped_k3", clamped_k3{});
  check_all<T>("straight_through_k3", straight_through{clamped_k3{}, k2{}});
}
TYPED_TEST(against_pytorch, entropy) { check_all<TypeParam>("entropy", token_entropy{}); }
TYPED_TEST(against_pytorch, compositions) {
  using T = TypeParam;
  check_all<T>("grpo", paper::grpo(), 1);
  check_all<T>(
      "verl", sum{dual_clip{.low = 0.2, .high = 0.28, .bound = 3}, scaled{0.05, clamped_k3{}}, entropy_bonus(0.01)}, 1);
}

TYPED_TEST(against_pytorch, metrics_of_verl) {
  golden_batch<TypeParam> g;
  const auto r = evaluate(serial{}, dual_clip{.low = 0.2, .high = 0.28, .bound = 3}, token_mean{}, g.batch(),
                          loss_counts(g.batch()));
  const auto& want = golden()["metrics"];
  for (const char* name : {"clipfrac", "clipfrac_lower", "ppo_kl"})
    expect_close<TypeParam>(r[name], want[name], 1.0, name);
}

TEST(evaluate, reports_every_piece_without_its_coefficient) {
  golden_batch<double> g;
  const auto r = evaluate(serial{}, sum{scaled{2.0, policy_gradient{}}, scaled{0.5, scaled{0.5, k2{}}}}, token_mean{},
                          g.batch(), loss_counts(g.batch()));
  const double policy = golden()["pieces"]["policy_gradient"]["loss"]["token_mean"],
               kl = golden()["pieces"]["k2"]["loss"]["token_mean"];
  EXPECT_NEAR(r.value("policy"), policy, 1e-13);
  EXPECT_NEAR(r["kl"], kl, 1e-12);
  EXPECT_NEAR(r.loss(), 2 * policy + 0.25 * kl, 1e-12);
  EXPECT_EQ(r.piece[0].name, "policy");
  EXPECT_EQ(r.piece[1].name, "kl");
}

TEST(evaluate, an_empty_step_has_no_loss_and_no_gradient) {
  golden_batch<float> g;
  std::fill(g.mask.begin(), g.mask.end(), std::uint8_t{0});
  std::fill(g.logp.begin(), g.logp.end(), std::nanf(""));
  for (const auto mode : {0, 1}) {
    const auto counts = loss_counts(g.batch());
    const auto r =
        mode == 0 ? evaluate(serial{}, paper::grpo(), token_mean{}, g.batch(), counts, g.gradients())
                  : evaluate(serial{}, paper::grpo(), sequence_mean_token_mean{}, g.batch(), counts, g.gradients());
    EXPECT_TRUE(r.empty_step);
    EXPECT_EQ(r.loss(), 0);
    EXPECT_EQ(r["policy"], 0);
    for (const float x : g.logp_gradient) EXPECT_EQ(x, 0);
  }
}

TEST(evaluate, a_gradient_that_no_piece_produces_is_zero) {
  golden_batch<float> g;
  evaluate(serial{}, policy_gradient{}, token_mean{}, g.batch(), loss_counts(g.batch()), g.gradients());
  for (const float x : g.entropy_gradient) EXPECT_EQ(x, 0);
}

// Without counts a call is the whole optimizer step, on one thread: the same bits as with everything named.
TEST(evaluate, without_counts_the_batch_is_the_whole_step) {
  golden_batch<float> g;
  const auto grpo = paper::grpo();
  const auto step = loss_counts(g.batch());
  const auto named = evaluate(serial{}, grpo.objective, grpo.aggregation, g.batch(), step, g.gradients());
  const auto slopes = g.logp_gradient;
  const auto expect_same = [&](const auto& r) {
    EXPECT_EQ(r.loss(), named.loss());
    EXPECT_EQ(r["kl"], named["kl"]);
    EXPECT_EQ(g.logp_gradient, slopes);
    std::fill(g.logp_gradient.begin(), g.logp_gradient.end(), -1.f);
  };
  expect_same(evaluate(grpo, g.batch(), g.gradients()));
  expect_same(evaluate(threads{2}, grpo, g.batch(), g.gradients()));
  expect_same(evaluate(grpo.objective, grpo.aggregation, g.batch(), g.gradients()));
  EXPECT_EQ(evaluate(grpo, g.batch()).loss(), named.loss());
}

// The chosen answers of pairs are rows 0, 2, 4, ...: their likelihood has their tokens as its denominator.
TEST(evaluate, without_counts_pairs_count_their_chosen_rows) {
  golden_batch<double> g;
  const auto rpo = with_likelihood(paper::dpo(), 0.5);
  global_counts chosen;
  for (extent_t i = 0; i < g.rows; i += 2) {
    const auto row = g.mask.begin() + i * g.tokens;
    chosen.add_row(std::count_if(row, row + g.tokens, [](auto m) { return m != 0; }));
  }
  const auto named =
      evaluate(serial{}, rpo, g.batch(), loss_counts(g.batch()), chosen, {.logp = g.matrix(g.logp_gradient)});
  const auto slopes = g.logp_gradient;
  const auto r = evaluate(rpo, g.batch(), {.logp = g.matrix(g.logp_gradient)});
  EXPECT_EQ(r.loss(), named.loss());
  EXPECT_EQ(g.logp_gradient, slopes);
  EXPECT_EQ(rpo.report().loss(), 0);
}

TEST(evaluate, a_report_without_rows_has_every_name) {
  const auto r = with_entropy(paper::grpo(), 0.01).report();
  EXPECT_EQ(r.rows, 0);
  EXPECT_EQ(r["policy"] + r["kl"] + r["entropy"] + r["clipfrac"], 0);
  EXPECT_EQ(r.piece[1].coefficient, 0.04);
  EXPECT_EQ(paper::dpo().report()["accuracy"], 0);
  EXPECT_EQ(paper::kd().report()["forward_kl"], 0);
}

/// Runs nothing.
struct idle_executor {
  template <class F>
  void for_each(std::size_t, F&&) const {}
  std::size_t concurrency() const { return 1; }
};

TEST(evaluate, an_executor_that_makes_no_call_is_noticed) {
  golden_batch<float> g;
  EXPECT_THROW(evaluate(idle_executor{}, paper::dapo(), g.batch()), std::invalid_argument);
}

TEST(evaluate, no_lengths_are_not_lengths_of_no_rows) {
  const std::vector<float> logp(8, -1.f), advantage(2, 1.f);
  const matrix_view<const float> matrix(logp.data(), {2, 4});
  token_batch<float> batch{.logp = matrix, .old_logp = matrix, .advantage = advantage};
  EXPECT_EQ(loss_counts(batch).tokens(), 8);
  const std::vector<std::int32_t> lengths;
  batch.lengths = lengths;
  EXPECT_THROW(evaluate(paper::dapo(), batch), std::invalid_argument);
  batch.lengths = {}, batch.offsets = lengths;
  EXPECT_THROW(evaluate(paper::dapo(), batch), std::invalid_argument);
}

// A gradient may lie between the inputs (an array of structs) and over a field that is not read, not over one that is.
TEST(evaluate, a_gradient_over_an_input_is_refused) {
  std::vector<float> all(64, -1.f);
  const std::vector<float> advantage(2, 1.f);
  const auto matrix = [&](extent_t first, extent_t row, extent_t column) {
    return matrix_view<float>(all.data() + first, {2, 4}, {row, column});
  };
  const auto refused = [&](const matrix_view<float>& logp, const matrix_view<float>& gradient) {
    const token_batch<float> batch{
        .logp = logp, .old_logp = matrix(48, 4, 1), .ref_logp = gradient, .advantage = advantage};
    try {
      evaluate(paper::dapo(), batch, {.logp = gradient});
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused(matrix(0, 4, 1), matrix(0, 4, 1)));
  EXPECT_TRUE(refused(matrix(0, 4, 1), matrix(7, 4, 1)));    // the last element is its first
  EXPECT_TRUE(refused(matrix(0, 4, 1), matrix(0, 1, 2)));    // by columns
  EXPECT_TRUE(refused(matrix(0, 8, 2), matrix(13, -8, 1)));  // backwards
  EXPECT_FALSE(refused(matrix(0, 4, 1), matrix(8, 4, 1)));
  EXPECT_FALSE(refused(matrix(0, 8, 2), matrix(1, 8, 2)));  // {logp, gradient} of each token
  EXPECT_FALSE(refused(matrix(0, 8, 1), matrix(4, 8, 1)));  // the right half of the rows
}

TEST(global_counts, refuse_what_is_no_number_of_tokens) {
  global_counts c;
  EXPECT_THROW(c.add_row(-1), std::invalid_argument);
  c.add_row(std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW(c.add_row(1), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
