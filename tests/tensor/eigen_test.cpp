#include "rlcore/tensor/eigen.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::as_view;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class M>
M counted(Eigen::Index rows, Eigen::Index cols) {
  M m(rows, cols);
  for (Eigen::Index i = 0; i < rows; ++i)
    for (Eigen::Index j = 0; j < cols; ++j) m(i, j) = static_cast<typename M::Scalar>(100 * i + j);
  return m;
}

/// The view shows the very elements of x, in its order.
template <class V, class X>
void expect_same_elements(const V& v, X& x) {
  static_assert(V::rank == 2);
  ASSERT_EQ(v.shape, (rlcore::extents<2>{x.rows(), x.cols()}));
  for (Eigen::Index i = 0; i < x.rows(); ++i)
    for (Eigen::Index j = 0; j < x.cols(); ++j) EXPECT_EQ(&v(i, j), &x.coeffRef(i, j)) << i << ", " << j;
}

template <class M>
class eigen_orders : public testing::Test {};
using orders = testing::Types<Eigen::MatrixXf, row_major, Eigen::ArrayXXd,
                              Eigen::Array<int, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                              Eigen::Matrix<float, 7, 9>, Eigen::Matrix<float, 7, 9, Eigen::RowMajor>>;
TYPED_TEST_SUITE(eigen_orders, orders);

TYPED_TEST(eigen_orders, share_the_storage) {
  auto m = counted<TypeParam>(7, 9);
  expect_same_elements(as_view(m), m);
  auto block = m.block(1, 2, 4, 5);
  expect_same_elements(as_view(block), block);
  auto transposed = m.transpose();
  expect_same_elements(as_view(transposed), transposed);
  auto transposed_block = block.transpose();
  expect_same_elements(as_view(transposed_block), transposed_block);
  EXPECT_EQ(as_view(m.block(1, 2, 4, 5)).data, &m(1, 2));
  EXPECT_EQ(as_view(m.topRows(3)).shape, (rlcore::extents<2>{3, 9}));
}

TYPED_TEST(eigen_orders, vectors_have_rank_1) {
  auto m = counted<TypeParam>(7, 9);
  const auto row = as_view(m.row(3));
  const auto col = as_view(m.col(4));
  const auto diagonal = as_view(m.matrix().diagonal());
  static_assert(decltype(row)::rank == 1 && decltype(col)::rank == 1 && decltype(diagonal)::rank == 1);
  for (Eigen::Index j = 0; j < 9; ++j) EXPECT_EQ(&row(j), &m(3, j));
  for (Eigen::Index i = 0; i < 7; ++i) EXPECT_EQ(&col(i), &m(i, 4));
  for (Eigen::Index i = 0; i < 7; ++i) EXPECT_EQ(&diagonal(i), &m(i, i));
}

TYPED_TEST(eigen_orders, const_stays_const) {
  const auto m = counted<TypeParam>(7, 9);
  using scalar = typename TypeParam::Scalar;
  static_assert(std::is_same_v<decltype(as_view(m)), rlcore::matrix_view<const scalar>>);
  static_assert(std::is_same_v<decltype(as_view(m.row(0))), rlcore::vector_view<const scalar>>);
  static_assert(std::is_same_v<decltype(as_view(m.block(0, 0, 2, 2))), rlcore::matrix_view<const scalar>>);
  static_assert(std::is_same_v<decltype(as_view(m.transpose())), rlcore::matrix_view<const scalar>>);
  EXPECT_EQ(as_view(m).data, m.data());
}

TEST(eigen, vectors) {
  Eigen::VectorXf x(5);
  Eigen::RowVectorXd y(6);
  const Eigen::Array3i z(1, 2, 3);
  static_assert(std::is_same_v<decltype(as_view(x)), rlcore::vector_view<float>>);
  static_assert(std::is_same_v<decltype(as_view(y)), rlcore::vector_view<double>>);
  static_assert(std::is_same_v<decltype(as_view(z)), rlcore::vector_view<const int>>);
  EXPECT_EQ(as_view(x).data, x.data());
  EXPECT_EQ(as_view(x.segment(1, 3)).data, x.data() + 1);
  EXPECT_EQ(as_view(y.tail(2)).shape[0], 2);
  EXPECT_EQ(as_view(z)(2), 3);
}

TEST(eigen, maps_with_inner_and_outer_strides) {
  std::vector<float> memory(200);
  Eigen::Map<row_major, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> strided(memory.data(), 4, 5, {30, 3});
  expect_same_elements(as_view(strided), strided);
  EXPECT_EQ(as_view(strided).stride, (rlcore::extents<2>{30, 3}));
  Eigen::Map<Eigen::MatrixXf, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> columns(memory.data(), 4, 5, {30, 3});
  EXPECT_EQ(as_view(columns).stride, (rlcore::extents<2>{3, 30}));
  expect_same_elements(as_view(columns), columns);
  Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<7>> every_seventh(memory.data(), 20);
  EXPECT_EQ(as_view(every_seventh).stride[0], 7);
  EXPECT_EQ(&as_view(every_seventh)(19), &memory[133]);
  Eigen::Map<const row_major> readable(memory.data(), 4, 5);
  static_assert(std::is_same_v<decltype(as_view(readable)), rlcore::matrix_view<const float>>);
  EXPECT_EQ(as_view(readable).data, memory.data());
}

TEST(eigen, references) {
  auto m = counted<row_major>(6, 8);
  Eigen::Ref<row_major> whole(m);
  expect_same_elements(as_view(whole), whole);
  EXPECT_EQ(as_view(whole).data, m.data());
  Eigen::Ref<row_major> part(m.block(1, 1, 3, 3));
  EXPECT_EQ(as_view(part).data, &m(1, 1));
  EXPECT_EQ(as_view(part).stride, (rlcore::extents<2>{8, 1}));
  const Eigen::Ref<const row_major> readable(m);
  static_assert(std::is_same_v<decltype(as_view(readable)), rlcore::matrix_view<const float>>);
  EXPECT_EQ(as_view(readable).data, m.data());
  // It may hold a copy of its own, so a temporary one must not be viewed.
  static_assert(!rlcore::borrowed_tensor<Eigen::Ref<const row_major>>);
  static_assert(rlcore::borrowed_tensor<Eigen::Ref<row_major>> && rlcore::borrowed_tensor<Eigen::Map<row_major>>);
  static_assert(!rlcore::borrowed_tensor<row_major> && !rlcore::borrowed_tensor<Eigen::VectorXf>);
}

struct policy_matrix : Eigen::MatrixXf {
  using Eigen::MatrixXf::MatrixXf;
};

TEST(eigen, classes_derived_from_a_matrix) {
  policy_matrix m(3, 4);
  EXPECT_EQ(as_view(m).data, m.data());
  static_assert(!rlcore::borrowed_tensor<policy_matrix>);
}

TEST(eigen, writes_arrive) {
  Eigen::MatrixXf m = Eigen::MatrixXf::Zero(3, 4);
  const auto v = as_view(m);
  v(2, 1) = 5;
  EXPECT_EQ(m(2, 1), 5);
  EXPECT_EQ(m.sum(), 5);
  const auto w = as_view<2>(m.array());
  w(0, 3) = 7;
  EXPECT_EQ(m(0, 3), 7);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
