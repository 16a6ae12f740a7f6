// Supported Ascend chips (SoCs), by the name of aclrtGetSocName.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend {

/// Families of chips by what their operators can do.
enum class soc_family : unsigned char {
  a2_or_a3,      ///< Ascend910B1 to B4, B2C, B4-1; Ascend910_93xx
  a5,            ///< Ascend950PR_*, Ascend950DT_*; Ascend910_95* before CANN 9.0
  other_ascend,  ///< 310P, 310B, the first generation of 910, and later chips
  unknown        ///< no name, or none of Ascend's
};

/// "Ascend910B" without a suffix is the first generation; Atlas A2 has a number after it.
constexpr soc_family family_of(std::string_view soc) {
  const auto begins = [soc](std::string_view start) { return soc.substr(0, start.size()) == start; };
  constexpr std::string_view a2 = "Ascend910B";
  if (begins("Ascend910_93")) return soc_family::a2_or_a3;
  if (begins(a2) && soc.size() > a2.size() && soc[a2.size()] >= '0' && soc[a2.size()] <= '9')
    return soc_family::a2_or_a3;
  if (begins("Ascend950") || begins("Ascend910_95")) return soc_family::a5;
  return begins("Ascend") ? soc_family::other_ascend : soc_family::unknown;
}

/// Why a chip cannot run rlcore, in one line; empty if it can or is unknown. Without this check, single operators would
/// fail inside CANN.
inline std::string soc_problem(std::string_view soc) {
  const std::string chip = "npu: " + std::string(soc), needed = "Atlas A2 or A3 (Ascend910B1 to B4, Ascend910_93xx)";
  switch (family_of(soc)) {
    case soc_family::a5:
      return chip + " is an A5, whose kernels are others: nobody has tried rlcore there, which needs " + needed;
    case soc_family::other_ascend:
      return chip + (soc == "Ascend910B" ? ", the first generation in spite of its name," : "") +
             " does not have the kernels of rlcore's operators, which need " + needed +
             "; trainer.device=cpu works here";
    default:
      return {};
  }
}

}  // namespace ascend
RLCORE_END
