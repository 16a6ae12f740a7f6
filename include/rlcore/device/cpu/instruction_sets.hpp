// Runtime dispatch of CPU kernels by instruction set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/device/cpu/arguments.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/device/cpu/kernel_sets.hpp"
#endif

RLCORE_BEGIN
namespace cpu_kernels {

/// The sets that this processor can run, best first. kernel_sets.hpp defines it.
std::vector<const table*> available();

/// The set called `name`, or the best one if `name` is empty. Throws device_error if this processor lacks it.
inline const table& choose(std::string_view name = {}) {
  const auto sets = available();
  if (name.empty()) return *sets.front();
  std::vector<std::string> names;
  for (const table* set : sets) {
    if (name == set->name) return *set;
    names.emplace_back(set->name);
  }
  std::string known;
  for (const auto& n : names) known += (known.empty() ? "" : ", ") + n;
  throw device_error("rlcore: cpu: instruction set '" + std::string(name) +
                     "' is not available here; this processor has " + known + did_you_mean(name, names));
}

}  // namespace cpu_kernels

RLCORE_END
