// SIMD register type pack<T>, in which token pieces are evaluated, and sums of its lanes in a fixed order.
//
// Built on the compilers' vector extensions, so one source serves every instruction set. The number of lanes follows
// the predefined macros (packs wider than the machine's registers are slow), which is why everything here lives in the
// namespace of the instruction set and never crosses a public boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/simd/avx512.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

inline constexpr std::size_t register_bytes = RLCORE_REGISTER_BYTES;

/// The register types behind pack<float> and pack<double>.
template <class T>
struct lane_types;

template <>
struct lane_types<float> {
  typedef float values __attribute__((vector_size(register_bytes)));
  typedef std::int32_t integers __attribute__((vector_size(register_bytes)));
  typedef std::uint32_t unsigneds __attribute__((vector_size(register_bytes)));
};

template <>
struct lane_types<double> {
  typedef double values __attribute__((vector_size(register_bytes)));
  typedef std::int64_t integers __attribute__((vector_size(register_bytes)));
  typedef std::uint64_t unsigneds __attribute__((vector_size(register_bytes)));
};

/// One truth value per lane of pack<T>. Not convertible to bool: choose with Math::select.
template <class T>
struct lane_mask {
  using vector = typename lane_types<T>::integers;
  vector v;

  RLCORE_FN friend lane_mask operator&(lane_mask a, lane_mask b) noexcept { return {a.v & b.v}; }
  RLCORE_FN friend lane_mask operator|(lane_mask a, lane_mask b) noexcept { return {a.v | b.v}; }
  RLCORE_FN friend lane_mask operator!(lane_mask a) noexcept { return {~a.v}; }
};

/// register_bytes / sizeof(T) values of type T (float or double) with the arithmetic of T in every lane.
template <class T>
struct pack {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "rlcore: packs hold float or double");
  using value_type = T;
  using vector = typename lane_types<T>::values;
  static constexpr std::size_t lanes = register_bytes / sizeof(T);
  vector v;

  pack() = default;
  /// The lanes of a vector.
  RLCORE_FN pack(vector x) noexcept : v(x) {}
  /// The same value in every lane. Exact literals (0.5f) convert implicitly, settings of type double on request: V(x).
  RLCORE_FN pack(T x) noexcept : v(x - vector{}) {}
  /// A setting of type double in every lane.
  RLCORE_FN explicit pack(double x) noexcept
    requires(!std::is_same_v<T, double>)
      : pack(static_cast<T>(x)) {}
  /// A whole number in every lane.
  RLCORE_FN explicit pack(int x) noexcept : pack(static_cast<T>(x)) {}

  RLCORE_FN friend pack operator+(pack a, pack b) noexcept { return a.v + b.v; }
  RLCORE_FN friend pack operator-(pack a, pack b) noexcept { return a.v - b.v; }
  RLCORE_FN friend pack operator*(pack a, pack b) noexcept { return a.v * b.v; }
  RLCORE_FN friend pack operator/(pack a, pack b) noexcept { return a.v / b.v; }
  RLCORE_FN friend pack operator-(pack a) noexcept { return -a.v; }
  /// Lane by lane.
  RLCORE_FN pack& operator+=(pack b) noexcept { return v += b.v, *this; }
  RLCORE_FN friend lane_mask<T> operator<(pack a, pack b) noexcept { return {a.v < b.v}; }
  RLCORE_FN friend lane_mask<T> operator<=(pack a, pack b) noexcept { return {a.v <= b.v}; }
  RLCORE_FN friend lane_mask<T> operator>(pack a, pack b) noexcept { return {a.v > b.v}; }
  RLCORE_FN friend lane_mask<T> operator>=(pack a, pack b) noexcept { return {a.v >= b.v}; }
  RLCORE_FN friend lane_mask<T> operator==(pack a, pack b) noexcept { return {a.v == b.v}; }
  RLCORE_FN friend lane_mask<T> operator!=(pack a, pack b) noexcept { return {a.v != b.v}; }
};

/// a * b + c: one rounding in the namespaces avx512, avx2 and neon, two in base, which may lack an FMA instruction.
/// Spelled out, since nothing else between RLCORE_BEGIN and RLCORE_END is contracted.
RLCORE_FN pack<float> multiply_add(pack<float> a, pack<float> b, pack<float> c) noexcept {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma) && \
    (RLCORE_REGISTER_BYTES > 16 || defined(__aarch64__))
  return __builtin_elementwise_fma(a.v, b.v, c.v);
#elif RLCORE_REGISTER_BYTES == 64
  return avx512_instruction::multiply_add(a.v, b.v, c.v);
#elif RLCORE_REGISTER_BYTES == 32
  return __builtin_ia32_vfmaddps256(a.v, b.v, c.v);
