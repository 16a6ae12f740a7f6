// SIMD math functions of token pieces (fast_math): branch-free polynomials; the errors stated here are the ones tested.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "rlcore/simd/avx512.hpp"
#include "rlcore/simd/pack.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The constants of the exponential of one floating type. The polynomials are (e^r - 1 - r) / r^2, near-minimax
/// (Chebyshev nodes) on |r| <= ln2/2 and, `wide`, on |r| <= 1/2.
template <class T>
struct exp_constants;

template <>
struct exp_constants<float> {
  static constexpr float lowest = -104.0f, highest = 89.0f;  // beyond: 0 and infinity, also after rounding
  static constexpr float rounder = 0x1.8p23f, log2e = 0x1.715476p0f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr std::uint32_t bias = 127, mantissa = 23;
  static constexpr float narrow[] = {0.5f, 0.16666577f, 0.041666554617f, 0.0083631790527f, 0.0013926183588f};
  static constexpr float wide[] = {0.5f,           0.16666667139f,  0.041666667139f, 0.0083331820716f,
                                   0.00138887377f, 0.000199621762f, 0.0000249224364f};
};

template <>
struct exp_constants<double> {
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr double rounder = 0x1.8p52, log2e = 0x1.71547652b82fep0, ln2_high = 0x1.62e42fefap-1,
                          ln2_low = 0x1.cf79abc9e3b39p-40;
  static constexpr std::uint64_t bias = 1023, mantissa = 52;
  static constexpr double narrow[] = {0.50000000000000010221,     0.16666666666666667453,   0.041666666666624127873,
                                      0.0083333333333300618325,   0.0013888888917213716764, 0.00019841269863053616772,
                                      0.000024801521295954588567, 2.7557268459997228907e-6, 2.762008844530822558e-7,
                                      2.5100385495432247115e-8};
  static constexpr double wide[] = {0.49999999999999999863,     0.16666666666666666658,   0.04166666666666706171,
                                    0.0083333333333333596599,   0.0013888888888704548969, 0.00019841269841146991866,
                                    0.000024801587616145412717, 2.7557319433620242821e-6, 2.7557076636642723479e-7,
                                    2.5051946709721621128e-8,   2.0962955815976075739e-9, 1.6116496514371546473e-10};
};

/// The same for the logarithm: `series` is (log((1 + s) / (1 - s)) / s - 2) / s^2 as a polynomial of s^2, |s| <=
/// 0.1716.
template <class T>
struct log_constants;

template <>
struct log_constants<float> {
  static constexpr float smallest = 0x1p-126f, lift = 0x1p23f, lifted = 23.0f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr std::int32_t root_half = 0x3f3504f3, exponent = -0x800000, mantissa = 23;
  static constexpr float series[] = {0.666666666f, 0.400001218f, 0.285508208f, 0.233304672f};
};

template <>
struct log_constants<double> {
  static constexpr double smallest = 0x1p-1022, lift = 0x1p52, lifted = 52.0;
  static constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b39p-40;
  static constexpr std::int64_t root_half = 0x3fe6a09e667f3bcd, exponent = -0x10000000000000, mantissa = 52;
  static constexpr double series[] = {0.66666666666666663, 0.40000000000000879, 0.28571428570803614,
                                      0.22222222391713917, 0.18181795640132906, 0.15386239702814658,
                                      0.13268773138656886, 0.13086626147840102};
};

/// The functions a piece may call when V is a pack; `exact_math` has the same names for scalars. NaN stays NaN.
struct fast_math {
  /// a in lanes where the condition holds, b in the others.
  template <class T>
  RLCORE_FN static pack<T> select(lane_mask<T> condition, pack<T> a, pack<T> b) noexcept {
    return choose(condition, a, b);
  }
  /// Lanes in which all conditions hold; with any(), at least one of them.
  template <class T, class... M>
  RLCORE_FN static lane_mask<T> all(lane_mask<T> first, M... rest) noexcept {
    return (first & ... & rest);
  }
  /// Lanes in which any of the conditions holds.
  template <class T, class... M>
  RLCORE_FN static lane_mask<T> any(lane_mask<T> first, M... rest) noexcept {
    return (first | ... | rest);
  }
  /// b in lanes where it is the smaller one, else a.
  template <class T>
  RLCORE_FN static pack<T> min(pack<T> a, pack<T> b) noexcept {
    return select(b < a, b, a);
  }
  /// b in lanes where it is the larger one, else a.
  template <class T>
  RLCORE_FN static pack<T> max(pack<T> a, pack<T> b) noexcept {
    return select(b > a, b, a);
  }
  /// x limited to [low, high]; NaN stays NaN.
  template <class T>
  RLCORE_FN static pack<T> clamp(pack<T> x, pack<T> low, pack<T> high) noexcept {
    return select(x < low, low, select(x > high, high, x));
  }
  /// |x|; NaN stays NaN.
  template <class T>
  RLCORE_FN static pack<T> abs(pack<T> x) noexcept {
    return select(x < T(0), -x, x);
  }
  /// -1, 0 or 1; NaN stays NaN.
  template <class T>
  RLCORE_FN static pack<T> sign(pack<T> x) noexcept {
    return select(x > T(0), pack<T>(T(1)), select(x < T(0), pack<T>(T(-1)), x));
  }

