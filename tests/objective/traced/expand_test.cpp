#include "rlcore/objective/traced/trace.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/piece/slope_check.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/source.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

bool has_few(const traced_program&, const traced_step& s) {
  switch (s.what) {
    case operation::equal:
    case operation::logical_or:
    case operation::min:
    case operation::max:
    case operation::clamp:
    case operation::abs:
    case operation::sign:
    case operation::expm1:
    case operation::log1p:
    case operation::excess:
    case operation::sigmoid:
    case operation::softplus:
      return false;
    default:
      return true;
  }
}

traced_program of_one(const traced& value) {
  program_writer writer;
  writer.result("value", value);
  return writer.finish();
}

TEST(expanded, programs_have_the_values_of_the_vocabulary) {
  using math = traced_math;
  const traced x = traced::field_value(field::logp, 0), y = traced::field_value(field::old_logp, 0);
  const std::vector<traced> all = {math::select(x == y, x, y),
                                   math::select(math::any(x < y, y < -x), x, y),
                                   math::min(x, y),
                                   math::max(x, y),
                                   math::clamp(x, y, 1),
                                   math::abs(x),
                                   math::sign(x),
                                   math::expm1(x),
                                   math::log1p(x),
                                   math::excess(x),
                                   math::sigmoid(x),
                                   math::softplus(x)};
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> points = {0,    -0.0, 1e-12, -1e-9, 1e-4, -0.3, 0.49,     0.5,       0.51,        -0.5,
                                -0.7, 1,    2.5,   -8,    20,   80,   infinity, -infinity, std::nan("")};
  for (const traced& value : all) {
    const traced_program exact = of_one(value), few = expanded(exact, has_few);
    for (const traced_step& s : few.steps) EXPECT_TRUE(has_few(few, s)) << explain(few);
    for (const double a : points)
      for (const double b : points) {
        token<double> t{};
        t.logp = a, t.old_logp = b;
        const double want = run(exact, t)[0], got = run(few, t)[0];
        if (std::isnan(want) || std::isinf(want))
          EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << a << " " << b << "\n" << explain(few);
        else  // the polynomials are those of floats
          EXPECT_LE(std::abs(got - want), 3e-7 * std::abs(want) + 1e-300) << a << " " << b << "\n" << explain(few);
      }
  }
}

/// The writer outlives the expressions of the first piece, whose addresses those of the second may get.
TEST(objective_program, keeps_pieces_apart_and_shares_what_they_share) {
  const auto grpo = paper::grpo({.kl = 0.04}).objective;
  const traced_program whole = trace_objective(grpo);
  const traced_program policy = trace(piece_at<0>(grpo)), kl = trace(piece_at<1>(grpo));
  ASSERT_EQ(whole.results.size(), 4u);
  EXPECT_EQ(whole.results[2].name, "kl");
  EXPECT_EQ(whole.results[3].name, "logp");
  for (std::uint32_t i = 0; i < 50; ++i) {
    const token<double> t = random_token(i);
    const auto w = run(whole, t), p = run(policy, t), k = run(kl, t);
    EXPECT_EQ(w[0], p[0]);
    EXPECT_EQ(w[1], p[2]);
    EXPECT_EQ(w[2], k[0]);
    EXPECT_DOUBLE_EQ(w[3], p[1] + 0.04 * k[1]);
  }
  EXPECT_LE(whole.operations(), policy.operations() + kl.operations() + 2);
}

TEST(host_program_executor, gives_zero_where_a_slot_does_not_count) {
  const traced_program program = trace_objective(paper::dapo().objective);
  const double nan = std::nan("");
  const std::vector<double> logp = {-1, nan, -0.5, -2}, old_logp = {-1.5, -1, nan, -2.5}, advantage = {2, -1},
                            live = {1, 0, 0, 1};
  std::vector<std::vector<double>> out(program.results.size(), std::vector<double>(4, nan));
  std::vector<double*> results;
  for (auto& r : out) results.push_back(r.data());
  results[1] = nullptr;  // not wanted
  program_arrays<double> arrays;
  arrays.rows = arrays.width = 2;
  arrays.input[0][0] = {logp.data(), 2, 1}, arrays.input[0][1] = {old_logp.data(), 2, 1};
  arrays.input[0][4] = {advantage.data(), 1, 0}, arrays.live = {live.data(), 2, 1}, arrays.results = results;
  host_program_executor{}.run_program(program, arrays);
  for (const std::size_t slot : {0u, 3u}) {
    token<double> t{};
    t.logp = logp[slot], t.old_logp = old_logp[slot], t.advantage = advantage[slot / 2];
    EXPECT_EQ(out[0][slot], run(program, t)[0]);
    EXPECT_EQ(out.back()[slot], run(program, t).back());
  }
  for (const std::size_t slot : {1u, 2u}) EXPECT_EQ(out[0][slot], 0);
  EXPECT_TRUE(std::isnan(out[1][0]));
  arrays.input[0][1] = {};
  EXPECT_THROW(host_program_executor{}.run_program(program, arrays), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
