#include <limits>
#include <set>

#include "emulator/operators_fixture.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

struct movement : operators_test, testing::WithParamInterface<data_type> {
  const data_type type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(types, movement,
                         testing::Values(data_type::float32, data_type::bfloat16, data_type::float16, data_type::int64,
                                         data_type::boolean),
                         name_of_type);

numbers counted(std::size_t n, data_type type) {
  numbers x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = type == data_type::boolean ? i % 3 == 1 : static_cast<double>(i + 1);
  return x;
}

TEST_P(movement, copies_between_views_and_repeats) {
  const auto a = counted(12, type);
  auto &x = make(type, {3, 4}, a, {1, 3}, 2), &y = make(type, {3, 4}, {}, {9, 2}, 1),
       &row = make(type, {4}, {1, 0, 0, 1});
  ASSERT_EQ(run(op.aclnnInplaceCopy, y, x), 0);
  EXPECT_EQ(get(y), a);
  ASSERT_EQ(run(op.aclnnInplaceCopy, y, row), 0);
  EXPECT_EQ(get(y), (numbers{1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}));
  auto& strides = make(type, {3, 4}, {0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0}, {0, 1});  // a stride of 0 repeats as well
  ASSERT_EQ(run(op.aclnnInplaceCopy, y, strides), 0);
  EXPECT_EQ(get(y), (numbers{0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(plan(op.aclnnInplaceCopy, row, y), 161002) << "rows do not repeat to a vector";
}

TEST_P(movement, permute_and_cat_move_bits) {
  const auto a = counted(24, type);
  auto &x = make(type, {2, 3, 4}, a), &y = make(type, {4, 2, 3});
  ASSERT_EQ(run(op.aclnnPermute, x, ints({2, 0, -2}), y), 0);
  const auto p = get(y);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 4; ++k) ASSERT_EQ(p[(k * 2 + i) * 3 + j], a[(i * 3 + j) * 4 + k]);
  EXPECT_EQ(plan(op.aclnnPermute, x, ints({0, 1, 1}), y), 161002);
  EXPECT_EQ(plan(op.aclnnPermute, x, ints({0, 1}), y), 161002);
  EXPECT_EQ(plan(op.aclnnPermute, x, ints({0, 1, 2}), y), 161002) << "shape of the output";

  auto &u = make(type, {2, 1}, {1, 0}), &v = make(type, {2, 2}, {0, 1, 1, 0}, {1, 2}), &w = make(type, {2, 3}),
       &empty = make(type, {0});
  auto* l = list({&u, &empty, &v});
  ASSERT_EQ(run(op.aclnnCat, l, -1, w), 0);
  EXPECT_EQ(get(w), (numbers{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(plan(op.aclnnCat, l, 0, w), 161002);
  EXPECT_EQ(plan(op.aclnnCat, l, 2, w), 161002);
  EXPECT_EQ(plan(op.aclnnCat, nullptr, 0, w), 161001);
}

TEST_P(movement, filling) {
  auto& x = make(type, {2, 2}, {}, {3, 1});
  ASSERT_EQ(run(op.aclnnInplaceFillScalar, x, number(1)), 0);
  EXPECT_EQ(get(x), numbers(4, 1));
  ASSERT_EQ(run(op.aclnnInplaceZero, x), 0);
  EXPECT_EQ(get(x), numbers(4, 0));
}

TEST_P(movement, gather_and_index_select) {
  const auto a = counted(12, type);
  auto &x = make(type, {3, 4}, a, {1, 3}), &at = make(data_type::int64, {2, 4}, {0, 1, 2, 0, 2, 2, 1, 0}),
       &y = make(type, {2, 4});
  ASSERT_EQ(run(op.aclnnGather, x, 0, at, y), 0);
  EXPECT_EQ(get(y), (numbers{a[0], a[5], a[10], a[3], a[8], a[9], a[6], a[3]}));
  auto &columns = make(data_type::int32, {3, 1}, {3, 0, 1}), &z = make(type, {3, 1});
  ASSERT_EQ(run(op.aclnnGather, x, 1, columns, z), 0);
  EXPECT_EQ(get(z), (numbers{a[3], a[4], a[9]}));
  auto &rows = make(data_type::int64, {5}, {2, 0, 0, 1, 2}), &w = make(type, {5, 4}), &v = make(type, {3, 2}),
       &two = make(data_type::int32, {2}, {3, 0});
  auto& compact = make(type, {3, 4}, a);
  for (auto* from : {&x, &compact}) {
    ASSERT_EQ(run(op.aclnnIndexSelect, *from, 0, rows, w), 0);
    const auto got = get(w);
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ((numbers{got[k], got[4 + k], got[8 + k], got[12 + k], got[16 + k]}),
                (numbers{a[8 + k], a[k], a[k], a[4 + k], a[8 + k]}));
  }
  ASSERT_EQ(run(op.aclnnIndexSelect, x, 1, two, v), 0);
  EXPECT_EQ(get(v), (numbers{a[3], a[0], a[7], a[4], a[11], a[8]}));
  EXPECT_EQ(plan(op.aclnnGather, x, 0, rows, y), 161002) << "ranks";
  EXPECT_EQ(plan(op.aclnnGather, x, 0, x, y), 161002) << "type of the index or shape";
  EXPECT_EQ(plan(op.aclnnIndexSelect, x, 0, at, w), 161002) << "an index of rank 2";
}

struct movement_rules : operators_test {};

TEST_F(movement_rules, an_index_out_of_range_is_found_on_the_device) {
  auto &x = make(data_type::float32, {3}, {1, 2, 3}), &at = make(data_type::int64, {1}, {3}),
       &negative = make(data_type::int64, {1}, {-1}), &y = make(data_type::float32, {1});
  EXPECT_EQ(plan(op.aclnnGather, x, 0, at, y), 0);
  EXPECT_EQ(run(op.aclnnGather, x, 0, at, y), 507015);
  EXPECT_EQ(run(op.aclnnIndexSelect, x, 0, negative, y), 507015);
  EXPECT_EQ(run(op.aclnnIndexAdd, x, 0, at, y, number(1), x), 507015);
}

TEST_F(movement_rules, casts_round_to_even_and_truncate_to_integers) {
  const double infinity = std::numeric_limits<double>::infinity();
  auto& x = make(data_type::float32, {6}, {1 + 0x1p-8, 1 + 3 * 0x1p-8, -2.75, 70000, 0x1p-25, infinity});
  auto cast = [&](data_type type) {
    auto& y = make(type, {6});
    EXPECT_EQ(run(op.aclnnCast, x, type, y), 0);
    return get(y);
  };
  EXPECT_EQ(cast(data_type::bfloat16), (numbers{1, 1 + 0x1p-6, -2.75, 70144, 0x1p-25, infinity}));
  EXPECT_EQ(cast(data_type::float16), (numbers{1 + 0x1p-8, 1 + 3 * 0x1p-8, -2.75, infinity, 0, infinity}));
  EXPECT_EQ(cast(data_type::int32), (numbers{1, 1, -2, 70000, 0, 2147483647}));
  EXPECT_EQ(cast(data_type::boolean), numbers(6, 1));
  EXPECT_EQ(cast(data_type::float64), get(x));
  auto& big = make(data_type::int64, {1}, {16777217.0});
  auto &f = make(data_type::float32, {1}), &b = make(data_type::bfloat16, {1});
  EXPECT_EQ(run(op.aclnnCast, big, data_type::float32, f), 0);
  EXPECT_EQ(get(f), numbers{16777216});
  // just above a tie of bfloat16: float in between would make it a tie and round it down
  auto& wide = make(data_type::float64, {1}, {1 + 0x1p-8 + 0x1p-40});
  EXPECT_EQ(run(op.aclnnCast, wide, data_type::bfloat16, b), 0);
  EXPECT_EQ(get(b), numbers{1 + 0x1p-7});
  EXPECT_EQ(plan(op.aclnnCast, x, data_type::bfloat16, f), 161002);
}

TEST_F(movement_rules, triu_and_arange) {
  auto &x = make(data_type::float32, {2, 3, 3}, counted(18, data_type::float32)),
       &y = make(data_type::float32, {2, 3, 3});
  ASSERT_EQ(run(op.aclnnTriu, x, 1, y), 0);
  EXPECT_EQ(get(y), (numbers{0, 2, 3, 0, 0, 6, 0, 0, 0, 0, 11, 12, 0, 0, 15, 0, 0, 0}));
  ASSERT_EQ(run(op.aclnnTriu, x, -1, x), 0);
  EXPECT_EQ(get(x)[6], 0);
  EXPECT_EQ(get(x)[7], 8);
  auto &n = make(data_type::int64, {4}), &f = make(data_type::float32, {3});
  ASSERT_EQ(run(op.aclnnArange, integer(5), integer(-3), integer(-2), n), 0);
  EXPECT_EQ(get(n), (numbers{5, 3, 1, -1}));
  ASSERT_EQ(run(op.aclnnArange, number(0), number(1), number(0.4f), f), 0);
  EXPECT_EQ(get(f), (numbers{0, static_cast<double>(0.4f), static_cast<double>(0.8f)}));
  EXPECT_EQ(plan(op.aclnnArange, number(0), number(1), number(0), f), 161002);
  EXPECT_EQ(plan(op.aclnnArange, number(0), number(2), number(0.4f), f), 161002);
}

TEST_F(movement_rules, index_add_sums_in_any_order_unless_deterministic) {
  const std::size_t terms = 300;
  const auto a = random(terms * 2, data_type::float32, 4);
  numbers index(terms);
  for (std::size_t i = 0; i < terms; ++i) index[i] = static_cast<double>(i % 3);
  auto &s = make(data_type::float32, {300, 2}, a), &at = make(data_type::int64, {300}, index),
       &x = make(data_type::float32, {4, 2}, numbers(8, 0)), &y = make(data_type::float32, {4, 2});
  const auto sums = [&] {
    EXPECT_EQ(run(op.aclnnIndexAdd, x, 0, at, s, number(2), y), 0);
    return get(y);
  };
  numbers exact(8), in_order(8);
  for (std::size_t i = 0; i < terms; ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      exact[i % 3 * 2 + k] += 2 * a[i * 2 + k];
      in_order[i % 3 * 2 + k] = stored(in_order[i % 3 * 2 + k] + 2 * a[i * 2 + k], data_type::float32);
    }
  std::set<numbers> different;
  for (int i = 0; i < 5; ++i) {
    different.insert(sums());
    for (std::size_t k = 0; k < 8; ++k) ASSERT_NEAR(sums()[k], exact[k], 100 * 0x1p-24 * 100);
  }
  EXPECT_GT(different.size(), 1u);
  deterministic(true);
  EXPECT_EQ(sums(), in_order);
  EXPECT_EQ(sums(), in_order);
}

TEST_F(movement_rules, index_add_of_16_bit_types_rounds_once) {
  auto &s = make(data_type::bfloat16, {4}, numbers(4, 0x1p-9)), &at = make(data_type::int32, {4}, {1, 1, 1, 1}),
       &x = make(data_type::bfloat16, {2}, {0, 1});
  ASSERT_EQ(run(op.aclnnIndexAdd, x, 0, at, s, number(1), x), 0);
  EXPECT_EQ(get(x), (numbers{0, 1 + 0x1p-7}));
}

TEST_F(movement_rules, index_put) {
  auto& x = make(data_type::float32, {3, 2, 4}, numbers(24, 0));
  auto &i = make(data_type::int64, {2}, {0, 2}), &k = make(data_type::int64, {2}, {3, -4}),
       &all = make(data_type::int64, {0}), &v = make(data_type::float32, {2, 2}, {1, 2, 3, 4});
  auto* separated = list({&i, &all, &k});
  ASSERT_EQ(run(op.aclnnIndexPutImpl, x, separated, v, false, false), 0);
  numbers exact(24);
  exact[3] = 1, exact[7] = 2, exact[16] = 3, exact[20] = 4;  // (0, :, 3) and (2, :, 0)
  EXPECT_EQ(get(x), exact);
  auto &r = make(data_type::int64, {2, 1}, {1, 1}), &c = make(data_type::int64, {1, 3}, {0, 1, 1}),
       &one = make(data_type::float32, {1}, {1});
  auto* adjacent = list({&r, &c});  // the elements (1, 0) twice, (1, 1) four times
  ASSERT_EQ(run(op.aclnnIndexPutImpl, x, adjacent, one, true, false), 0);
  for (std::size_t n = 8; n < 16; ++n) exact[n] = n < 12 ? 2 : 4;
  EXPECT_EQ(get(x), exact);
  auto& wrong = make(data_type::int64, {1}, {3});
  EXPECT_EQ(run(op.aclnnIndexPutImpl, x, list({&wrong}), one, true, false), 507015);
  EXPECT_EQ(plan(op.aclnnIndexPutImpl, x, adjacent, v, true, false), 161002) << "values do not broadcast";
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
