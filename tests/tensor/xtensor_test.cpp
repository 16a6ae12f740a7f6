#include "rlcore/tensor/xtensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xfixed.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/misc/xmanipulation.hpp>
#include <xtensor/views/xstrided_view.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xfixed.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include "rlcore/losses.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::as_view;
using std::size_t;

/// The view shows the very elements of x, in its order.
template <class V, class X>
void expect_same_elements(const V& v, X& x) {
  static_assert(V::rank == 2);
  ASSERT_EQ(x.dimension(), 2u);
  ASSERT_EQ(v.shape,
            (rlcore::extents<2>{static_cast<std::ptrdiff_t>(x.shape()[0]), static_cast<std::ptrdiff_t>(x.shape()[1])}));
  for (size_t i = 0; i < x.shape()[0]; ++i)
    for (size_t j = 0; j < x.shape()[1]; ++j) EXPECT_EQ(&v(i, j), &x(i, j)) << i << ", " << j;
}

TEST(xtensor, containers_in_both_orders) {
  xt::xtensor<float, 2> rows({7, 9});
  xt::xtensor<double, 2, xt::layout_type::column_major> columns({7, 9});
  xt::xtensor_fixed<float, xt::xshape<4, 5>> fixed;
  xt::xtensor<int, 2, xt::layout_type::dynamic> dynamic({3, 4}, xt::layout_type::column_major);
  expect_same_elements(as_view(rows), rows);
  expect_same_elements(as_view(columns), columns);
  expect_same_elements(as_view(fixed), fixed);
  expect_same_elements(as_view(dynamic), dynamic);
  EXPECT_EQ(as_view(rows).data, rows.data());
  EXPECT_EQ(as_view(rows).stride, (rlcore::extents<2>{9, 1}));
  EXPECT_EQ(as_view(columns).stride, (rlcore::extents<2>{1, 7}));
  xt::xtensor<float, 1> vector({5});
  static_assert(std::is_same_v<decltype(as_view(vector)), rlcore::vector_view<float>>);
  EXPECT_EQ(as_view(vector).data, vector.data());
}

TEST(xtensor, const_stays_const) {
  const xt::xtensor<float, 2> x({2, 3});
  static_assert(std::is_same_v<decltype(as_view(x)), rlcore::matrix_view<const float>>);
  static_assert(std::is_same_v<decltype(as_view(xt::view(x, 0))), rlcore::vector_view<const float>>);
  EXPECT_EQ(as_view(x).data, x.data());
}

TEST(xtensor, extents_of_1_look_contiguous) {
  xt::xtensor<float, 2> column({6, 1}), row({1, 6});
  EXPECT_EQ(as_view(column).stride, (rlcore::extents<2>{1, 1}));
  EXPECT_EQ(as_view(row).stride[1], 1);
  expect_same_elements(as_view(column), column);
  expect_same_elements(as_view(row), row);
}

TEST(xtensor, views_by_ranges_steps_and_integers) {
  xt::xtensor<float, 2> x({8, 10});
  auto part = xt::view(x, xt::range(1, 5), xt::range(2, 9));
  auto stepped = xt::view(x, xt::range(1, 8, 3), xt::range(0, 10, 2));
  auto strided = xt::strided_view(x, {xt::range(0, 8, 2), xt::range(1, 4)});
  auto transposed = xt::transpose(x);
  expect_same_elements(as_view(part), part);
  expect_same_elements(as_view(stepped), stepped);
  expect_same_elements(as_view<2>(strided), strided);
  expect_same_elements(as_view<2>(transposed), transposed);
  EXPECT_EQ(as_view(part).data, &x(1, 2));
  EXPECT_EQ(as_view(stepped).stride, (rlcore::extents<2>{30, 2}));
  const auto row = as_view(xt::view(x, 3));
  const auto column = as_view(xt::col(x, 4));
  static_assert(decltype(row)::rank == 1 && decltype(column)::rank == 1);
  for (size_t j = 0; j < 10; ++j) EXPECT_EQ(&row(j), &x(3, j));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(&column(i), &x(i, 4));
  auto of_view = xt::view(part, xt::range(1, 3), xt::all());
  expect_same_elements(as_view(of_view), of_view);
  auto backwards = xt::view(x, xt::range(7, 0, -2), xt::all());
  expect_same_elements(as_view(backwards), backwards);
}

TEST(xtensor, adaptors_point_at_foreign_memory) {
  std::vector<float> memory(60);
  auto fixed_rank = xt::adapt(memory, std::array<size_t, 2>{6, 10});
  auto run_time_rank = xt::adapt(memory, std::vector<size_t>{10, 6});
  auto pointer = xt::adapt(memory.data(), memory.size(), xt::no_ownership(), std::array<size_t, 2>{12, 5});
  EXPECT_EQ(as_view(fixed_rank).data, memory.data());
  EXPECT_EQ(as_view<2>(run_time_rank).data, memory.data());
  EXPECT_EQ(as_view(pointer).data, memory.data());
  EXPECT_EQ(as_view(xt::adapt(memory, std::array<size_t, 2>{6, 10})).shape, (rlcore::extents<2>{6, 10}));
  EXPECT_EQ(as_view(xt::adapt(memory.data(), memory.size(), xt::no_ownership(), std::array<size_t, 2>{12, 5})).shape[0],
            12);
}

