#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "emulator/operators_fixture.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

using nlohmann::json;

struct reductions : operators_test, testing::WithParamInterface<data_type> {
  const data_type type = GetParam();
  const double one_rounding = unit_roundoff(type) + 16 * 0x1p-24;
  const json c = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/npu_operators.json"))["order"];
  const std::int64_t rows = c["rows"], width = c["width"];
  const numbers a = c["x"];
  device_tensor &x = make(type, {rows, width}, a), &columns = make(type, {rows, width}, a, {1, rows + 1}, 2);
};
INSTANTIATE_TEST_SUITE_P(types, reductions,
                         testing::Values(data_type::float32, data_type::bfloat16, data_type::float16), name_of_type);

TEST_P(reductions, sums_and_maxima) {
  auto &over_rows = make(type, {width}), &over_columns = make(type, {rows, 1}), &all = make(type, {}),
       &sum = make(data_type::float32, {rows});
  for (auto* from : {&x, &columns}) {
    ASSERT_EQ(run(op.aclnnReduceSum, *from, ints({0}), false, type, over_rows), 0);
    expect_near(get(over_rows), c["sum_0"], one_rounding);
    ASSERT_EQ(run(op.aclnnReduceSum, *from, ints({-1}), true, type, over_columns), 0);
    expect_near(get(over_columns), c["sum_1"], one_rounding);
    ASSERT_EQ(run(op.aclnnReduceSum, *from, ints({}), false, type, all), 0);
    expect_near(get(all), numbers{c["sum"]}, one_rounding);
    ASSERT_EQ(run(op.aclnnReduceSum, *from, ints({1}), false, data_type::float32, sum), 0);
    EXPECT_EQ(get(sum), c["sum_1"].get<numbers>()) << "multiples of 1/32: exact in float";
    ASSERT_EQ(run(op.aclnnAmax, *from, ints({0}), false, over_rows), 0);
    EXPECT_EQ(get(over_rows), c["amax_0"].get<numbers>());
    ASSERT_EQ(run(op.aclnnAmax, *from, ints({1}), true, over_columns), 0);
    EXPECT_EQ(get(over_columns), c["amax_1"].get<numbers>());
  }
}

TEST_P(reductions, order) {
  auto &v = make(type, {rows, width}), &at = make(data_type::int64, {rows, width}),
       &best = make(data_type::int64, {rows}), &sums = make(type, {rows, width});
  for (auto* from : {&x, &columns}) {
    ASSERT_EQ(run(op.aclnnSort, *from, true, -1, true, v, at), 0);
    EXPECT_EQ(get(v), c["values"].get<numbers>());
    EXPECT_EQ(get(at), c["indices"].get<numbers>());
    ASSERT_EQ(run(op.aclnnSort, *from, true, 0, false, v, at), 0);
    EXPECT_EQ(get(v), c["ascending"].get<numbers>());
    EXPECT_EQ(get(at), c["ascending_indices"].get<numbers>());
    ASSERT_EQ(run(op.aclnnArgMax, *from, 1, false, best), 0);
    EXPECT_EQ(get(best), c["argmax"].get<numbers>());
    ASSERT_EQ(run(op.aclnnCumsum, *from, 1, type, sums), 0);
    expect_near(get(sums), c["cumsum"], one_rounding);
  }
  deterministic(true);
  const std::int64_t k = 5;
  auto &top = make(type, {rows, k}), &places = make(data_type::int64, {rows, k});
  ASSERT_EQ(run(op.aclnnTopk, columns, k, 1, true, true, top, places), 0);
  const numbers values = c["values"], indices = c["indices"];
  numbers chosen = get(top), chosen_at = get(places);
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(chosen[r * 5 + i], values[r * 75 + i]);
      EXPECT_EQ(chosen_at[r * 5 + i], indices[r * 75 + i]);
    }
  ASSERT_EQ(run(op.aclnnTopk, columns, k, 1, true, false, top, places), 0);
  numbers first = get(places);
  first.resize(5);
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
}

struct reduction_rules : operators_test {};

TEST_F(reduction_rules, rows_are_summed_in_trees_of_64_and_columns_one_by_one) {
  // In a row 2^24 + 1 + 1 + ...: neighbours are added first, so only the first 1 is lost (to a tie)
  numbers a(64, 1);
  a[0] = 0x1p24;
  auto &x = make(data_type::float32, {64}, a), &column = make(data_type::float32, {64, 1}, a),
       &s = make(data_type::float32, {}), &t = make(data_type::float32, {1});
  ASSERT_EQ(run(op.aclnnReduceSum, x, ints({0}), false, data_type::float32, s), 0);
  EXPECT_EQ(get(s), numbers{0x1p24 + 62});
  ASSERT_EQ(run(op.aclnnReduceSum, column, ints({0}), false, data_type::float32, t), 0);
  EXPECT_EQ(get(t), numbers{0x1p24}) << "every 1 meets 2^24";
}