  /// e^x: at most 1.25 units in the last place (float and double), also for subnormal results; 0 and infinity beyond.
  template <class T>
  RLCORE_FN static pack<T> exp(pack<T> x) noexcept {
    const auto [r, power] = reduce(x, lane_mask<T>{});
    return power.times(T(1) + multiply_add(r * r, horner(r, exp_constants<T>::narrow), r));
  }
  /// e^x - 1 with relative error of at most 2 units in the last place.
  template <class T>
  RLCORE_FN static pack<T> expm1(pack<T> x) noexcept {
    const auto tiny = near_zero(x);
    const auto [r, power] = reduce(x, tiny);
    const pack<T> m = multiply_add(r * r, horner(r, exp_constants<T>::wide), r);
    return select(tiny, m, power.times_less_one(T(1) + m));
  }
  /// e^x - 1 - x >= 0 with relative error of at most 6 units in the last place: the k3 estimator needs it, and the
  /// plain expression would lose all digits near 0.
  template <class T>
  RLCORE_FN static pack<T> excess(pack<T> x) noexcept {
    const auto tiny = near_zero(x);
    const auto [r, power] = reduce(x, tiny);
    const pack<T> square = r * r, q = horner(r, exp_constants<T>::wide);
    // As in expm1, so that a piece which needs both pays once. inf - inf is NaN.
    const pack<T> less_one = power.times_less_one(T(1) + multiply_add(square, q, r));
    return select(tiny, square * q, less_one - min(x, pack<T>(exp_constants<T>::highest)));
  }

  /// log x: at most 1 unit in the last place, also for subnormal x; -infinity for 0, NaN below it.
  template <class T>
  RLCORE_FN static pack<T> log(pack<T> x) noexcept {
    using k = log_constants<T>;
    using integers = typename lane_types<T>::integers;
    const auto subnormal = x < pack<T>(k::smallest);
    const integers bits = reinterpret_as<integers>(select(subnormal, x * pack<T>(k::lift), x).v);
    // x = 2^n m with m in [1/sqrt2, sqrt2); log m = f - f^2/2 + s (f^2/2 + rest(s^2)) with f = m - 1, s = f / (2 + f)
    const integers above = bits - k::root_half;
    const pack<T> m(reinterpret_as<typename pack<T>::vector>(bits - (above & k::exponent)));
    const pack<T> n = to_floating<T>(above >> k::mantissa) - select(subnormal, pack<T>(k::lifted), pack<T>(T(0)));
    const pack<T> f = m - T(1), s = f / (T(2) + f), z = s * s, half = T(0.5) * f * f;
    const pack<T> rest = multiply_add(s, half + z * horner(z, k::series), n * pack<T>(k::ln2_low));
    const pack<T> y = multiply_add(n, pack<T>(k::ln2_high), f - (half - rest));
    const pack<T> infinity(std::numeric_limits<T>::infinity());
    const pack<T> below = select(x == T(0), -infinity, pack<T>(std::numeric_limits<T>::quiet_NaN()));
    return select(x > T(0), select(x < infinity, y, x), below);
  }
  /// log(1 + x): at most 2 units in the last place, also for the smallest x; -infinity for -1, NaN below it.
  template <class T>
  RLCORE_FN static pack<T> log1p(pack<T> x) noexcept {
    const pack<T> u = T(1) + x, lost = x - (u - T(1)), y = log(u);  // log(u + lost) = log u + lost / u + ...
    const auto inside = (u > T(0)) & (u < pack<T>(std::numeric_limits<T>::infinity()));
    return select(u == T(1), x, select(inside, y + lost / u, y));
  }
  /// The square root of every lane.
  template <class T>
  RLCORE_FN static pack<T> sqrt(pack<T> x) noexcept {
    return each(x, [](T y) { return std::sqrt(y); });
  }
  /// 1 / (1 + e^-x): at most 3 units in the last place.
  template <class T>
  RLCORE_FN static pack<T> sigmoid(pack<T> x) noexcept {
    const pack<T> e = exp(-abs(x));
    return select(x >= T(0), pack<T>(T(1)), e) / (T(1) + e);
  }
  /// log(1 + e^x): at most 2 units in the last place.
  template <class T>
  RLCORE_FN static pack<T> softplus(pack<T> x) noexcept {
    return max(x, pack<T>(T(0))) + log1p(exp(-abs(x)));
  }

