// What a piece returns for one token.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// A piece's value for one token, its slope d value / d `wrt` (by default d value / d logp), and as many diagnostics as
/// the piece has names in `monitors`.
template <class V, std::size_t Monitors = 0>
struct term {
  V value, slope;
  V monitor[Monitors];
};

template <class V>
struct term<V, 0> {
  V value, slope;
};

/// A term with one diagnostic, usually 0 or 1 ("clipped").
template <class V>
using flagged_term = term<V, 1>;

RLCORE_END
