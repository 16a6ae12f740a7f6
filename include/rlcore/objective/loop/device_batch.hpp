// Fields in memory that the host cannot read: tensors of a device, by address and shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/tensor.hpp"

RLCORE_BEGIN

/// Non-owning view of contiguous device memory: a vector or a matrix.
template <class T, std::size_t Rank, class Device>
struct device_view {
  T* data = nullptr;
  extents<Rank> shape{};

  device_view() = default;
  /// The elements from p on.
  device_view(T* p, extents<Rank> s) noexcept : data(p), shape(s) {}
  /// The elements of a tensor.
  device_view(tensor<T, Rank, Device>& x) noexcept
    requires(!std::is_const_v<T>)
      : data(x.data()), shape(x.shape()) {}
  /// The elements of a tensor that is only read.
  template <class U>
    requires(std::is_same_v<const U, T>)
  device_view(const tensor<U, Rank, Device>& x) noexcept : data(x.data()), shape(x.shape()) {}
  /// What may be written may be read.
  template <class U>
    requires(std::is_same_v<const U, T>)
  device_view(const device_view<U, Rank, Device>& x) noexcept : data(x.data), shape(x.shape) {}
};

/// Wraps a vector of a device that has one value per row, for a field of packed rows.
template <class T, class Device>
struct per_row_on_device {
  device_view<const T, 1, Device> values;
};
/// A view of `x`, a vector of a device with one value per row.
template <class T, class Device>
  requires(!Device::host_readable)
per_row_on_device<T, Device> per_row(const tensor<T, 1, Device>& x) {
  return {x};
}
/// The same for a tensor that is not const.
template <class T, class Device>
  requires(!Device::host_readable)
per_row_on_device<T, Device> per_row(tensor<T, 1, Device>& x) {
  return {std::as_const(x)};
}
/// The same for a device_view.
template <class T, class Device>
  requires(!Device::host_readable)
per_row_on_device<std::remove_const_t<T>, Device> per_row(const device_view<T, 1, Device>& x) {
  return {{x.data, x.shape}};
}

RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Traits of an argument that should be device memory; empty unless it is a tensor or a view of one.
template <class X>
struct on_device {
  static constexpr std::size_t rank = 0;
};
template <class T, std::size_t Rank, class Device>
struct on_device<device_view<T, Rank, Device>> {
  using element = T;
  using device = Device;
  static constexpr std::size_t rank = Rank;
  static constexpr bool per_row = false;
  static device_view<T, Rank, Device> view(const device_view<T, Rank, Device>& x) { return x; }
};
template <class T, std::size_t Rank, class Device>
struct on_device<tensor<T, Rank, Device>> : on_device<device_view<T, Rank, Device>> {
  static device_view<T, Rank, Device> view(tensor<T, Rank, Device>& x) { return x; }
};
template <class T, std::size_t Rank, class Device>
struct on_device<const tensor<T, Rank, Device>> : on_device<device_view<const T, Rank, Device>> {
  static device_view<const T, Rank, Device> view(const tensor<T, Rank, Device>& x) { return x; }
};
template <class T, class Device>
struct on_device<per_row_on_device<T, Device>> : on_device<device_view<const T, 1, Device>> {
  static constexpr bool per_row = true;
  static device_view<const T, 1, Device> view(const per_row_on_device<T, Device>& x) { return x.values; }
};
/// Of an argument X&&: views may be temporaries.
template <class X>
using argument_on_device = on_device<
    std::conditional_t<on_device<std::remove_cvref_t<X>>::rank != 0 && on_device<std::remove_reference_t<X>>::rank == 0,
                       std::remove_cvref_t<X>, std::remove_reference_t<X>>>;

template <class Field, std::size_t Rank, class V>
void show(Field& field, const V& v) {
  field.shape = {v.shape[0], 1};
  field.stride = {1, 0};
  if constexpr (Rank == 2) field.shape[1] = v.shape[1], field.stride = {v.shape[1], 1};
}

}  // namespace detail
RLCORE_ALGORITHM_END

