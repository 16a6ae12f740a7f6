// Slopes that are 0 where the advantage is: what the operations of a program say, against running it.
#include "rlcore/objective/traced/trace.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/traced/run.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// Whether the slope by logp is said to vanish with `f`; if so, it has to at tokens of every kind.
template <class Objective>
bool slope_vanishes(const Objective& objective, field f) {
  const traced_program p = trace_objective(objective);
  std::size_t slope = 0;
  while (p.results[slope].name != "logp") ++slope;
  const bool said = steps_that_vanish(p, f)[p.results[slope].step];
  for (std::uint32_t i = 0; said && i < 1000; ++i) {
    token<double> t;
    for (std::size_t k = 0; k < field_count; ++k)
      t.*field_member<double>[k] = field_at(k) == f ? 0 : 3 * random_key{7}.normal(i, static_cast<std::uint32_t>(k));
    EXPECT_EQ(run(p, t)[slope], 0) << i;
  }
  return said;
}

TEST(vanishing_steps, are_the_slopes_of_policy_gradients_without_advantage) {
  EXPECT_TRUE(slope_vanishes(paper::dapo().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(paper::gspo().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(paper::cispo().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(paper::reinforce_plus_plus().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(verl::grpo().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(verl::gpg().objective, field::advantage));
  EXPECT_TRUE(slope_vanishes(verl::sapo().objective, field::advantage));
}

TEST(vanishing_steps, are_not_those_that_something_else_moves) {
  EXPECT_FALSE(slope_vanishes(paper::grpo().objective, field::advantage)) << "its KL";
  EXPECT_FALSE(slope_vanishes(paper::dapo().objective, field::logp));
  EXPECT_FALSE(slope_vanishes(paper::dapo().objective, field::old_logp));
  EXPECT_FALSE(slope_vanishes(verl::dro(0.5).objective, field::advantage)) << "its squared log-ratio";
}

TEST(vanishing_steps, follow_the_rules_of_arithmetic) {
  const traced x = traced::field_value(field::advantage, 0), y = traced::field_value(field::logp, 0);
  const auto vanishes = [](const traced& value) {
    program_writer writer;
    writer.result("value", value);
    const traced_program p = writer.finish();
    return static_cast<bool>(steps_that_vanish(p, field::advantage)[p.results[0].step]);
  };
  using math = traced_math;
  for (const traced& zero : {x * y, -x, x - x * y, math::min(x, x * y), math::select(y < traced(1), x, x * y),
                             math::sqrt(math::abs(x)), math::expm1(x), math::log1p(x), x / traced(3)})
    EXPECT_TRUE(vanishes(zero));
  for (const traced& other : {x + y, y - x, math::max(x, y), math::select(x < y, x, y), math::exp(x), x / y,
                              y / traced(3), math::sigmoid(x), math::softplus(x)})
    EXPECT_FALSE(vanishes(other));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
