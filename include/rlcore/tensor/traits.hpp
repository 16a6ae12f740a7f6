// The one customisation point for containers: specialise tensor_traits, never overload.
#pragma once

#include <type_traits>

#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Specialise with `static view<T, Rank> view_of(X& x)` to let objects of type X be passed to every objective.
/// It must not copy. A container that cannot be viewed without a copy must fail with a static_assert that says why.
template <class X>
struct tensor_traits {};

template <class X>
concept viewable = requires(X& x) {
  tensor_traits<std::remove_cvref_t<X>>::view_of(x);
};

template <class>
inline constexpr bool dependent_false = false;

/// The view of any supported container, without a copy. The container must outlive the view.
template <class X>
auto as_view(X&& x) {
  if constexpr (viewable<std::remove_reference_t<X>>) {
    return tensor_traits<std::remove_cvref_t<X>>::view_of(x);
  } else {
    static_assert(
        dependent_false<X>,
        "rlcore: this type has no tensor_traits; include rlcore/tensor/eigen.hpp or rlcore/tensor/xtensor.hpp "
        "for those libraries, pass a std::span, std::vector or rlcore::view, or specialise rlcore::tensor_traits");
  }
}

template <class T, std::size_t Rank>
struct tensor_traits<view<T, Rank>> {
  static view<T, Rank> view_of(const view<T, Rank>& v) noexcept { return v; }
};

RLCORE_END
