// Views of Eigen's dense objects: any with elements in memory at regular strides, in either storage order.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Accepts only types derived from Eigen::DenseBase.
template <class Derived>
void accept_eigen_dense(const Eigen::DenseBase<Derived>&);  // never defined

/// Anything dense that Eigen's operators yield, objects and expressions alike, and classes derived from them.
template <class X>
concept eigen_dense = requires(const X& x) { rlcore::accept_eigen_dense(x); };

/// Matrix, Array, Map, Ref, Block, Diagonal, Transpose, ...: objects that own or reference their elements.
template <class X>
concept eigen_strided = eigen_dense<X> && (int{X::Flags} & int{Eigen::DirectAccessBit}) != 0;

/// Vectors and rows and columns of matrices are rank 1, everything else is rank 2, [rows, cols]. Never copies: storage
/// order and strides go into the view.
template <eigen_strided X>
struct tensor_traits<X> {
 private:
  template <class P, int Options, class Stride>
  static std::true_type may_own(const Eigen::Ref<const P, Options, Stride>*);  // holds a copy if strides do not fit
  template <class P>
  static std::true_type may_own(const Eigen::PlainObjectBase<P>*);
  static std::false_type may_own(const void*);

  template <class E>
  RLCORE_FN static auto view_at(E* data, const X& x) noexcept {
    const auto inner = static_cast<extent_t>(x.innerStride());
    if constexpr (X::IsVectorAtCompileTime) {
      return vector_view<E>(data, {x.size()}, {inner});
    } else {
      const auto outer = static_cast<extent_t>(x.outerStride());
      return matrix_view<E>(data, {x.rows(), x.cols()},
                            X::IsRowMajor ? extents<2>{outer, inner} : extents<2>{inner, outer});
    }
  }

 public:
  static constexpr bool borrowed = !decltype(may_own(static_cast<const X*>(nullptr)))::value;
  RLCORE_FN static auto view_of(X& x) noexcept { return view_at(x.data(), x); }
  RLCORE_FN static auto view_of(const X& x) noexcept { return view_at(x.data(), x); }
};

/// Sums, products, maps of functions: expressions have no memory to point to.
template <eigen_dense X>
  requires(!eigen_strided<X>)
struct tensor_traits<X> {
  static constexpr bool borrowed = true;
  template <class Y>
  RLCORE_FN static matrix_view<const typename X::Scalar> view_of(Y&) noexcept {
    static_assert(dependent_false<Y>,
                  "rlcore: this Eigen expression is lazy, its elements are not in memory; call .eval() into a named "
                  "matrix first, e.g. Eigen::MatrixXf sum = (a + b).eval(); and pass that");
    return {};
  }
};

RLCORE_END
