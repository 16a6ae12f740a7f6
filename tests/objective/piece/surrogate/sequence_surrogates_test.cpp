// Surrogates that see a statistic of their row: each against the systems' own functions, token by token.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::at, rlcore_test::check_slope;
using testing_dual::dual;

namespace {

/// The packed rows of the golden file.
struct sequences {
  nlohmann::json data = rlcore_test::read_golden("surrogate.json")["sequences"];
  std::vector<token<double>> tokens = rlcore_test::golden_tokens(data["fields"]);
  std::vector<std::size_t> lengths = data["lengths"];

  /// The row's sum or mean of the piece's score, as the loop would gather it.
  template <class P>
  double gather(const P& piece, std::size_t begin, std::size_t n) const {
    double sum = 0;
    for (std::size_t k = begin; k < begin + n; ++k) sum += at(score_of(piece), tokens[k]).value;
    return gathers_of<P>::averages ? sum / static_cast<double>(n) : sum;
  }

  template <class P>
  void check(const P& piece, const char* name) {
    SCOPED_TRACE(name);
    const auto& one = data["cases"].at(name);
    const auto& gathered = data["gathered"].at(one.at("gathered").get<std::string>());
    auto shown = tokens;
    if (one.contains("advantage"))
      for (std::size_t k = 0; k < shown.size(); ++k) shown[k].advantage = one["advantage"][k];
    for (std::size_t row = 0, k = 0; row < lengths.size(); ++row) {
      const double g = gather(piece, k, lengths[row]);
      EXPECT_NEAR(g, gathered[row].get<double>(), 1e-12 * std::max(1.0, std::abs(g)));
      for (std::size_t end = k + lengths[row]; k < end; ++k) shown[k].gathered = g;
    }
    rlcore_test::check_case(piece, shown, one, 2e-12);
  }
};

const sequence_is gspo_token{ppo_clip{.low = 0.1, .high = 0.15}};

TEST(sequence_surrogates, are_those_of_verl_trl_liger_and_openrlhf) {
  sequences s;
  s.check(one_per_sequence{gspo_token}, "gspo");
  s.check(
      sequence_is{limited_log_ratio{ppo_clip{.low = 0.1, .high = 0.15}, -std::numeric_limits<double>::infinity(), 10}},
      "gspo");  // verl's limit
  s.check(gspo_token, "gspo_token");
  s.check(gspo_token, "luspo");
  s.check(one_per_sequence{sequence_is{sapo{}}}, "sapo_sequence");
  s.check(sequence_is{cispo{ratio_bound{.high = 1.02}}}, "cispo_sequence");
  s.check(geometric_mean_ratio{}, "gmpo");
  s.check(geometric_mean_ratio{.low = 0.1, .high = 0.3}, "gmpo_narrow");
  s.check(vespo{}, "vespo");
  s.check(corrected_vespo{}, "corrected_vespo");
}

TEST(sequence_is, slope_is_by_the_log_of_the_shown_ratio) {
  std::mt19937_64 random(6);
  for (int k = 0; k < 300; ++k) {
    const auto t = rlcore_test::random_token(random);
    check_slope(gspo_token, t, field::gathered);
    check_slope(sequence_is{sapo{}}, t, field::gathered);
    check_slope(sequence_is{limited_log_ratio{ppo_clip{}, -0.5, 0.5}}, t, field::gathered);
    check_slope(vespo{}, t);
    const auto r = at(sequence_is{cispo{}}, t);
    EXPECT_NEAR(r.slope, -std::min(std::exp(t.gathered), 5.0) * t.advantage, 1e-14 * std::abs(r.slope));
    EXPECT_EQ(r.value, r.slope * t.logp);
  }
}

TEST(gspo, reference_values) {  // three tokens with log-ratios .01, -.02, .03, A = 1
  token<double> t{};
  t.gathered = (0.01 - 0.02 + 0.03) / 3, t.advantage = 1;
  const auto r = at(sequence_is{ppo_clip{}}, t);
  EXPECT_NEAR(-r.value, 1.00668893835402, 1e-14);
  EXPECT_NEAR(r.slope / 3, -.33556297945134, 1e-14);
}

TEST(gspo, limits_the_exponent_as_verl_does) {
  token<double> t{};
  t.gathered = 12, t.advantage = -1;
  const sequence_is piece{limited_log_ratio{ppo_clip{.high = 1e9}, -std::numeric_limits<double>::infinity(), 10}};
  EXPECT_NEAR(at(piece, t).value, std::exp(10.0), 1e-9);
  EXPECT_EQ(at(piece, t).slope, 0);
  t.gathered = 10;
  EXPECT_EQ(at(piece, t).slope, std::exp(10.0));
}

TEST(clipped_log_ratio, slope_equals_the_derivative) {
  std::mt19937_64 random(7);
  for (int k = 0; k < 300; ++k) {
    const auto t = rlcore_test::random_token(random);
    check_slope(clipped_log_ratio{}, t);
    check_slope(limited_log_ratio_to_old{.limit = 0.7}, t);
    check_slope(corrected_log_ratio_to_old{}, t);
  }
}

// dL/dlogp of a token goes through its own share of the mean: d value/d gathered times the score's slope.
TEST(geometric_mean_ratio, slope_goes_through_the_clipped_score) {
  std::mt19937_64 random(8);
  const geometric_mean_ratio piece{.low = 0.3, .high = 0.5};
  for (int k = 0; k < 300; ++k) {
    const auto t = rlcore_test::random_token(random);
    token<dual> x{};
    x.logp = t.logp, x.old_logp = t.old_logp, x.advantage = t.advantage;
    x.gathered = dual(t.gathered, at(piece.score(), t).slope);
    const auto carried = piece.operator()<exact_math, dual>(x);
    EXPECT_NEAR(carried.value.d, at(piece, t).slope, 1e-12 * std::max(1.0, std::abs(carried.value.d)));
  }
}

TEST(vespo, is_1_on_policy_and_fades_on_both_sides) {
  token<double> t{};
  t.advantage = 1, t.logp = -2;
  EXPECT_EQ(at(vespo{}, t).slope, -1);
  t.gathered = 800;
  EXPECT_EQ(at(vespo{}, t).slope, 0);
  t.gathered = -800, t.advantage = -1;
  EXPECT_LT(at(vespo{}, t).slope, 1e-20);
  t.gathered = std::nan("");
  EXPECT_TRUE(std::isnan(at(vespo{}, t).slope));  // TRL: 0
}

TEST(corrected_vespo, gives_a_weight_of_zero_a_floor) {
  token<double> t{};
  EXPECT_NEAR(at(corrected_log_ratio_to_old{}, t).value, std::log(1e-8), 1e-14);
}

// verl-project/verl#2775, huggingface/trl#4557: a sequence's term under a token sum. What is meant once per sequence
// says so in its type, and keeps saying it under combinations; the loop refuses it with other aggregations.
static_assert(is_per_sequence<one_per_sequence<sequence_is<ppo_clip>>>);
static_assert(is_per_sequence<geometric_mean_ratio> && is_per_sequence<weighted<geometric_mean_ratio>>);
static_assert(!is_per_sequence<sequence_is<ppo_clip>>);

template <class Objective, class Aggregation>
std::pair<double, std::vector<double>> run(const Objective& objective, const Aggregation& aggregation) {
  sequences s;
  std::vector<double> logp, old_logp, advantage, gradient(s.tokens.size());
  std::vector<std::int64_t> offsets{0};
  for (const auto& t : s.tokens) logp.push_back(t.logp), old_logp.push_back(t.old_logp);
  for (const std::size_t n : s.lengths) {
    advantage.push_back(s.tokens[static_cast<std::size_t>(offsets.back())].advantage);
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(n));
  }
  token_batch<double> batch{.logp = logp, .old_logp = old_logp, .advantage = per_row(advantage)};
  batch.offsets = offsets;
  const double loss = evaluate(serial{}, objective, aggregation, batch, loss_counts(batch), {.logp = gradient}).loss();
  return {loss, gradient};
}

