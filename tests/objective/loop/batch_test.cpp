// Inputs that do not fit together are refused with both shapes; containers of other libraries are read in place.
#include "rlcore/objective/loop/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "objective/golden.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#if __has_include(<Eigen/Core>)
#include "rlcore/tensor/eigen.hpp"
#endif
#if __has_include(<xtensor/xtensor.hpp>) || __has_include(<xtensor/containers/xtensor.hpp>)
#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xtensor.hpp>
#endif
#include "rlcore/tensor/xtensor.hpp"
#define RLCORE_TEST_XTENSOR
#endif

namespace RLCORE_TEST_ID {

using namespace rlcore;
using testing::HasSubstr;

namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

template <class Objective>
std::string refusal_of(golden_batch<float>&, const token_batch<float>& b, const Objective& o,
                       token_gradients<float> out = {}) {
  global_counts many = global_counts::reduced(1000000, 1000, 1000, 1000);
  return refusal([&] { evaluate(serial{}, o, token_mean{}, b, many, out); });
}

TEST(token_batch, names_the_field_that_is_missing) {
  golden_batch<float> g;
  auto b = g.batch();
  b.ref_logp = {};
  EXPECT_THAT(refusal_of(g, b, paper::grpo()), HasSubstr("the objective reads ref_logp, but the batch has none"));
  EXPECT_EQ(refusal_of(g, b, ppo_clip{}), "accepted");  // what no piece reads is not needed
}
TEST(token_batch, names_both_shapes) {
  golden_batch<float> g;
  auto b = g.batch();
  b.old_logp = matrix_view<float>(g.old_logp.data(), {6, 36}, {37, 1});
  EXPECT_THAT(refusal_of(g, b, paper::grpo()), HasSubstr("old_logp is [6, 36], logp is [6, 37]"));
  b = g.batch();
  std::vector<float> five(5);
  b.advantage = five;
  EXPECT_THAT(refusal_of(g, b, paper::grpo()), HasSubstr("advantage is [5], logp is [6, 37]"));
  b = g.batch();
  b.mask = matrix_view<std::uint8_t>(g.mask.data(), {5, 37});
  EXPECT_THAT(refusal_of(g, b, paper::grpo()), HasSubstr("mask is [5, 37], logp is [6, 37]"));
  b = g.batch();
  const std::vector<int> lengths{1, 2, 3, 4, 5, 38};
  b.lengths = lengths;
  EXPECT_THAT(refusal_of(g, b, paper::grpo()), HasSubstr("lengths[5] = 38 is not in 0 ... 37"));
}
TEST(token_gradients, must_have_the_shape_and_the_fields_of_the_objective) {
  golden_batch<float> g;
  EXPECT_THAT(refusal_of(g, g.batch(), paper::grpo(), {.logp = matrix_view<float>(g.logp_gradient.data(), {37, 6})}),
              HasSubstr("the gradient by logp is [37, 6], logp is [6, 37]"));
  EXPECT_THAT(
      refusal_of(g, g.batch(), sum{paper::grpo().objective, entropy_bonus(0.1)}, {.logp = g.matrix(g.logp_gradient)}),
      HasSubstr("gradient by entropy, but there is nowhere to write it; set token_gradients::entropy"));
  EXPECT_THAT(refusal_of(g, g.batch(), sum{paper::grpo().objective, entropy_bonus(0.1)},
                         {.logp = g.matrix(g.logp_gradient), .entropy = g.matrix(g.logp_gradient)}),
              HasSubstr("token_gradients::logp and entropy are one array; each needs its own"));
}
TEST(packed_rows, must_be_described_by_their_offsets) {
  golden_batch<float> g;
  std::vector<int> offsets{0, 100, 222};
  std::vector<float> advantage{1, 2};
  token_batch<float> b{.logp = g.logp, .old_logp = g.old_logp, .advantage = per_row(advantage), .offsets = offsets};
  EXPECT_EQ(refusal_of(g, b, ppo_clip{}), "accepted");
  b.advantage = advantage;
  EXPECT_THAT(refusal_of(g, b, ppo_clip{}), HasSubstr("wrap one value per row in per_row()"));
  b.advantage = per_row(advantage);
  offsets[2] = 221;
  EXPECT_THAT(refusal_of(g, b, ppo_clip{}), HasSubstr("logp is [222], the offsets describe 2 rows of 221 tokens"));
  offsets[2] = 99;
  EXPECT_THAT(refusal_of(g, b, ppo_clip{}), HasSubstr("offsets must not decrease"));
}
TEST(global_counts, of_a_part_are_recognised) {
  golden_batch<float> g;
  global_counts counts;
  counts.add_row(3);
  EXPECT_THAT(
      refusal([&] { evaluate(serial{}, paper::grpo(), token_mean{}, g.batch(), counts); }),
      HasSubstr("the counts of the step say 3 tokens in 1 sequences of 1 rows, but this batch alone has 89 tokens"));
}

#if __has_include(<Eigen/Core>)
template <int Order>
void check_eigen() {
  golden_batch<float> g;
  const auto want = evaluate(serial{}, paper::grpo(), token_mean{}, g.batch(), loss_counts(g.batch()), g.gradients());
  using array = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Order>;
  using rows = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto of = [&](std::vector<float>& x) { return array(Eigen::Map<const rows>(x.data(), 6, 37)); };
  array logp = of(g.logp), old_logp = of(g.old_logp), ref_logp = of(g.ref_logp), gradient(8, 40);
  Eigen::VectorXf advantage = Eigen::Map<Eigen::VectorXf>(g.advantage.data(), 6);
  const Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic> mask =
      Eigen::Map<Eigen::Array<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(g.mask.data(), 6, 37)
          .cast<bool>();
  auto block = gradient.block(1, 2, 6, 37);
  const token_batch<float> b{
      .logp = logp, .old_logp = old_logp, .ref_logp = ref_logp, .advantage = advantage, .mask = mask};
  const auto got = evaluate(serial{}, paper::grpo(), token_mean{}, b, loss_counts(b), {.logp = block});
  EXPECT_EQ(got.loss(), want.loss());
  for (int i = 0; i < 6; ++i)
    for (int t = 0; t < 37; ++t) EXPECT_EQ(block(i, t), g.logp_gradient[static_cast<std::size_t>(i * 37 + t)]);
}
TEST(eigen, both_storage_orders_and_blocks_give_the_same_bits) {
  check_eigen<Eigen::RowMajor>();
  check_eigen<Eigen::ColMajor>();
}
#endif

#ifdef RLCORE_TEST_XTENSOR
TEST(xtensor, gives_the_same_bits) {
  golden_batch<float> g;
  const auto want = evaluate(serial{}, paper::grpo(), token_mean{}, g.batch(), loss_counts(g.batch()), g.gradients());
  const auto of = [](const std::vector<float>& x) {
    xt::xtensor<float, 2> y({6, 37});
    std::copy(x.begin(), x.end(), y.data());
    return y;
  };
  auto logp = of(g.logp), old_logp = of(g.old_logp), ref_logp = of(g.ref_logp), gradient = of(g.logp);
  xt::xtensor<std::uint8_t, 2> mask({6, 37});
  std::copy(g.mask.begin(), g.mask.end(), mask.data());
  const token_batch<float> b{
      .logp = logp, .old_logp = old_logp, .ref_logp = ref_logp, .advantage = g.advantage, .mask = mask};
  const auto got = evaluate(serial{}, paper::grpo(), token_mean{}, b, loss_counts(b), {.logp = gradient});
  EXPECT_EQ(got.loss(), want.loss());
  EXPECT_EQ(std::memcmp(gradient.data(), g.logp_gradient.data(), g.logp_gradient.size() * sizeof(float)), 0);
}
#endif

}  // namespace
}  // namespace RLCORE_TEST_ID