/// A field whose elements lie in the memory of `Device`: its `data` is a device address.
template <class T, class Device>
struct device_field : token_field<T> {
  device_field() = default;
  /// A vector or a matrix: a tensor, a device_view or per_row() of one.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, device_field>)
  device_field(X&& x) {
    using known = detail::argument_on_device<X>;
    using forms = typename token_field<T>::kind;
    if constexpr (known::rank != 1 && known::rank != 2) {
      static_assert(dependent_false<X>,
                    "rlcore: a field of token_batch<T, Device> is a tensor<T, 1 or 2, Device>, per_row() of one or a "
                    "device_view; upload() what the host has");
    } else if constexpr (!std::is_same_v<typename known::device, Device> ||
                         !std::is_same_v<std::remove_const_t<typename known::element>, std::remove_const_t<T>>) {
      static_assert(dependent_false<X>,
                    "rlcore: this tensor has another element type or lies on another device than the batch's: all "
                    "fields of token_batch<T, Device> and token_gradients<T, Device> are tensors of T on Device");
    } else if constexpr (!std::is_convertible_v<typename known::element*, T*>) {
      static_assert(dependent_false<X>, "rlcore: a gradient is written, this tensor is const");
    } else {
      const auto v = known::view(x);
      this->data = v.data;
      this->form = known::rank == 2 ? forms::matrix : known::per_row ? forms::row : forms::vector;
      detail::show<token_field<T>, known::rank>(*this, v);
    }
  }
  /// Address, form and shape.
  const token_field<T>& address() const noexcept { return *this; }
};

/// A mask in the memory of `Device`: a tensor of bool, integers or float, non-zero where the token counts.
template <class Device>
struct device_mask : token_mask {
  device_mask() = default;
  /// A matrix [rows, tokens], or a vector over the tokens of packed rows: a tensor or a device_view.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, device_mask>)
  device_mask(X&& x) {
    using known = detail::argument_on_device<X>;
    if constexpr (known::rank != 1 && known::rank != 2) {
      static_assert(dependent_false<X>,
                    "rlcore: the mask of token_batch<T, Device> is a tensor<E, 1 or 2, Device> of bool, integers or "
                    "float; upload() what the host has, or set lengths or offsets, which are the host's");
    } else if constexpr (!std::is_same_v<typename known::device, Device>) {
      static_assert(dependent_false<X>, "rlcore: this mask lies on another device than the batch's");
    } else {
      using plain = std::remove_const_t<typename known::element>;
      static_assert((std::is_integral_v<plain> && sizeof(plain) != 2) || std::is_same_v<plain, float>,
                    "rlcore: a mask on a device holds bool, 8, 32 or 64-bit integers or float; non-zero means the "
                    "token counts");
      const auto v = known::view(x);
      data = reinterpret_cast<const std::byte*>(v.data);
      bytes = static_cast<std::uint8_t>(sizeof(plain));
      floating = std::is_same_v<plain, float>;
      matrix = known::rank == 2;
      detail::show<token_mask, known::rank>(*this, v);
    }
  }
  /// Address, element type and shape.
  const token_mask& address() const noexcept { return *this; }
};

/// The same batch with its addresses alone, for code that checks shapes and hands addresses on: the host must not read
/// through them.
template <class T, class Device>
token_batch<T> addresses_of(const token_batch<T, Device>& b) {
  token_batch<T> a;
  a.logp = b.logp.address(), a.old_logp = b.old_logp.address(), a.ref_logp = b.ref_logp.address();
  a.rollout_logp = b.rollout_logp.address(), a.advantage = b.advantage.address(), a.weight = b.weight.address();
  a.entropy = b.entropy.address(), a.value = b.value.address(), a.old_value = b.old_value.address();
  a.target = b.target.address(), a.selected = b.selected.address(), a.mask = b.mask.address();
  a.lengths = b.lengths, a.offsets = b.offsets;
  return a;
}
/// The same of gradients.
template <class T, class Device>
token_gradients<T> addresses_of(const token_gradients<T, Device>& g) {
  return {g.logp.address(), g.entropy.address(), g.value.address(), g.add};
}

RLCORE_END