// A token's slope -A_t exp(mean) is not the gradient of the row's mean loss where A differs within the row. What has
// one term per sequence takes one advantage per row, in any combination; verl's GSPO is a term per token and takes any.
static_assert(per_row_fields_of<weighted<geometric_mean_ratio>>() == field::advantage);
static_assert(per_row_fields_of<one_per_sequence<sequence_is<sapo>>>() == field::advantage);
static_assert(per_row_fields_of<straight_through<policy_gradient, geometric_mean_ratio>>() == field::advantage);
static_assert(per_row_fields_of<sequence_is<ppo_clip>>() == field::none);

TEST(sequence_surrogates, of_one_term_take_one_advantage_per_row) {
  sequences s;
  std::vector<double> logp, old_logp, advantage;
  std::vector<std::int64_t> offsets{0};
  for (const auto& t : s.tokens)
    logp.push_back(t.logp), old_logp.push_back(t.old_logp), advantage.push_back(t.advantage);
  for (const std::size_t n : s.lengths) offsets.push_back(offsets.back() + static_cast<std::int64_t>(n));
  token_batch<double> batch{.logp = logp, .old_logp = old_logp, .advantage = advantage};
  batch.offsets = offsets;
  const auto loss = [&](const auto& piece) {
    return evaluate(serial{}, piece, sequence_mean_token_mean{}, batch, loss_counts(batch)).loss();
  };
  for (const auto& refused : std::initializer_list<std::function<double()>>{
           [&] { return loss(geometric_mean_ratio{}); }, [&] { return loss(one_per_sequence{gspo_token}); }}) {
    try {
      refused();
      ADD_FAILURE() << "took one advantage per token";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("needs one advantage per row"), std::string::npos) << e.what();
    }
  }
  EXPECT_TRUE(std::isfinite(loss(gspo_token)));
}

