// Numbers that carry their derivative: those that are installed for everyone.
#pragma once

#include "rlcore/objective/piece/slope_check.hpp"

namespace testing_dual {
using rlcore::dual;
}
