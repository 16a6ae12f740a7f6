// Surrogates of single tokens against the systems' own functions, against dual numbers, and at their edges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "objective/golden_case.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"
#include "rlcore/simd/math.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::at, rlcore_test::check_case, rlcore_test::check_slope;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const nlohmann::json& reference() {
  static const nlohmann::json data = rlcore_test::read_golden("surrogate.json");
  return data;
}

struct golden_set {
  explicit golden_set(const nlohmann::json& j) : data(j), tokens(rlcore_test::golden_tokens(j.at("fields"))) {}
  template <class P>
  void check(const P& piece, const char* name) const {
    SCOPED_TRACE(name);
    check_case(piece, tokens, data.at("cases").at(name));
  }
  const nlohmann::json& data;
  std::vector<token<double>> tokens;
};

/// The sum of two terms of which the second is scaled, as `sum` and `scaled` make it.
template <class First, class Second>
struct added {
  static constexpr field reads = First::reads | Second::reads;
  static constexpr std::string_view name = "added";
  First first;
  double scale;
  Second second;
  template <class Math, class V>
  term<V> operator()(const token<V>& t) const noexcept {
    const auto a = first.template operator()<Math, V>(t);
    const auto b = second.template operator()<Math, V>(t);
    return {a.value + V(scale) * b.value, a.slope + V(scale) * b.slope};
  }
};
template <class First, class Second>
added(First, double, Second) -> added<First, Second>;

token<double> of(double logp, double old_logp, double advantage) {
  token<double> t{};
  t.logp = logp, t.old_logp = old_logp, t.advantage = advantage, t.weight = 1;
  return t;
}

void check_all(const golden_set& set) {
  set.check(ppo_clip{}, "clipped");
  set.check(limited_log_ratio{ppo_clip{}}, "clipped_limited");
  set.check(two_sided_clip{.low = 0.2, .high = 0.28, .bound = 4}, "two_sided_4");
  set.check(two_sided_clip{.low = 0.2, .high = 0.28, .bound = 1.1}, "two_sided_1_1");
  set.check(importance_ratio{}, "importance_ratio");
  set.check(policy_gradient{}, "policy_gradient");
  set.check(sapo{}, "sapo");
  set.check(limited_log_ratio{sapo{}}, "sapo_limited");
  set.check(cispo{}, "cispo_bound_5");
  set.check(cispo{ratio_bound{.high = 0.28}}, "cispo_bound_0_28");
  set.check(limited_log_ratio{cispo{ratio_epsilon{.high = 0.28, .low = 0.2}}}, "cispo_epsilon_0_28");
  set.check(added{policy_gradient{}, 0.3, against_old{k2{}}}, "dro_0_3");
  set.check(dppo_tv{.low = 0.05, .high = 0.1, .bound = 3}, "dppo_tv");
  set.check(dppo_kl{.low = 0.05, .high = 0.1, .bound = 3}, "dppo_kl");
}

TEST(token_surrogates, are_those_of_verl_trl_liger_and_openrlhf) {
  const golden_set set(reference()["tokens"]);
  check_all(set);
  set.check(weighted{policy_gradient{}}, "reinforce_weighted");
}

TEST(token_surrogates, are_theirs_also_where_log_ratios_exceed_20) { check_all(golden_set(reference()["beyond"])); }

TEST(token_surrogates, act_on_selected_tokens) {
  const auto& selected = reference()["selected"];
  golden_set(selected["clip_cov"]).check(except_selected{ppo_clip{}}, "clip_cov");
  golden_set(selected["kl_cov"]).check(added{importance_ratio{}, 0.7, token_filter{against_old{abs_kl{}}}}, "kl_cov");
  golden_set(selected["masked"]).check(token_filter{ppo_clip{}}, "masked");
}

template <class P>
class token_surrogate_slopes : public testing::Test {};
using differentiable =
    testing::Types<importance_ratio, two_sided_clip, sapo, limited_log_ratio<ppo_clip>, limited_log_ratio<sapo>,
                   limited_log_ratio<importance_ratio>, against_old<k2>, token_filter<ppo_clip>, except_selected<sapo>>;
