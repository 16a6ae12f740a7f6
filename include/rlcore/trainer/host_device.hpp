// The processor as the options describe it.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/device/cpu.hpp"
#include "rlcore/trainer/options.hpp"

RLCORE_BEGIN
namespace trainer {

/// A cpu with rlcore.threads threads that computes in rlcore.compute with the kernels of rlcore.instruction_set.
inline cpu host_device(const options& opt) {
  return cpu(static_cast<int>(opt.get<std::int64_t>("rlcore.threads")),
             opt.find<std::string>("rlcore.instruction_set").value_or(""),
             opt.get<std::string>("rlcore.compute") == "bfloat16" ? compute::bfloat16 : compute::float32);
}

}  // namespace trainer
RLCORE_END
