// What happens to an importance weight that is too large or too small.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// w as it is: unbiased, of unbounded variance.
struct untreated {
  /// w.
  RLCORE_FN double operator()(double w) const noexcept { return w; }
};

/// min(w, high): truncated importance sampling (TIS, Yao et al. 2025; Ionides 2008). The default is verl's.
struct truncated {
  double high = 2;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high ? high : w; }
};

/// w held in [low, high]. The defaults are OpenRLHF's.
struct clamped {
  double low = 0.5, high = 5;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high ? high : w < low ? low : w; }
};

/// w inside of [low, high], 0 outside: masked importance sampling (MIS), IcePop (Ling team 2025). The token stays in
/// the denominator; a rejection takes it out. The defaults are OpenRLHF's.
struct zero_outside {
  double low = 0.5, high = 5;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high || w < low ? 0.0 : w; }
};

RLCORE_ALGORITHM_END
RLCORE_END