TYPED_TEST_SUITE(token_surrogate_slopes, differentiable);

template <class P>
P make() {
  if constexpr (std::is_default_constructible_v<P>)
    return P{};
  else
    return P(decltype(P::piece){});
}

TYPED_TEST(token_surrogate_slopes, equal_the_derivative_of_the_value) {
  const auto piece = make<TypeParam>();
  std::mt19937_64 random(3);
  for (int k = 0; k < 500; ++k) check_slope(piece, rlcore_test::random_token(random));
  for (const double x : {0.0, 1e-9, 0.18, 0.19, -0.22, -0.23, 1.38, 1.39, 5.0, 19.9, 20.1, -19.9, -20.1, 50.0, -800.0})
    for (const double a : {-2.0, 0.0, 1.0}) check_slope(piece, of(-1, -1 - x, a));
}

// The coefficient of a surrogate with a constant ratio is a constant: only logp itself is differentiated.
TEST(token_surrogates, with_a_constant_ratio_are_linear_in_logp) {
  std::mt19937_64 random(4);
  for (int k = 0; k < 200; ++k) {
    const auto t = rlcore_test::random_token(random);
    const auto check = [&](const auto& piece) {
      const auto r = at(piece, t);
      EXPECT_DOUBLE_EQ(r.value, r.slope * t.logp) << piece.name;
    };
    check(cispo{}), check(dppo_tv{}), check(dppo_kl{}), check(limited_log_ratio{cispo{}});
  }
}

TEST(sapo, reference_values) {
  const double up = std::log(1.3), down = std::log(0.7);
  EXPECT_NEAR(at(sapo{}, of(up, 0, 1)).value, -2.29777006724664, 1e-14);
  EXPECT_NEAR(at(sapo{}, of(up, 0, 1)).slope, -1.27118322079188, 1e-14);
  EXPECT_NEAR(at(sapo{}, of(down, 0, -1)).value, 1.60721816044073, 1e-14);
  EXPECT_NEAR(at(sapo{}, of(down, 0, -1)).slope, .682918803269046, 1e-14);
}

TEST(sapo, has_no_slope_where_the_ratio_overflows) {
  const auto r = at(sapo{}, of(0, -800, 1));  // autograd: 0 * infinity
  EXPECT_EQ(r.value, -4);
  EXPECT_EQ(r.slope, 0);
  EXPECT_EQ(at(sapo{}, of(-800, 0, -1)).slope, 0);
}

// tinker-cookbook#763, SkyRL#1928, SkyRL#553, Liger-Kernel#1054, slime#1611, slime#2067, open-instruct#1264: one number
// read in two ways. Here 0.28 cannot be passed without saying which (a bare number does not compile).
TEST(cispo, tells_bounds_from_distances) {
  const auto t = of(0, -1, 1);
  EXPECT_EQ(at(cispo{ratio_bound{.high = 0.28}}, t).slope, -0.28);
  EXPECT_EQ(at(cispo{ratio_epsilon{.high = 0.28}}, t).slope, -1.28);
  EXPECT_EQ(at(cispo{}, of(0, -3, 1)).slope, -5.0);
  static_assert(!std::is_convertible_v<ratio_bound, ratio_epsilon> &&
                !std::is_convertible_v<ratio_epsilon, ratio_bound>);
}
// slime#2067, open-instruct#1264: a lower bound keeps the coefficient up for tokens that the policy has left.
TEST(cispo, has_no_lower_bound_by_default) {
  const auto t = of(-9, 0, -1);
  EXPECT_EQ(at(cispo{}, t).slope, std::exp(-9.0));
  EXPECT_EQ(at(cispo{ratio_epsilon{.high = 0.28}}, t).slope, std::exp(-9.0));
  EXPECT_EQ(at(cispo{ratio_bound{.high = 5, .low = 0.8}}, t).slope, 0.8);
  EXPECT_EQ(at(cispo{}, t).monitor[0], 0);
}

