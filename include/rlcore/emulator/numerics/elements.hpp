// Conversions between the elements of strided device tensors and rows of float, double or 64-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "rlcore/core/dtype.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"
#include "rlcore/emulator/tensor.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// A bool tensor's element.
struct truth {
  std::uint8_t bits = 0;
};

/// Calls f with a value of the C++ type that stores elements of `type`.
template <class F>
void with_element(data_type type, F&& f) {
  switch (type) {
    case data_type::float32:
      return f(float{});
    case data_type::float16:
      return f(f16{});
    case data_type::bfloat16:
      return f(bf16{});
    case data_type::float64:
      return f(double{});
    case data_type::int8:
      return f(std::int8_t{});
    case data_type::int16:
      return f(std::int16_t{});
    case data_type::int32:
      return f(std::int32_t{});
    case data_type::int64:
      return f(std::int64_t{});
    case data_type::uint8:
      return f(std::uint8_t{});
    case data_type::uint16:
      return f(std::uint16_t{});
    case data_type::uint32:
      return f(std::uint32_t{});
    case data_type::uint64:
      return f(std::uint64_t{});
    case data_type::boolean:
      return f(truth{});
    default:
      throw outcome_error{507015, "an element of a type that the emulator does not know"};
  }
}

/// An element as Real (float, double or std::int64_t).
template <class Real, class Element>
constexpr Real decode(Element e) {
  if constexpr (std::is_same_v<Element, truth>)
    return static_cast<Real>(e.bits != 0);
  else if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>)
    return static_cast<Real>(static_cast<float>(e));
  else
    return static_cast<Real>(e);
}

/// A Real as an element: one rounding to floating types, toward zero to integers, != 0 to bool.
template <class Element, class Real>
Element encode(Real x, rounding mode, overflow_mode overflow) {
  if constexpr (std::is_same_v<Element, truth>) {
    return {static_cast<std::uint8_t>(x != Real{0})};
  } else if constexpr (std::is_same_v<Element, f16> || std::is_same_v<Element, bf16>) {
    float once;
    if constexpr (std::is_same_v<Real, float>)
      once = x;
    else
      once = to_odd(static_cast<double>(x));
    Element e;
    if constexpr (std::is_same_v<Element, f16>)
      e.bits = to_float16(once, mode, overflow);
    else
      e.bits = to_bfloat16(once, mode, overflow);
    return e;
  } else if constexpr (std::is_integral_v<Element> && std::is_floating_point_v<Real>) {
    if (!(x == x)) return Element{0};
    if (x <= static_cast<Real>(std::numeric_limits<Element>::min())) return std::numeric_limits<Element>::min();
    if (x >= static_cast<Real>(std::numeric_limits<Element>::max())) return std::numeric_limits<Element>::max();
    return static_cast<Element>(x);
  } else {
    return static_cast<Element>(x);
  }
}

/// Calls row(first element of the row counted from the view's storage, stride, count) in row-major order, for rows as
/// long as the strides allow.
template <class Row>
void for_each_row(const tensor& t, Row&& row) {
  std::int64_t shape[8], strides[8];
  int rank = 0;
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    if (t.shape[i] == 0) return;
    if (t.shape[i] == 1) continue;
    if (rank > 0 && strides[rank - 1] == t.strides[i] * t.shape[i]) {
      shape[rank - 1] *= t.shape[i];
      strides[rank - 1] = t.strides[i];
    } else {
      shape[rank] = t.shape[i];
      strides[rank++] = t.strides[i];
    }
  }
  if (rank == 0) return row(t.offset, std::int64_t{1}, std::int64_t{1});
  std::int64_t at[8] = {}, begin = t.offset;
  const int inner = rank - 1;
  for (;;) {
    row(begin, strides[inner], shape[inner]);
    int i = inner - 1;
    for (; i >= 0; --i) {
      begin += strides[i];
      if (++at[i] < shape[i]) break;
      begin -= strides[i] * shape[i];
      at[i] = 0;
    }
    if (i < 0) return;
  }
}

/// to[i] = the view's elements, stored as Element, in row-major order; `base` is the address of element 0 of the
/// storage.
template <class Element, class Real>
void gather_as(const tensor& t, const std::byte* base, Real* to) {
  const auto* from = reinterpret_cast<const Element*>(base);
  for_each_row(t, [&](std::int64_t begin, std::int64_t stride, std::int64_t n) {
    const Element* p = from + begin;
    if (stride == 1) {
      if constexpr (std::is_same_v<Element, Real>)
        std::memcpy(to, p, static_cast<std::size_t>(n) * sizeof(Real));
      else
        for (std::int64_t j = 0; j < n; ++j) to[j] = decode<Real>(p[j]);
    } else if (stride == 0) {
      const Real x = decode<Real>(*p);
      for (std::int64_t j = 0; j < n; ++j) to[j] = x;
    } else {
      for (std::int64_t j = 0; j < n; ++j) to[j] = decode<Real>(p[j * stride]);
    }
    to += n;
  });
}
/// As gather_as(), with the view's element type.
template <class Real>
void gather_elements(const tensor& t, const std::byte* base, Real* to) {
  with_element(t.type, [&](auto kind) { gather_as<decltype(kind)>(t, base, to); });
}

/// The inverse of gather_as() and gather_elements().
template <class Element, class Real>
void scatter_as(const tensor& t, std::byte* base, const Real* from, rounding mode, overflow_mode overflow) {
  auto* to = reinterpret_cast<Element*>(base);
  for_each_row(t, [&](std::int64_t begin, std::int64_t stride, std::int64_t n) {
    Element* p = to + begin;
    if constexpr (std::is_same_v<Element, Real>) {
      if (stride == 1)
        std::memcpy(p, from, static_cast<std::size_t>(n) * sizeof(Real));
      else
        for (std::int64_t j = 0; j < n; ++j) p[j * stride] = from[j];
    } else if (stride == 1 && mode == rounding::nearest_even) {  // the usual mode has its own loop
      for (std::int64_t j = 0; j < n; ++j) p[j] = encode<Element>(from[j], rounding::nearest_even, overflow);
    } else {
      for (std::int64_t j = 0; j < n; ++j) p[j * stride] = encode<Element>(from[j], mode, overflow);
    }
    from += n;
  });
}
/// As scatter_as(), with the view's element type.
template <class Real>
void scatter_elements(const tensor& t, std::byte* base, const Real* from, rounding mode, overflow_mode overflow) {
  with_element(t.type, [&](auto kind) { scatter_as<decltype(kind)>(t, base, from, mode, overflow); });
}

}  // namespace ascend::emulated
RLCORE_END