TEST_F(reduction_rules, the_input_is_cast_to_the_type_of_the_sum_first) {
  auto &x = make(data_type::float32, {2}, {1, 0x1p-8}), &y = make(data_type::bfloat16, {2}, {256, 1}),
       &low = make(data_type::bfloat16, {}), &sum = make(data_type::float32, {});
  ASSERT_EQ(run(op.aclnnReduceSum, x, ints({}), false, data_type::bfloat16, low), 0);
  EXPECT_EQ(get(low), numbers{1}) << "a tie, to even";
  ASSERT_EQ(run(op.aclnnReduceSum, y, ints({}), false, data_type::float32, sum), 0);
  EXPECT_EQ(get(sum), numbers{257});
  auto& n = make(data_type::int64, {3}, {9007199254740991.0, -9007199254740991.0, 1});
  auto& m = make(data_type::int64, {});
  ASSERT_EQ(run(op.aclnnReduceSum, n, ints({}), false, data_type::int64, m), 0);
  EXPECT_EQ(get(m), numbers{1});
}

TEST_F(reduction_rules, several_dimensions_and_nothing) {
  numbers a(24);
  for (std::size_t i = 0; i < 24; ++i) a[i] = static_cast<double>(i);
  auto &x = make(data_type::float32, {2, 3, 4}, a), &outer = make(data_type::float32, {3}),
       &lower = make(data_type::float32, {1, 1, 4}), &none = make(data_type::float32, {2, 0}),
       &zero = make(data_type::float32, {2});
  ASSERT_EQ(run(op.aclnnReduceSum, x, ints({0, 2}), false, data_type::float32, outer), 0);
  EXPECT_EQ(get(outer), (numbers{60, 92, 124}));
  ASSERT_EQ(run(op.aclnnReduceSum, x, ints({1, 0}), true, data_type::float32, lower), 0);
  EXPECT_EQ(get(lower), (numbers{60, 66, 72, 78}));
  ASSERT_EQ(run(op.aclnnReduceSum, none, ints({1}), false, data_type::float32, zero), 0);
  EXPECT_EQ(get(zero), (numbers{0, 0}));
  EXPECT_EQ(plan(op.aclnnReduceSum, x, ints({0, 0}), false, data_type::float32, outer), 161002);
  EXPECT_EQ(plan(op.aclnnReduceSum, x, ints({3}), false, data_type::float32, outer), 161002);
  EXPECT_EQ(plan(op.aclnnReduceSum, x, ints({0, 2}), false, data_type::bfloat16, outer), 161002);
  EXPECT_EQ(plan(op.aclnnReduceSum, x, nullptr, false, data_type::float32, outer), 161001);
  EXPECT_EQ(plan(op.aclnnAmax, none, ints({1}), false, zero), 161002) << "the maximum of nothing";
}

TEST_F(reduction_rules, nan_is_the_largest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto &x = make(data_type::float32, {3}, {1, nan, 2}), &v = make(data_type::float32, {3}),
       &at = make(data_type::int64, {3}), &one = make(data_type::float32, {}), &index = make(data_type::int64, {});
  ASSERT_EQ(run(op.aclnnSort, x, true, 0, true, v, at), 0);
  EXPECT_EQ(get(at), (numbers{1, 2, 0}));
  ASSERT_EQ(run(op.aclnnAmax, x, ints({}), false, one), 0);
  EXPECT_TRUE(std::isnan(get(one)[0]));
  ASSERT_EQ(run(op.aclnnArgMax, x, 0, false, index), 0);
  EXPECT_EQ(get(index), numbers{1});
}

TEST_F(reduction_rules, ties_are_in_any_order_unless_stable_or_deterministic) {
  auto &x = make(data_type::float32, {100}, numbers(100, 1)), &v = make(data_type::float32, {100}),
       &at = make(data_type::int64, {100}), &v3 = make(data_type::float32, {3}), &at3 = make(data_type::int64, {3});
  std::set<numbers> orders, tops;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(run(op.aclnnSort, x, false, 0, false, v, at), 0);
    orders.insert(get(at));
    ASSERT_EQ(run(op.aclnnTopk, x, 3, 0, true, true, v3, at3), 0);
    tops.insert(get(at3));
  }
  EXPECT_GT(orders.size(), 1u);
  EXPECT_GT(tops.size(), 1u);
  deterministic(true);
  ASSERT_EQ(run(op.aclnnTopk, x, 3, 0, true, true, v3, at3), 0);
  EXPECT_EQ(get(at3), (numbers{0, 1, 2}));
  EXPECT_EQ(plan(op.aclnnTopk, x, 101, 0, true, true, v3, at3), 161002);
  EXPECT_EQ(plan(op.aclnnTopk, x, 4, 0, true, true, v3, at3), 161002) << "the outputs hold 3";
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
