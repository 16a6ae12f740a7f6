#include <cmath>
#include <functional>
#include <limits>

#include "emulator/operators_fixture.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct elementwise : operators_test, testing::WithParamInterface<data_type> {
  const data_type type = GetParam();
  const double half_ulp = unit_roundoff(type);

  /// f in double, rounded once.
  numbers mapped(const std::function<double(double, double)>& f, const numbers& a, const numbers& b) {
    numbers y(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) y[i] = f(a[i], b[b.size() == 1 ? 0 : i]);
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(types, elementwise,
                         testing::Values(data_type::float32, data_type::bfloat16, data_type::float16), name_of_type);

TEST_P(elementwise, arithmetic_rounds_once) {
  const auto a = random(1000, type, 1), b = random(1000, type, 2);
  auto &x = make(type, {1000}, a), &y = make(type, {1000}, b), &z = make(type, {1000});
  struct row {
    int status;
    std::function<double(double, double)> f;
  };
  const auto check = [&](int status, const std::function<double(double, double)>& f) {
    ASSERT_EQ(status, 0);
    const auto exact = mapped(f, a, b);
    const auto got = get(z);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], stored(exact[i], type)) << i;
  };
  // Of two numbers of 8 or 11 bits a sum, a difference, a product is exact enough in double to be rounded once; the
  // float results are those of IEEE arithmetic.
  check(run(op.aclnnAdd, x, y, number(1), z), [](double u, double v) { return u + v; });
  check(run(op.aclnnSub, x, y, number(1), z), [](double u, double v) { return u - v; });
  check(run(op.aclnnMul, x, y, z), [](double u, double v) { return u * v; });
  check(run(op.aclnnDiv, x, y, z), [](double u, double v) { return u / v; });
  check(run(op.aclnnMaximum, x, y, z), [](double u, double v) { return std::max(u, v); });
  check(run(op.aclnnNeg, x, z), [](double u, double) { return -u; });
  check(run(op.aclnnMuls, x, number(0.3f), z), [](double u, double) { return u * static_cast<double>(0.3f); });
}

TEST_P(elementwise, functions_stay_within_a_unit) {
  auto a = random(2000, type, 3, 3);
  auto &x = make(type, {2000}, a), &z = make(type, {2000});
  const auto check = [&](int status, const std::function<double(double)>& f) {
    ASSERT_EQ(status, 0);
    const auto got = get(z);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], f(a[i]), (half_ulp + 4 * 0x1p-24) * std::abs(f(a[i])) + 1e-7) << i << " " << a[i];
  };
  check(run(op.aclnnSigmoid, x, z), [](double u) { return 1 / (1 + std::exp(-u)); });
  check(run(op.aclnnSilu, x, z), [](double u) { return u / (1 + std::exp(-u)); });
  for (double& v : a) v = std::min(v, 10.0);
  auto& capped = make(type, {2000}, a);
  check(run(op.aclnnExp, capped, z), [](double u) { return std::exp(u); });
  for (double& v : a) v = std::abs(v);
  auto& positive = make(type, {2000}, a);
  check(run(op.aclnnLog, positive, z), [](double u) { return std::log(u); });
  check(run(op.aclnnSqrt, positive, z), [](double u) { return std::sqrt(u); });
}

TEST_P(elementwise, silu_backward) {
  const auto a = random(500, type, 4), g = random(500, type, 5);
  auto &x = make(type, {500}, a), &dy = make(type, {500}, g), &z = make(type, {500});
  ASSERT_EQ(run(op.aclnnSiluBackward, dy, x, z), 0);
  const auto got = get(z);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double s = 1 / (1 + std::exp(-a[i])), exact = g[i] * s * (1 + a[i] * (1 - s));
    ASSERT_NEAR(got[i], exact, half_ulp * std::abs(exact) + 1e-6);
  }
}

TEST_P(elementwise, views_broadcast_and_alias) {
  const auto a = random(12, type, 6), b = random(4, type, 7);
  // a [3, 4] column by column from element 5 on, b [4] every third, the result [3, 4] with rows of 7
  auto &x = make(type, {3, 4}, a, {1, 3}, 5), &y = make(type, {4}, b, {3}, 2), &z = make(type, {3, 4}, {}, {7, 1}, 1);
  ASSERT_EQ(run(op.aclnnAdd, x, y, number(2), z), 0);
  numbers exact(12);
  for (std::size_t i = 0; i < 12; ++i) exact[i] = stored(a[i] + 2 * b[i % 4], type);
  EXPECT_EQ(get(z), exact);
  // what lies between the rows is as it was
  device_tensor between = z;
  between.view.shape = {2, 3};
  between.view.offset = 5;
  EXPECT_EQ(get(between), numbers(6, 1000.0));
  auto& column = make(type, {3, 1}, {1, 2, 3});
  ASSERT_EQ(run(op.aclnnMul, column, y, z), 0);
  for (std::size_t i = 0; i < 12; ++i) exact[i] = stored(static_cast<double>(i / 4 + 1) * b[i % 4], type);
  EXPECT_EQ(get(z), exact);
  ASSERT_EQ(run(op.aclnnAdd, x, x, number(1), x), 0) << "in place";
  for (std::size_t i = 0; i < 12; ++i) exact[i] = 2 * a[i];
  EXPECT_EQ(get(x), exact);
}

