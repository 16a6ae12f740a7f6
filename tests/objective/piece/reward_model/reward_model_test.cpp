// Losses of reward models against TRL's and OpenRLHF's own, numbers of 60 digits, and dual numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "objective/piece/preference/check_pair.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/reward_model.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace rlcore_test;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json j = read_golden("preference.json");
  return j;
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

/// Mean over the golden pairs, with gradients by every score, against one case of a system.
template <class Link>
void check_system(const std::string& system, const std::string& name, const Link& link) {
  const auto& tokens = golden()["tokens"];
  const auto& want = golden().at(system).at(name);
  const std::size_t pairs = tokens["margin"].size();
  double loss = 0;
  for (std::size_t k = 0; k < pairs; ++k) {
    const auto got = judge(link, pair_of(tokens["score"][2 * k], tokens["score"][2 * k + 1], tokens["margin"][k]));
    loss += got.value / static_cast<double>(pairs);
    expect_close(got.slope_chosen / static_cast<double>(pairs), want["gradient"][2 * k], 1e-14, name);
    expect_close(got.slope_rejected / static_cast<double>(pairs), want["gradient"][2 * k + 1], 1e-14, name);
  }
  expect_close(loss, want["loss"], 1e-14, name);
}

TEST(reward_model_links, trl_and_openrlhf) {
  const bradley_terry plain{.beta = 1};
  check_system("trl", "reward", plain);
  check_system("trl", "reward_margin", bradley_terry_with_margin{});
  check_system("trl", "reward_centered", mixed{bradley_terry_with_margin{}, scaled{0.01, centering_link{}}});
  check_system("openrlhf", "pairwise", plain);
  check_system("openrlhf", "pairwise_margin", bradley_terry_with_margin{});
  check_system("openrlhf", "log_exp", plain);
}

// OpenRLHF's LogExpLoss is the same function written as log(1 + exp(x)): infinite from x = 88.7 on in float, with a NaN
// gradient, and it ignores the margin.
TEST(reward_model_links, log_exp_does_not_overflow) {
  const auto got = judge(bradley_terry{.beta = 1}, -500, 500);
  EXPECT_EQ(got.value, 1000);
  EXPECT_EQ(got.slope_chosen, -1);
  EXPECT_EQ(judge(bradley_terry_with_margin{}, pair_of(-500, 500, 2)).value, 1002);
}

TEST(reward_model_links, links_equal_numbers_of_60_digits) {
  check_pair_case(centering_link{}, "centering");
  check_row_case(squared_error_link{}, "squared_error");
  check_row_case(huber_link{.width = 1.5}, "huber");
  check_row_case(ordinal_link<4>({-2, -0.5, 1, 4}), "ordinal");
}
TEST(reward_model_links, slopes_are_derivatives) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  for (int k = 0; k < 300; ++k) {
    check_pair_slopes(bradley_terry_with_margin{}, 3 * normal(random), 3 * normal(random));
    check_pair_slopes(centering_link{}, 3 * normal(random), 3 * normal(random));
    token<double> row{};
    row.logp = 4 * normal(random), row.target = k % 3;
    check_slope(squared_error_link{}, row);
    check_slope(huber_link{}, row);
    check_slope(ordinal_link<2>({-0.3, 0.4}), row);
  }
}

TEST(huber_link, at_its_kink_and_with_nan) {
  token<double> row{};
  row.logp = 1.5, row.target = 0.5;
  EXPECT_EQ(at(huber_link{}, row).value, 0.5);
  EXPECT_EQ(at(huber_link{}, row).slope, 1);
  row.target = std::nan("");
  EXPECT_TRUE(std::isnan(at(huber_link{}, row).value) && std::isnan(at(huber_link{}, row).slope));
  EXPECT_TRUE(std::isnan(at(squared_error_link{}, row).value));
}