TEST(two_sided_clip, is_dual_clip_for_negative_advantages) {
  const two_sided_clip piece{.bound = 3};
  EXPECT_EQ(at(piece, of(0, -2, -1)).value, 3);
  EXPECT_EQ(at(piece, of(0, -2, -1)).slope, 0);
  EXPECT_EQ(at(piece, of(0, -2, -1)).monitor[1], 1);
  EXPECT_EQ(at(piece, of(0, -2, 1)).value, -1.2);
  EXPECT_EQ(at(piece, of(0, -2, 1)).monitor[0], 1);
  EXPECT_EQ(at(piece, of(0, -900, -1)).value, 3);  // also for an infinite ratio
}

TEST(limited_log_ratio, changes_no_bit_within_its_limits) {
  std::mt19937_64 random(5);
  for (int k = 0; k < 200; ++k) {
    const auto t = rlcore_test::random_token(random);
    const auto free = at(ppo_clip{.low = 0.9, .high = 9}, t);
    const auto held = at(limited_log_ratio{ppo_clip{.low = 0.9, .high = 9}, -8, 8}, t);
    EXPECT_EQ(free.value, held.value);
    EXPECT_EQ(free.slope, held.slope);
  }
}
TEST(limited_log_ratio, includes_its_limits) {
  const limited_log_ratio piece{importance_ratio{}};
  EXPECT_EQ(at(piece, of(0, -20, 1)).slope, -std::exp(20.0));
  EXPECT_EQ(at(piece, of(-20, 0, 1)).slope, -std::exp(-20.0));
  EXPECT_EQ(at(piece, of(0, -20.5, 1)).slope, 0);
  EXPECT_EQ(at(piece, of(0, -20.5, 1)).value, -std::exp(20.0));
  EXPECT_EQ(at(limited_log_ratio{importance_ratio{}, -infinity, 10}, of(-60, 0, 1)).slope, -std::exp(-60.0));
  EXPECT_EQ(at(limited_log_ratio{cispo{}}, of(0, -30, 1)).slope, -5);  // a constant ratio loses no gradient
}

// The values and gradients that torch gives for max(-A r, -A clip(r)) with r = exp(clamp(x, -20, 20)) of an infinite x.
TEST(limited_log_ratio, holds_infinite_log_ratios) {
  const double low = std::exp(-20.0);
  for (const double logp : {-1.0, -infinity}) {
    const double old_logp = std::isinf(logp) ? -1.0 : -infinity;
    const bool up = logp > old_logp;
    const auto check = [&](const auto& piece, double advantage, double value) {
      const auto r = at(piece, of(logp, old_logp, advantage));
      EXPECT_EQ(r.value, value) << piece.name << " " << logp << " " << old_logp << " " << advantage;
      EXPECT_EQ(r.slope, 0);
    };
    check(limited_log_ratio{ppo_clip{}}, 1, up ? -1.2 : -low);
    check(limited_log_ratio{ppo_clip{}}, -1, up ? std::exp(20.0) : 0.8);
    check(dual_clip{}, 1, up ? -1.2 : -low);
    check(dual_clip{}, -1, up ? 3.0 : 0.8);
    check(limited_log_ratio{importance_ratio{}}, 1, up ? -std::exp(20.0) : -low);
    EXPECT_TRUE(std::isfinite(at(limited_log_ratio{sapo{}}, of(logp, old_logp, -1)).value));
    token<pack<float>> lanes{};
    lanes.logp = pack<float>(static_cast<float>(logp)), lanes.old_logp = pack<float>(static_cast<float>(old_logp));
    lanes.advantage = pack<float>(-1);
    const auto packed = limited_log_ratio{ppo_clip{}}.operator()<fast_math, pack<float>>(lanes);
    EXPECT_NEAR(packed.value.v[0], up ? std::exp(20.0f) : 0.8f, up ? 100 : 1e-7);
    EXPECT_EQ(packed.slope.v[0], 0);
  }
  EXPECT_EQ(at(limited_log_ratio{cispo{}}, of(-1, -infinity, 1)).slope, -5);
}