TEST_P(elementwise, comparisons_and_choices) {
  auto &x = make(type, {6}, {-1, 0.5, 2, nan, infinity, 0.5}), &y = make(type, {6}, {0, 0.5, 1, 1, infinity, nan});
  auto &t = make(data_type::boolean, {6}), &z = make(type, {6});
  const auto flags = [&](int status) {
    EXPECT_EQ(status, 0);
    return get(t);
  };
  EXPECT_EQ(flags(run(op.aclnnLtScalar, x, number(0.5f), t)), (numbers{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(flags(run(op.aclnnGeScalar, x, number(0.5f), t)), (numbers{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(flags(run(op.aclnnEqScalar, x, number(0.5f), t)), (numbers{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(flags(run(op.aclnnLeTensor, x, y, t)), (numbers{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(flags(run(op.aclnnIsFinite, x, t)), (numbers{1, 1, 1, 0, 0, 1}));
  EXPECT_EQ(flags(run(op.aclnnLtTensor, x, y, t)), (numbers{1, 0, 0, 0, 0, 0}));
  auto& u = make(data_type::boolean, {6}, {1, 1, 0, 0, 1, 0});
  EXPECT_EQ(run(op.aclnnSWhere, u, x, y, z), 0);
  const auto chosen = get(z);
  EXPECT_EQ(chosen[0], -1);
  EXPECT_EQ(chosen[2], 1);
  EXPECT_TRUE(std::isnan(chosen[5]));
  EXPECT_EQ(flags(run(op.aclnnLogicalAnd, t, u, t)), (numbers{1, 0, 0, 0, 0, 0}));
  ASSERT_EQ(run(op.aclnnInplaceMaskedFillScalar, z, u, number(0.1f)), 0);
  EXPECT_EQ(get(z)[0], stored(static_cast<double>(0.1f), type));
  ASSERT_EQ(run(op.aclnnClamp, x, number(-0.5f), number(1), z), 0);
  const auto clamped = get(z);
  EXPECT_EQ((numbers{clamped[0], clamped[1], clamped[2], clamped[4]}), (numbers{-0.5, 0.5, 1, 1}));
  EXPECT_TRUE(std::isnan(clamped[3]));
  ASSERT_EQ(run(op.aclnnMaximum, x, y, z), 0);
  EXPECT_TRUE(std::isnan(get(z)[3]) && std::isnan(get(z)[5]));
}

struct elementwise_rules : operators_test {};

TEST_F(elementwise_rules, ties_go_to_even) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7 of bfloat16, 1 + 3 2^-8 between 1 + 2^-7 and 1 + 2^-6
  auto &x = make(data_type::bfloat16, {2}, {1, 1 + 0x1p-7}), &y = make(data_type::bfloat16, {2}, {0x1p-8, 0x1p-8}),
       &z = make(data_type::bfloat16, {2});
  ASSERT_EQ(run(op.aclnnAdd, x, y, number(1), z), 0);
  EXPECT_EQ(get(z), (numbers{1, 1 + 0x1p-6}));
}

TEST_F(elementwise_rules, a_float_output_of_a_16_bit_operation_was_rounded_before) {
  auto &x = make(data_type::bfloat16, {1}, {1}), &y = make(data_type::bfloat16, {1}, {0x1p-9}),
       &z = make(data_type::float32, {1}), &f = make(data_type::float32, {1}, {0x1p-9});
  ASSERT_EQ(run(op.aclnnAdd, x, y, number(1), z), 0);
  EXPECT_EQ(get(z), numbers{1});
  ASSERT_EQ(run(op.aclnnAdd, x, f, number(1), z), 0) << "bfloat16 with float32 is float32";
  EXPECT_EQ(get(z), numbers{1 + 0x1p-9});
}

TEST_F(elementwise_rules, scalars_are_rounded_to_the_tensors_type_except_that_of_muls) {
  auto &x = make(data_type::bfloat16, {1}, {1}), &z = make(data_type::bfloat16, {1}),
       &t = make(data_type::boolean, {1});
  const float just_below = 1 - 0x1p-12f;
  ASSERT_EQ(run(op.aclnnLtScalar, x, number(1 + 0x1p-12f), t), 0);
  EXPECT_EQ(get(t), numbers{0}) << "compared with 1";
  auto& three = make(data_type::bfloat16, {1}, {3});
  ASSERT_EQ(run(op.aclnnMuls, three, number(just_below * 1.125f), z), 0);
  EXPECT_EQ(get(z), numbers{stored(3 * static_cast<double>(just_below * 1.125f), data_type::bfloat16)});
}

TEST_F(elementwise_rules, integers_stay_exact) {
  const double big = 9007199254740991.0;
  auto &x = make(data_type::int64, {3}, {big, -5, 7}), &y = make(data_type::int64, {3}, {1, 2, 0}),
       &z = make(data_type::int64, {3}), &q = make(data_type::float32, {3});
  ASSERT_EQ(run(op.aclnnAdds, x, integer(-1), integer(1), z), 0);
  EXPECT_EQ(get(z), (numbers{big - 1, -6, 6}));
  ASSERT_EQ(run(op.aclnnMul, x, y, z), 0);
  EXPECT_EQ(get(z), (numbers{big, -10, 0}));
  ASSERT_EQ(run(op.aclnnDiv, x, y, q), 0) << "as floats";
  EXPECT_EQ(get(q)[1], -2.5);
  EXPECT_EQ(get(q)[2], infinity);
}

TEST_F(elementwise_rules, float16_overflows_as_the_device_was_told) {
  auto &x = make(data_type::float16, {2}, {60000, -60000}), &z = make(data_type::float16, {2});
  ASSERT_EQ(run(op.aclnnAdd, x, x, number(1), z), 0);
  EXPECT_EQ(get(z), (numbers{infinity, -infinity}));
  ASSERT_EQ(rt.aclrtSetDeviceSatMode(ascend::overflow_mode::saturation), 0);
  ASSERT_EQ(run(op.aclnnAdd, x, x, number(1), z), 0);
  EXPECT_EQ(get(z), (numbers{65504, -65504}));
}

TEST_F(elementwise_rules, the_error_of_exp_is_bounded_reproducible_and_depends_on_the_seed) {
  emulated::settings s;
  s.exp_ulp = 2;
  const auto exps = [&](std::uint64_t seed) {
    s.seed = seed;
    restart(s);
    const auto a = random(4000, data_type::float32, 9);
    auto &x = make(data_type::float32, {4000}, a), &z = make(data_type::float32, {4000});
    EXPECT_EQ(run(op.aclnnExp, x, z), 0);
    const auto y = get(z);
    int changed = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double exact = std::exp(a[i]);
      EXPECT_LE(std::abs(y[i] - exact), 2.6 * 0x1p-23 * exact);
      changed += y[i] != static_cast<double>(std::exp(static_cast<float>(a[i])));
    }
    EXPECT_GT(changed, 2000);
    return y;
  };
  const auto first = exps(1);
  EXPECT_EQ(first, exps(1));
  EXPECT_NE(first, exps(2));
}

TEST_F(elementwise_rules, the_reference_mode_rounds_once) {
  emulated::settings s;
  s.reference = true;
  restart(s);
  const auto a = random(1000, data_type::float32, 11);
  auto &x = make(data_type::float32, {1000}, a), &z = make(data_type::float32, {1000});
  ASSERT_EQ(run(op.aclnnSilu, x, z), 0);
  const auto y = get(z);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], stored(a[i] / (1 + std::exp(-a[i])), data_type::float32));
}

TEST_F(elementwise_rules, misuse_is_refused) {
  auto &x = make(data_type::float32, {4}), &y = make(data_type::float32, {3}), &z = make(data_type::float32, {4}),
       &i = make(data_type::int32, {4});
  EXPECT_EQ(plan(op.aclnnAdd, nullptr, x, number(1), z), 161001);
  EXPECT_EQ(plan(op.aclnnAdd, x, x, nullptr, z), 161001);
  EXPECT_EQ(plan(op.aclnnAdd, x, y, number(1), z), 161002);
  EXPECT_NE(message().find("[4] and [3] do not broadcast"), std::string::npos);
  EXPECT_EQ(plan(op.aclnnAdd, x, x, number(1), y), 161002) << "wrong shape of the output";
  EXPECT_EQ(plan(op.aclnnAdd, x, x, number(1), i), 161002) << "floats into integers";
  EXPECT_EQ(plan(op.aclnnExp, i, z), 161002) << "type";
  EXPECT_EQ(plan(op.aclnnClamp, x, nullptr, nullptr, z), 161001);
  EXPECT_EQ(plan(op.aclnnClamp, x, nullptr, number(1), z), 0);
  EXPECT_EQ(plan(op.aclnnInplaceMaskedFillScalar, x, x, number(1)), 161002) << "a mask of floats";
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