TEST(gspo, is_the_same_as_a_sequence_objective) {
  const auto tokens = run(one_per_sequence{gspo_token}, sequence_mean_token_mean{});
  const auto rows =
      run(sequence_objective{mean_of<log_ratio_to_old>{}, ppo_clip{.low = 0.1, .high = 0.15}}, sequence_mean{});
  EXPECT_NEAR(tokens.first, rows.first, 1e-14);
  for (std::size_t k = 0; k < rows.second.size(); ++k) EXPECT_NEAR(tokens.second[k], rows.second[k], 1e-15);
}

TEST(geometric_mean_ratio, is_gathered_with_its_own_widths) {
  sequences s;
  const auto got = run(geometric_mean_ratio{.low = 0.1, .high = 0.3}, sequence_mean_token_mean{});
  const auto& expected = s.data["cases"]["gmpo_narrow"];
  std::size_t k = 0;
  for (const std::size_t n : s.lengths)
    for (const std::size_t end = k + n; k < end; ++k)
      EXPECT_NEAR(got.second[k], expected["slope"][k].get<double>() / static_cast<double>(s.lengths.size() * n), 1e-14);
}

// huggingface/trl#6654: LUSPO on a (rows, tokens) loss let padding in. Here padding does not exist, and the sequence's
// term times its length is what a token sum makes of it.
TEST(luspo, is_the_token_form_under_a_token_sum) {
  sequences s;
  const auto got = run(gspo_token, sequence_mean_token_sum{});
  const auto& expected = s.data["cases"]["luspo"];
  double loss = 0;
  for (std::size_t k = 0; k < s.tokens.size(); ++k) {
    loss += expected["value"][k].get<double>() / static_cast<double>(s.lengths.size());
    EXPECT_NEAR(got.second[k], expected["slope"][k].get<double>() / static_cast<double>(s.lengths.size()), 1e-14);
  }
  EXPECT_NEAR(got.first, loss, 1e-12);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
