// Row ranges shared among ranks.
#pragma once

#include "rlcore/parallel/strategy/any_strategy.hpp"

RLCORE_BEGIN
namespace trainer {

/// Neighbouring rows [first, last).
using row_range = parallel::index_range;
using parallel::even_share;
using parallel::gather_parts;
using parallel::share_by_cost;

}  // namespace trainer
RLCORE_END
