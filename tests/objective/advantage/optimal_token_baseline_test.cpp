#include "rlcore/objective/advantage/optimal_token_baseline.hpp"

#include "objective/advantage/golden_advantage.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

// verl-project/verl#4678, #5380, #5615: the estimator could not be run as shipped; every setting is compared here
TEST(optimal_token_baseline, is_verls) {
  const auto& all = advantages_of_systems()["optimal_token_baseline"];
  const auto groups = integers(all["groups"]);
  struct form {
    const char *name, *mask;
    token_alignment align;
  };
  for (const auto& [form_name, mask_name, align] : {form{"position_", "prefix", token_alignment::position},
                                                    {"position_holes_", "holes", token_alignment::position},
                                                    {"action_", "holes", token_alignment::action}})
    for (const bool tail : {false, true})
      for (const bool weighted : {false, true}) {
        const std::string name =
            std::string(form_name) + (tail ? "zero_tail" : "keep_tail") + (weighted ? "_weighted" : "");
        SCOPED_TRACE(name);
        golden_matrix reward(all["rewards"]), logp(all["old_logp"]), squares(all["sum_squared_probs"]),
            weight(all["weight"]), mask(all[mask_name]), out(6, 9);
        for (std::size_t k = 0; k < mask.values.size(); ++k)
          if (mask.values[k] == 0)
            reward.values[k] = logp.values[k] = squares.values[k] = weight.values[k] = std::nan("");
        const optimal_token_baseline how{.align = align, .zero_tail = tail};
        optimal_token_inputs<double> in{reward.view(), logp.view(), squares.view(), {}, mask.view()};
        if (weighted) in.weight = weight.view();
        how(in, groups, out.view());
        // Where one row is left alone, verl divides by its own path plus 1e-8 and we have 0.
        expect_near(out.values, all["cases"][name], 1e-6);
      }
}
TEST(optimal_token_baseline, of_equal_returns_is_zero_and_unscored_rows_do_not_count) {
  const double nan = std::nan("");
  std::vector<double> logp(8, -0.5), squares(8, 0.4), out(8, -9);
  const auto run = [&](const std::vector<double>& reward, optimal_token_baseline how = {}) {
    const optimal_token_inputs<double> in{matrix(reward, 4, 2), matrix(logp, 4, 2), matrix(squares, 4, 2)};
    how(in, 4, matrix(out, 4, 2));
    return out;
  };
  EXPECT_EQ(run({0, .1, 0, .1, 0, .1, 0, .1}), std::vector<double>(8, 0.0));
  const auto three = run({0, 1, 0, 0, nan, nan, 0, 3});
  EXPECT_NEAR(three[0], 1 - 4.0 / 3, 1e-7);  // equal weights: the mean of the scored rows
  EXPECT_EQ(three[4], 0);
  EXPECT_EQ(three[5], 0);
  EXPECT_EQ(run({0, 1, nan, 0, nan, 1, nan, 3})[0], 1);  // alone: its return, or 0
  EXPECT_EQ(run({0, 1, nan, 0, nan, 1, nan, 3}, {.singleton = singleton_group::zero})[0], 0);
  EXPECT_EQ(run({0, 1, nan, 0, nan, 1, nan, 3}, {.zero_tail = false})[0], 1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
