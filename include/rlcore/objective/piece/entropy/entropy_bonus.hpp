// The entropy term of a policy loss.
#pragma once

#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/entropy/token_entropy.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -coefficient H: rewards entropy. The report shows H itself.
constexpr scaled<token_entropy> entropy_bonus(double coefficient) noexcept { return {-coefficient, token_entropy{}}; }

RLCORE_ALGORITHM_END
RLCORE_END