 private:
  /// 2^n. Subnormal results and the step to infinity come out right.
  template <class T>
  struct power_of_two {
#if RLCORE_REGISTER_BYTES == 64
    pack<T> n;
    RLCORE_FN pack<T> times(pack<T> x) const noexcept { return avx512_instruction::scale(x.v, n.v); }
    RLCORE_FN pack<T> times_less_one(pack<T> x) const noexcept { return times(x) - T(1); }
#else
    pack<T> low_half, high_half;  // two factors, each of them a normal number
    RLCORE_FN pack<T> times(pack<T> x) const noexcept { return x * low_half * high_half; }
    RLCORE_FN pack<T> times_less_one(pack<T> x) const noexcept {
      return multiply_add(x * low_half, high_half, pack<T>(T(-1)));
    }
#endif
  };

  template <class T>
  struct reduced {
    pack<T> r;
    power_of_two<T> power;  // e^x = e^r * power
  };

  template <class T>
  RLCORE_FN static lane_mask<T> near_zero(pack<T> x) noexcept {
    return (x <= T(0.5)) & (x >= T(-0.5));
  }

  /// x = r + n ln2 with n = 0 where `keep` holds.
  template <class T>
  RLCORE_FN static reduced<T> reduce(pack<T> x, lane_mask<T> keep) noexcept {
    using k = exp_constants<T>;
    x = limited(x);
    // The integer nearest x / ln2 is in the low mantissa bits of the sum.
    const pack<T> shifted = multiply_add(x, pack<T>(k::log2e), pack<T>(k::rounder));
#if RLCORE_REGISTER_BYTES == 64
    const pack<T> whole = select(keep, pack<T>(T(0)), shifted - pack<T>(k::rounder));
    return {remainder(x, whole), {whole}};
#else
    using unsigneds = typename lane_types<T>::unsigneds;  // they wrap around, whatever a NaN has in its bits
    const unsigneds nearest = reinterpret_as<unsigneds>(shifted.v) - reinterpret_as<unsigneds>(pack<T>(k::rounder).v);
    const unsigneds n = nearest & reinterpret_as<unsigneds>(~keep.v);
    // Halves of n by a logical shift of a positive number: arithmetic shifts of 64 bits are missing below AVX-512.
    const unsigneds half = ((n + 4096) >> 1) - 2048;
    return {remainder(x, to_floating<T>(reinterpret_as<typename lane_types<T>::integers>(n))),
            {exponential<T>(half), exponential<T>(n - half)}};
#endif
  }
  template <class T>
  RLCORE_FN static pack<T> remainder(pack<T> x, pack<T> whole) noexcept {
    using k = exp_constants<T>;
    return multiply_add(whole, pack<T>(-k::ln2_low), multiply_add(whole, pack<T>(-k::ln2_high), x));
  }
  /// x within the range of the exponential; NaN stays NaN.
  template <class T>
  RLCORE_FN static pack<T> limited(pack<T> x) noexcept {
    using k = exp_constants<T>;
#if RLCORE_REGISTER_BYTES == 64
    const auto raised = avx512_instruction::at_least(pack<T>(k::lowest).v, x.v);
    return avx512_instruction::at_most(pack<T>(k::highest).v, raised);
#else
    return clamp(x, pack<T>(k::lowest), pack<T>(k::highest));
#endif
  }

  template <class To, class From>
  RLCORE_FN static To reinterpret_as(From v) noexcept {
    return reinterpret_cast<To>(v);
  }

  template <class T>
  RLCORE_FN static pack<T> to_floating(typename lane_mask<T>::vector n) noexcept {
    if constexpr (sizeof(T) == 4) {
      return __builtin_convertvector(n, typename pack<T>::vector);
    } else {  // through 32 bits: converting 64-bit integers is slow below AVX-512
      typedef std::int32_t narrow __attribute__((vector_size(register_bytes / 2)));
      return __builtin_convertvector(__builtin_convertvector(n, narrow), typename pack<T>::vector);
    }
  }

  template <class T>
  RLCORE_FN static pack<T> exponential(typename lane_types<T>::unsigneds n) noexcept {
    return reinterpret_as<typename pack<T>::vector>((n + exp_constants<T>::bias) << exp_constants<T>::mantissa);
  }

  template <class T, std::size_t N>
  RLCORE_FN static pack<T> horner(pack<T> r, const T (&c)[N]) noexcept {
    pack<T> sum(c[N - 1]);
    for (std::size_t i = N - 1; i-- > 0;) sum = multiply_add(sum, r, pack<T>(c[i]));
    return sum;
  }

  template <class T, class F>
  RLCORE_FN static pack<T> each(pack<T> x, F f) noexcept {
    pack<T> y;
    for (std::size_t i = 0; i < pack<T>::lanes; ++i) y.v[i] = f(x.v[i]);
    return y;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
