// The one customisation point for containers: specialise tensor_traits, never overload.
#pragma once

#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Specialise with `static view<T, Rank> view_of(X& x)` to let objects of type X be passed to every objective; a second
/// overload for `const X&` returns view<const T, Rank>. It must not copy. A container that cannot be viewed without a
/// copy must fail with a static_assert that says why. Add `static constexpr bool borrowed = true` if X does not own its
/// elements, so that the view of a temporary X is not dangling.
template <class X>
struct tensor_traits {};

/// An X can be viewed: it has a view_of in its tensor_traits.
template <class X>
concept viewable = requires(X& x) { tensor_traits<std::remove_cvref_t<X>>::view_of(x); };

/// X does not own the elements that its view shows.
template <class X>
concept borrowed_tensor = requires { requires tensor_traits<std::remove_cvref_t<X>>::borrowed; };

template <class>
inline constexpr bool dependent_false = false;

/// The view of any supported container, without a copy. The container must outlive the view: a temporary that owns its
/// elements is refused.
template <class X>
RLCORE_FN auto as_view(X&& x) {
  if constexpr (!viewable<std::remove_reference_t<X>>) {
    static_assert(
        dependent_false<X>,
        "rlcore: this type has no tensor_traits; include rlcore/tensor/span.hpp, rlcore/tensor/eigen.hpp or "
        "rlcore/tensor/xtensor.hpp for those containers, pass a rlcore::view, or specialise rlcore::tensor_traits");
    return vector_view<const float>{};
  } else if constexpr (!std::is_lvalue_reference_v<X> && !borrowed_tensor<X>) {
    static_assert(dependent_false<X>,
                  "rlcore: as_view of a temporary would show freed memory; give the container a name first, e.g. "
                  "auto rewards = compute(); auto v = rlcore::as_view(rewards);");
    return vector_view<const float>{};
  } else {
    return tensor_traits<std::remove_cvref_t<X>>::view_of(x);
  }
}

/// The same for a given rank, which is checked: at compile time if the container's type has a static rank, else it
/// throws std::invalid_argument (xt::xarray).
template <std::size_t Rank, class X>
RLCORE_FN auto as_view(X&& x) {
  auto v = rlcore::as_view(static_cast<X&&>(x));
  using found = decltype(v);
  if constexpr (requires { found::rank; }) {
    static_assert(found::rank == Rank,
                  "rlcore: this container has another number of dimensions than as_view<Rank> asks for");
    if constexpr (found::rank == Rank)
      return v;
    else
      return view<typename found::element_type, Rank>{};
  } else {
    return static_cast<view<typename found::element_type, Rank>>(v);
  }
}

RLCORE_ALGORITHM_BEGIN
namespace tensor_views {

/// A view with a static rank as it is; any other converted to a vector (rank 1).
template <class V>
RLCORE_FN auto vector_of(const V& v) {
  if constexpr (requires { V::rank; })
    return v;
  else
    return v.template as<1>();
}
/// f(v); a view with a run-time rank is first converted to the vector or matrix that it must be.
template <class V, class F>
RLCORE_FN void with_vector_or_matrix(const V& v, F f) {
  if constexpr (requires { V::rank; })
    f(v);
  else if (v.dimension == 1)
    f(v.template as<1>());
  else
    f(v.template as<2>());
}

}  // namespace tensor_views
RLCORE_ALGORITHM_END

template <class T, std::size_t Rank>
struct tensor_traits<view<T, Rank>> {
  static constexpr bool borrowed = true;
  RLCORE_FN static view<T, Rank> view_of(const view<T, Rank>& v) noexcept { return v; }
};

RLCORE_END