TEST(ordinal_link, probabilities_add_up_and_classes_are_checked) {
  const ordinal_link<3> link({-1, 0, 2.5});
  double total = 0, force = 0;
  token<double> row{};
  row.logp = 0.7;
  for (int k = 0; k < 4; ++k) {
    row.target = k;
    const auto got = at(link, row);
    total += std::exp(-got.value), force += std::exp(-got.value) * got.slope;
  }
  EXPECT_NEAR(total, 1, 1e-15);
  EXPECT_NEAR(force, 0, 1e-15);
  for (const double wrong : {-1.0, 4.0, 0.5, std::nan("")}) {
    row.target = wrong;
    EXPECT_TRUE(std::isnan(at(link, row).value) && std::isnan(at(link, row).slope));
  }
  EXPECT_THAT(message_of([] { ordinal_link<2>({1, 1}); }), testing::HasSubstr("ascend"));
}

TEST(plackett_luce, equals_numbers_of_60_digits) {
  const auto& rankings = golden()["rankings"];
  for (const std::size_t places : {0u, 1u, 2u}) {
    const auto& one = rankings["cases"][std::to_string(places)];
    for (std::size_t k = 0; k < rankings["scores"].size(); ++k) {
      const auto scores = rankings["scores"][k].get<std::vector<double>>();
      std::vector<double> slope(scores.size());
      expect_close(plackett_luce(scores, slope, places), one["value"][k], 1e-13, "value");
      for (std::size_t j = 0; j < slope.size(); ++j) expect_close(slope[j], one["slope"][k][j], 1e-13, "slope");
    }
  }
}
TEST(plackett_luce, of_two_is_bradley_terry) {
  for (const auto& [c, r] : {std::pair{1.5, -0.5}, {-40.0, 2.0}, {700.0, -700.0}}) {
    std::vector<token<double>> rows(4);
    rows[0].logp = c, rows[1].logp = r, rows[2].logp = r, rows[3].logp = c;
    std::vector<double> slope(4);
    const double value =
        plackett_luce_link{.beta = 0.1}(std::span<const token<double>>(rows), std::span<double>(slope));
    const auto a = judge(bradley_terry{}, c, r), b = judge(bradley_terry{}, r, c);
    EXPECT_DOUBLE_EQ(value, (a.value + b.value) / 2);
    EXPECT_NEAR(slope[0], a.slope_chosen / 2, 1e-16);
    EXPECT_NEAR(slope[3], b.slope_rejected / 2, 1e-16);
  }
  std::vector<token<double>> rows(5);
  std::vector<double> slope(5);
  EXPECT_THAT(message_of([&] { plackett_luce_link{}(std::span<const token<double>>(rows), std::span<double>(slope)); }),
              testing::HasSubstr("5 rows do not divide into rankings of 2"));
}
TEST(plackett_luce, nothing_to_rank) {
  std::vector<double> one{3}, slope{-7};
  EXPECT_EQ(plackett_luce(one, slope), 0);
  EXPECT_EQ(slope[0], 0);
  EXPECT_EQ(plackett_luce({}, {}), 0);
}

TEST(reward_scale, is_openrlhfs_mean_and_deviation) {
  const auto scale = reward_scale::of(std::vector{1.0, 0.0, 0.0, 1.0, 1.0});
  EXPECT_NEAR(scale.mean, 0.6, 1e-16);
  EXPECT_NEAR(scale.deviation, 0.547722557505166, 1e-15);
  EXPECT_NEAR(scale(1), 0.4 / 0.547722557505166, 1e-15);
  EXPECT_EQ(reward_scale::of(std::vector{2.0f, 2.0f}).deviation, 1e-8);
  EXPECT_EQ(reward_scale{}(0.25), 0.25);
  EXPECT_THAT(message_of([] { reward_scale::of(std::vector{1.0}); }), testing::HasSubstr("at least two"));
  EXPECT_THAT(message_of([] { reward_scale::of(std::vector{1.0, std::nan("")}); }), testing::HasSubstr("score 1"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
