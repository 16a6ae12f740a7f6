// verl-project/verl#211, #451, #509, hiyouga/EasyR1#45: in the reward, in the loss, or in both? Here in one place.
#include "rlcore/objective/piece/divergence/kl_placement.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/divergence/with_kl_gradient.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

using namespace rlcore;

namespace {

template <kl_placement Placement>
struct bundle {  // what holds one placement has one
  Placement kl;
};

TEST(kl_placement, is_one_place) {
  static_assert(kl_placement<no_kl> && kl_placement<kl_in_reward> && kl_placement<kl_in_loss<k3>>);
  static_assert(kl_placement<divergence_in_reward<k3>>);
  static_assert(!kl_placement<k3> && !kl_placement<scaled<k3>>);
  [[maybe_unused]] const bundle<kl_in_reward> one{{.coefficient = 0.1}};
}

TEST(kl_placement, only_the_loss_changes_the_objective) {
  static_assert(std::is_same_v<decltype(with_kl(clipped_ratio{}, no_kl{})), clipped_ratio>);
  static_assert(std::is_same_v<decltype(with_kl(clipped_ratio{}, kl_in_reward{})), clipped_ratio>);
  static_assert(std::is_same_v<decltype(with_kl(clipped_ratio{}, divergence_in_reward{k1{}})), clipped_ratio>);
  const auto objective = with_kl(clipped_ratio{.high = 0.28}, kl_in_loss{0.04, k3{}});
  EXPECT_EQ(piece_count<decltype(objective)>, 2u);
  EXPECT_EQ(piece_at<0>(objective).high, 0.28);
  EXPECT_EQ((piece_type<1, std::remove_const_t<decltype(objective)>>::name), "kl");
  EXPECT_EQ(coefficient_at<1>(objective), 0.04);
  const auto same = with_kl(objective, no_kl{});
  EXPECT_EQ(coefficient_at<1>(same), 0.04);
}

TEST(kl_placement, k1_in_the_loss_needs_another_gradient) {
  const auto objective = with_kl(clipped_ratio{}, kl_in_loss{0.1, with_kl_gradient(k1{})});
  EXPECT_EQ(coefficient_at<1>(objective), 0.1);
}

}  // namespace
