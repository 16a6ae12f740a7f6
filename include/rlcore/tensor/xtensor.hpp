// Views of xtensor's containers, adaptors and strided views.
#pragma once

// Since 0.26 the headers lie in folders.
#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xbuffer_adaptor.hpp>
#include <xtensor/core/xexpression.hpp>
#include <xtensor/core/xshape.hpp>
#include <xtensor/core/xtensor_forward.hpp>
#else
#include <xtensor/xbuffer_adaptor.hpp>
#include <xtensor/xexpression.hpp>
#include <xtensor/xshape.hpp>
#include <xtensor/xtensor_forward.hpp>
#endif

#include <array>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Tensor view whose rank is known only at run time, the result of as_view for xt::xarray. Converts to view<T, Rank>
/// (or view<const T, Rank>); the conversion throws std::invalid_argument unless the container has Rank dimensions. Up
/// to 8 dimensions, never allocates.
template <class T>
struct any_rank_view {
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  static constexpr std::size_t most_dimensions = 8;

  T* data = nullptr;
  std::size_t dimension = 0;
  extents<most_dimensions> shape{};
  extents<most_dimensions> stride{};

  /// The same elements with the rank in the type.
  template <std::size_t Rank>
  view<T, Rank> as() const {
    if (dimension != Rank) {
      std::string text = "[";
      for (std::size_t d = 0; d < dimension; ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
      throw std::invalid_argument("rlcore: container of shape " + text + "] has " + std::to_string(dimension) +
                                  " dimensions, expected " + std::to_string(Rank));
    }
    view<T, Rank> v;
    v.data = data;
    for (std::size_t d = 0; d < Rank; ++d) v.shape[d] = shape[d], v.stride[d] = stride[d];
    return v;
  }
  template <class U, std::size_t Rank>
    requires std::is_convertible_v<T (*)[], U (*)[]>
  operator view<U, Rank>() const {
    return as<Rank>();
  }
};

/// Anything that xtensor's operators yield, containers and expressions alike.
template <class X>
concept xtensor_expression = xt::is_xexpression<X>::value;

/// Containers, adaptors, and views by ranges, steps and integers: elements in memory at regular distances.
template <class X>
concept xtensor_strided = xtensor_expression<X> && requires(X& x) {
  x.data() + x.data_offset();
  x.strides()[0];
  requires std::same_as<std::remove_cv_t<std::remove_pointer_t<decltype(x.data())>>, typename X::value_type>;
};

/// Whether the elements outlive an object of type X: true for views of named containers and adaptors of foreign memory.
template <class X>
inline constexpr bool xtensor_borrowed = std::is_lvalue_reference_v<X>;
template <class CT, class... S>
inline constexpr bool xtensor_borrowed<xt::xview<CT, S...>> = xtensor_borrowed<CT>;
template <template <class, class, xt::layout_type, class> class View, class CT, class S, xt::layout_type L, class FST>
inline constexpr bool xtensor_borrowed<View<CT, S, L, FST>> = xtensor_borrowed<CT>;  // xt::xstrided_view
template <class EC, xt::layout_type L, class SC, class Tag>
inline constexpr bool xtensor_borrowed<xt::xarray_adaptor<EC, L, SC, Tag>> = xtensor_borrowed<EC>;
template <class EC, std::size_t N, xt::layout_type L, class Tag>
inline constexpr bool xtensor_borrowed<xt::xtensor_adaptor<EC, N, L, Tag>> = xtensor_borrowed<EC>;
template <class EC, class S, xt::layout_type L, bool SH, class Tag>
inline constexpr bool xtensor_borrowed<xt::xfixed_adaptor<EC, S, L, SH, Tag>> = xtensor_borrowed<EC>;
template <class P, class A>
inline constexpr bool xtensor_borrowed<xt::xbuffer_adaptor<P, xt::no_ownership, A>> = true;

/// Rank as in the type; any_rank_view for xt::xarray and other types with a run-time rank, whose conversion to a view
/// checks it. Throws std::invalid_argument for mutable views that show one element several times (stride 0).
template <xtensor_strided X>
struct tensor_traits<X> {
 private:
  static constexpr auto rank = xt::static_dimension<typename X::shape_type>::value;

  template <class E>
  static auto view_at(E* data, const X& x) {
    using view_type = std::conditional_t < (rank < 0), any_rank_view<E>, view<E, rank<0 ? 0 : std::size_t(rank)>>;
    view_type v;
    v.data = data;
    const std::size_t dimensions = x.dimension();
    if constexpr (rank < 0) {
      if (dimensions > view_type::most_dimensions)
        throw std::invalid_argument("rlcore: container with " + std::to_string(dimensions) +
                                    " dimensions, expected at most " + std::to_string(view_type::most_dimensions));
      v.dimension = dimensions;
    }
    for (std::size_t d = 0; d < dimensions; ++d) {
      v.shape[d] = static_cast<extent_t>(x.shape()[d]);
      v.stride[d] = static_cast<extent_t>(x.strides()[d]);
      if (v.stride[d] != 0) continue;
      if (v.shape[d] > 1 && !std::is_const_v<E>)
        throw std::invalid_argument("rlcore: a broadcast xtensor view (stride 0 in dimension " + std::to_string(d) +
                                    ", extent " + std::to_string(v.shape[d]) +
                                    ") cannot be written; pass it as const or evaluate it into a container");
      if (v.shape[d] <= 1) v.stride[d] = 1;  // xtensor writes 0 for extents of 1, which would not look contiguous
    }
    return v;
  }

 public:
  static constexpr bool borrowed = xtensor_borrowed<X>;
  static auto view_of(X& x) { return view_at(x.data() + x.data_offset(), x); }
  static auto view_of(const X& x) { return view_at(x.data() + x.data_offset(), x); }
};

/// Functions of arrays, broadcasts, views by lists of indices: they have no regularly strided memory.
template <xtensor_expression X>
  requires(!xtensor_strided<X>)
struct tensor_traits<X> {
  static constexpr bool borrowed = true;
  template <class Y>
  static matrix_view<const typename X::value_type> view_of(Y&) noexcept {
    static_assert(dependent_false<Y>,
                  "rlcore: this xtensor expression is lazy or picks elements by index, its elements are not in memory "
                  "at regular distances; evaluate it into a named container first, e.g. xt::xtensor<float, 2> x = "
                  "expression; and pass that");
    return {};
  }
};

RLCORE_END
