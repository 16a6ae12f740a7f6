#include "rlcore/tensor/span.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::as_view;
using rlcore::extents;
using rlcore::matrix;

TEST(span, containers_are_shown_in_place) {
  std::vector<float> v(5);
  std::array<std::int32_t, 3> a{1, 2, 3};
  const std::vector<double> c(4);
  const std::array<double, 2> ca{};
  static_assert(std::is_same_v<decltype(as_view(v)), rlcore::vector_view<float>>);
  static_assert(std::is_same_v<decltype(as_view(a)), rlcore::vector_view<std::int32_t>>);
  static_assert(std::is_same_v<decltype(as_view(c)), rlcore::vector_view<const double>>);
  static_assert(std::is_same_v<decltype(as_view(ca)), rlcore::vector_view<const double>>);
  EXPECT_EQ(as_view(v).data, v.data());
  EXPECT_EQ(as_view(a).data, a.data());
  EXPECT_EQ(as_view(c).shape, (extents<1>{4}));
  EXPECT_EQ(as_view(c).stride, (extents<1>{1}));
}

TEST(span, a_span_carries_its_own_constness) {
  std::vector<float> v(5);
  const std::span<float> mutable_elements(v);
  static_assert(std::is_same_v<decltype(as_view(mutable_elements)), rlcore::vector_view<float>>);
  static_assert(std::is_same_v<decltype(as_view(std::span<const float, 5>(v))), rlcore::vector_view<const float>>);
  EXPECT_EQ(as_view(std::span(v).subspan(2)).data, v.data() + 2);
}

TEST(span, views_pass_through) {
  std::vector<float> v(6);
  const rlcore::matrix_view<float> m(v.data(), {3, 2});
  EXPECT_EQ(as_view(m).data, v.data());
  EXPECT_EQ(as_view(rlcore::matrix_view<float>(v.data(), {2, 3})).shape, (extents<2>{2, 3}));
  const rlcore::matrix_view<const float> readable = m;
  EXPECT_EQ(readable.stride, m.stride);
}

TEST(span, matrix_gives_memory_a_shape) {
  std::vector<float> v(6);
  const auto m = matrix(v, 2, 3);
  static_assert(std::is_same_v<decltype(m), const rlcore::matrix_view<float>>);
  m(1, 0) = 4;
  EXPECT_EQ(v[3], 4);
  const auto& c = v;
  static_assert(std::is_same_v<decltype(matrix(c, 3, 2)), rlcore::matrix_view<const float>>);
  EXPECT_EQ(matrix(v.data(), 3, 2).row(2), v.data() + 4);
  EXPECT_EQ(matrix(std::span(v).first(4), 2, 2).size(), 4);
  std::vector<float> none;
  EXPECT_EQ(matrix(none, 0, 7).shape, (extents<2>{0, 7}));
}

template <class F>
std::string complaint(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no exception";
}

TEST(span, matrix_names_both_shapes) {
  std::vector<float> v(6);
  EXPECT_EQ(complaint([&] { matrix(v, 2, 4); }), "rlcore: matrix of shape [2, 4] over a vector of shape [6]");
  EXPECT_EQ(complaint([&] { matrix(v, -2, -3); }), "rlcore: matrix of shape [-2, -3]: negative extent");
  // The product of these is 6 modulo 2^64.
  EXPECT_EQ(complaint([&] { matrix(v, std::int64_t{1} << 33, (std::int64_t{1} << 31) + 3); }).substr(0, 16),
            "rlcore: matrix o");
  const rlcore::vector_view<float> every_second(v.data(), {3}, {2});
  EXPECT_NE(complaint([&] { matrix(every_second, 3, 1); }).find("stride 2"), std::string::npos);
}

TEST(span, temporaries_that_own_are_told_from_those_that_do_not) {
  static_assert(!rlcore::borrowed_tensor<std::vector<float>> && !rlcore::borrowed_tensor<std::array<float, 2>>);
  static_assert(rlcore::borrowed_tensor<std::span<float>> && rlcore::borrowed_tensor<rlcore::vector_view<float>>);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
