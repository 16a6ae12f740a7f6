// All adapters in one program: each takes its own types and no other's.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/tensor/eigen.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/xtensor.hpp"

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>
#endif

namespace RLCORE_TEST_ID {
namespace {

static_assert(rlcore::eigen_strided<Eigen::MatrixXf> && !rlcore::xtensor_expression<Eigen::MatrixXf>);
static_assert(rlcore::xtensor_strided<xt::xtensor<float, 2>> && !rlcore::eigen_dense<xt::xtensor<float, 2>>);
static_assert(!rlcore::eigen_dense<std::vector<float>> && !rlcore::xtensor_expression<std::vector<float>>);
static_assert(!rlcore::viewable<std::deque<float>> && !rlcore::viewable<float> && !rlcore::viewable<int*>);

template <class X>
concept seen_as_matrix = std::is_same_v<decltype(rlcore::as_view<2>(std::declval<X&>())), rlcore::matrix_view<float>>;
template <class X>
concept seen_as_const_matrix =
    std::is_same_v<decltype(rlcore::as_view<2>(std::declval<X&>())), rlcore::matrix_view<const float>>;

template <class X>
class matrices : public testing::Test {};
using types = testing::Types<Eigen::MatrixXf, Eigen::ArrayXXf, xt::xtensor<float, 2>, xt::xarray<float>,
                             rlcore::matrix_view<float>>;
TYPED_TEST_SUITE(matrices, types);

TYPED_TEST(matrices, have_one_type_of_view) {
  static_assert(seen_as_matrix<TypeParam>);
  static_assert(seen_as_const_matrix<const TypeParam> || std::is_same_v<TypeParam, rlcore::matrix_view<float>>);
}

TEST(adapters, show_the_same_numbers) {
  std::vector<float> memory{0, 1, 2, 10, 11, 12};
  const Eigen::Map<const Eigen::Matrix<float, 2, 3, Eigen::RowMajor>> eigen(memory.data());
  const Eigen::MatrixXf by_columns = eigen;
  xt::xtensor<float, 2> xtensor({2, 3});
  for (std::size_t i = 0; i < 6; ++i) xtensor.data()[i] = memory[i];
  const auto a = rlcore::matrix(memory, 2, 3);
  const auto b = rlcore::as_view(eigen), c = rlcore::as_view(by_columns);
  const auto d = rlcore::as_view(xtensor);
  EXPECT_EQ(static_cast<const float*>(a.data), b.data);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(a(i, j), 10 * i + j);
      EXPECT_EQ(b(i, j), a(i, j));
      EXPECT_EQ(c(i, j), a(i, j));
      EXPECT_EQ(d(i, j), a(i, j));
    }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
