// Tensor view whose rank is known only at run time.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Result of as_view for containers like xt::xarray. Converts to view<T, Rank> (or view<const T, Rank>); the conversion
/// throws std::invalid_argument unless the container has Rank dimensions. Up to 8 dimensions, never allocates.
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
  operator view<U, Rank>() const { return as<Rank>(); }
};

RLCORE_END