#elif defined(__aarch64__) && !defined(__clang__)
  return __builtin_aarch64_fmav4sf(a.v, b.v, c.v);
#elif defined(__aarch64__)
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c.v) : "w"(a.v), "w"(b.v));
  return c;
#else
  return a.v * b.v + c.v;
#endif
}
/// The same for doubles.
RLCORE_FN pack<double> multiply_add(pack<double> a, pack<double> b, pack<double> c) noexcept {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma) && \
    (RLCORE_REGISTER_BYTES > 16 || defined(__aarch64__))
  return __builtin_elementwise_fma(a.v, b.v, c.v);
#elif RLCORE_REGISTER_BYTES == 64
  return avx512_instruction::multiply_add(a.v, b.v, c.v);
#elif RLCORE_REGISTER_BYTES == 32
  return __builtin_ia32_vfmaddpd256(a.v, b.v, c.v);
#elif defined(__aarch64__) && !defined(__clang__)
  return __builtin_aarch64_fmav2df(a.v, b.v, c.v);
#elif defined(__aarch64__)
  asm("fmla %0.2d, %1.2d, %2.2d" : "+w"(c.v) : "w"(a.v), "w"(b.v));
  return c;
#else
  return a.v * b.v + c.v;
#endif
}

/// pack<T>::lanes consecutive values from memory of any alignment.
template <class T>
RLCORE_FN pack<T> load(const T* from) noexcept {
  pack<T> p;
  std::memcpy(&p.v, from, sizeof(p.v));
  return p;
}

/// Writes the lanes to memory of any alignment.
template <class T>
RLCORE_FN void store(T* to, pack<T> p) noexcept {
  std::memcpy(to, &p.v, sizeof(p.v));
}

/// Values that lie `stride` elements apart: the slow path for transposed and interleaved storage.
template <class T>
RLCORE_FN pack<T> gather(const T* from, std::ptrdiff_t stride) noexcept {
  pack<T> p;
  for (std::size_t k = 0; k < pack<T>::lanes; ++k) p.v[k] = from[static_cast<std::ptrdiff_t>(k) * stride];
  return p;
}

/// a where the mask holds, else b, lane by lane; the unselected operand may be NaN or infinite.
template <class T>
RLCORE_FN pack<T> choose(lane_mask<T> m, pack<T> a, pack<T> b) noexcept {
  return m.v ? a.v : b.v;
}

/// Lanes [First, First + N) of a vector.
template <std::size_t First, class V, std::size_t... N>
RLCORE_FN auto part_of(V v, std::index_sequence<N...>) noexcept {
  return __builtin_shufflevector(v, v, (First + N)...);
}

/// The floats of half a pack as a pack of doubles.
template <class HalfPack>
RLCORE_FN pack<double> widen(HalfPack x) noexcept {
#if RLCORE_REGISTER_BYTES == 64
  return avx512_instruction::widen(x);
#else
  return __builtin_convertvector(x, pack<double>::vector);
#endif
}

/// The sum of all elements of a vector, repeatedly adding the upper half to the lower.
template <class V>
RLCORE_FN auto sum_elements(V v) noexcept {
  constexpr std::size_t half = sizeof(v) / sizeof(v[0]) / 2;
  if constexpr (half == 1)
    return v[0] + v[1];
  else
    return sum_elements(part_of<0>(v, std::make_index_sequence<half>{}) +
                        part_of<half>(v, std::make_index_sequence<half>{}));
}

/// The sum of all lanes in double.
RLCORE_FN double sum_lanes(pack<double> p) noexcept { return sum_elements(p.v); }
/// The same for floats.
RLCORE_FN double sum_lanes(pack<float> p) noexcept {
  constexpr std::size_t half = pack<double>::lanes;
  return sum_lanes(widen(part_of<0>(p.v, std::make_index_sequence<half>{})) +
                   widen(part_of<half>(p.v, std::make_index_sequence<half>{})));
}

/// Lane-wise sums in double of packs of T, so that a row of any length loses no digits of its sum.
template <class T>
struct wide_sum;

template <>
struct wide_sum<double> {
  pack<double> sum = 0.0;
  RLCORE_FN void add(pack<double> p) noexcept { sum += p; }
  RLCORE_FN double total() const noexcept { return sum_lanes(sum); }
};

template <>
struct wide_sum<float> {
  pack<double> low = 0.0, high = 0.0;
  RLCORE_FN void add(pack<float> p) noexcept {
    constexpr std::size_t half = pack<double>::lanes;
    low += widen(part_of<0>(p.v, std::make_index_sequence<half>{}));
    high += widen(part_of<half>(p.v, std::make_index_sequence<half>{}));
  }
  RLCORE_FN double total() const noexcept { return sum_lanes(low + high); }
};

RLCORE_ALGORITHM_END
RLCORE_END