TEST(xtensor, rank_of_xarray_is_checked) {
  xt::xarray<float> x = xt::zeros<float>({4, 6});
  const rlcore::matrix_view<float> v = as_view(x);
  const rlcore::matrix_view<const float> readable = as_view(x);
  EXPECT_EQ(v.data, x.data());
  EXPECT_EQ(readable.stride, (rlcore::extents<2>{6, 1}));
  const xt::xarray<float> y = xt::zeros<float>({4, 6, 2});
  try {
    as_view<2>(y);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()), "rlcore: container of shape [4, 6, 2] has 3 dimensions, expected 2");
  }
  EXPECT_EQ(as_view<3>(y).data, y.data());
  static_assert(std::is_same_v<decltype(as_view<3>(y)), rlcore::view<const float, 3>>);
  auto row = xt::view(x, 1);
  EXPECT_EQ(as_view<1>(row).data, &x(1, 0));
  const xt::xarray<float> nine = xt::zeros<float>({1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_THROW(as_view(nine), std::invalid_argument);
}

TEST(xtensor, broadcast_strides_can_be_read_but_not_written) {
  std::vector<float> memory(24);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const std::array<size_t, 2> shape{4, 6};
  const std::array<std::ptrdiff_t, 2> repeated{0, 1};
  auto x = xt::adapt(memory.data(), memory.size(), xt::no_ownership(), shape, repeated);
  EXPECT_THROW(as_view(x), std::invalid_argument);
  const auto& readable = x;
  const auto v = as_view(readable);
  EXPECT_EQ(v(3, 5), 5);
  EXPECT_EQ(&v(3, 5), &memory[5]);
}

TEST(xtensor, temporaries_that_own_are_told_from_those_that_do_not) {
  xt::xtensor<float, 2> x({2, 3});
  static_assert(!rlcore::borrowed_tensor<xt::xtensor<float, 2>>);
  static_assert(!rlcore::borrowed_tensor<xt::xarray<float>>);
  static_assert(rlcore::borrowed_tensor<decltype(xt::view(x, 0))>);
  static_assert(!rlcore::borrowed_tensor<decltype(xt::view(xt::xtensor<float, 2>({2, 3}), 0))>);
  static_assert(!rlcore::borrowed_tensor<decltype(xt::adapt(std::vector<float>(6), std::array<size_t, 1>{6}))>);
  EXPECT_EQ(as_view(xt::view(x, 1)).data, &x(1, 0));
}

TEST(xtensor, writes_arrive) {
  xt::xtensor<float, 2> x = xt::zeros<float>({3, 4});
  as_view(xt::view(x, xt::range(1, 3), xt::range(0, 4, 2)))(1, 1) = 5;
  EXPECT_EQ(x(2, 2), 5);
}

TEST(xtensor, arrays_of_any_rank_are_fields) {
  const xt::xarray<float> logp = -xt::ones<float>({4, 3}), old_logp = logp * 1.1f, mask = xt::ones<float>({4, 3});
  const xt::xarray<float> rewards{0, 1, 0, 0};
  const xt::xarray<std::int64_t> groups{7, 7, 7, 7}, lengths{3, 3, 2, 3};
  xt::xarray<float> advantage = xt::zeros<float>({4}), slope = xt::zeros<float>({4, 3});
  const xt::xtensor<float, 2> same_logp = logp, same_old = old_logp, same_mask = mask;
  const xt::xtensor<float, 1> same_rewards = rewards;
  const xt::xtensor<std::int64_t, 1> same_lengths = lengths;
  xt::xtensor<float, 1> same_advantage = xt::zeros<float>({4});
  xt::xtensor<float, 2> same_slope = xt::zeros<float>({4, 3});

  const auto dapo = rlcore::paper::dapo();
  dapo.advantage(rewards, groups, advantage);
  dapo.advantage(same_rewards, 4, same_advantage);
  EXPECT_EQ(advantage, same_advantage);
  rlcore::token_batch<float> batch{
      .logp = logp, .old_logp = old_logp, .advantage = advantage, .mask = mask, .lengths = lengths};
  const rlcore::token_batch<float> same{
      .logp = same_logp, .old_logp = same_old, .advantage = same_advantage, .mask = same_mask, .lengths = same_lengths};
  const auto r = rlcore::evaluate(rlcore::serial{}, dapo, batch, rlcore::loss_counts(batch), {.logp = slope});
  const auto s = rlcore::evaluate(rlcore::serial{}, dapo, same, rlcore::loss_counts(same), {.logp = same_slope});
  EXPECT_EQ(r.loss(), s.loss());
  EXPECT_NE(r.loss(), 0);
  EXPECT_EQ(slope, same_slope);

  const xt::xarray<float> three = xt::zeros<float>({4, 3, 2});
  const xt::xarray<std::int64_t> two{{1, 2}};
  const auto refusal = [](auto set) -> std::string {
    try {
      set();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { batch.logp = three; }), "rlcore: container of shape [4, 3, 2] has 3 dimensions, expected 2");
  EXPECT_EQ(refusal([&] { batch.mask = three; }), "rlcore: container of shape [4, 3, 2] has 3 dimensions, expected 2");
  EXPECT_EQ(refusal([&] { batch.lengths = two; }), "rlcore: container of shape [1, 2] has 2 dimensions, expected 1");
  EXPECT_EQ(refusal([&] { dapo.advantage(logp, 4, advantage); }),
            "rlcore: container of shape [4, 3] has 2 dimensions, expected 1");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