TEST(token_filter, leaves_nothing_of_the_others) {
  auto t = of(0, -900, 1);
  EXPECT_EQ(at(token_filter{importance_ratio{}}, t).value, 0);  // TRL: infinity * 0
  EXPECT_EQ(at(token_filter{importance_ratio{}}, t).slope, 0);
  EXPECT_EQ(at(except_selected{importance_ratio{}}, t).value, -infinity);
  t.selected = 1;
  EXPECT_EQ(at(token_filter{importance_ratio{}}, t).value, -infinity);
  EXPECT_EQ(at(except_selected{importance_ratio{}}, t).slope, 0);
  static_assert(token_filter<cispo>::stops_gradient && !token_filter<sapo>::stops_gradient);
  static_assert(contains(token_filter<sapo>::reads, field::selected));
}

TEST(against_old, takes_the_old_policy_for_the_reference) {
  using drift = against_old<abs_kl>;
  static_assert(contains(drift::reads, field::old_logp) && !contains(drift::reads, field::ref_logp));
  EXPECT_EQ(at(drift(abs_kl{}), of(-1, -3, 0)).value, 2);
  EXPECT_EQ(at(drift(abs_kl{}), of(-1, -1, 0)).slope, 0);
}

TEST(dppo, lets_updates_back_into_the_region_through) {
  const double p = std::log(0.9), q = std::log(0.1);
  EXPECT_EQ(at(dppo_tv{}, of(p, q, 1)).slope, 0);
  EXPECT_NEAR(at(dppo_tv{}, of(p, q, -1)).slope, 9, 1e-13);
  EXPECT_EQ(at(dppo_tv{}, of(q, p, -1)).slope, 0);
  EXPECT_EQ(at(dppo_kl{}, of(p, q, 1)).slope, 0);
  EXPECT_NEAR(at(dppo_kl{}, of(p, q, -1)).slope, 9, 1e-13);
  EXPECT_EQ(at(dppo_kl{}, of(q, p, -1)).monitor[0], 1);
  EXPECT_EQ(at(dppo_kl{}, of(0, 0, 1)).slope, -1);  // certain before and after
  EXPECT_EQ(at(dppo_kl{}, of(0, -40, 1)).slope, 0);
  EXPECT_EQ(at(dppo_tv{}, of(-40, -900, 1)).slope, -20);  // an infinite ratio is bounded
}

// verl: a divergence of 0 times infinity is not <= clip_ratio, so the token is out.
TEST(dppo, leaves_out_a_token_that_had_no_probability) {
  for (const double old_logp : {-800.0, -infinity}) {
    for (const double p : {0.04, 0.9}) {  // -log(1 - p) is 0.041 and 2.3, the limit 0.05
      const auto r = at(dppo_kl{}, of(std::log(p), old_logp, 1));
      EXPECT_EQ(r.slope, p > 0.05 ? 0 : -20);
      EXPECT_EQ(r.monitor[0], p > 0.05 ? 1 : 0);
    }
    EXPECT_EQ(at(dppo_kl{}, of(-1, old_logp, -1)).slope, 20);  // back towards the old policy
  }
  EXPECT_EQ(at(dppo_kl{}, of(-infinity, -1, -1)).slope, 0);
  EXPECT_EQ(at(dppo_kl{}, of(1e-3, -1, 1)).slope, 0);  // a probability above 1 has no divergence
}

TEST(token_surrogates, let_a_nan_through) {
  const double nan = std::nan("");
  const auto check = [&](const auto& piece) {
    EXPECT_TRUE(std::isnan(at(piece, of(nan, 0, 1)).slope)) << piece.name;
    EXPECT_TRUE(std::isnan(at(piece, of(-1, -1, nan)).slope)) << piece.name;
    EXPECT_TRUE(std::isnan(at(piece, of(nan, 0, -1)).value)) << piece.name;
  };
  check(importance_ratio{}), check(two_sided_clip{}), check(sapo{}), check(cispo{}), check(dppo_tv{});
  check(dppo_kl{}), check(dual_clip{}), check(limited_log_ratio{ppo_clip{}}), check(except_selected{ppo_clip{}});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
