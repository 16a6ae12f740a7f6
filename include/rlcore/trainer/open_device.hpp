// The device as the options describe it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rlcore/device/open_device.hpp"
#include "rlcore/trainer/options.hpp"

RLCORE_BEGIN
namespace trainer {

/// A cpu with rlcore.threads threads that computes in rlcore.compute with the kernels of rlcore.instruction_set.
inline std::unique_ptr<any_device> open_device(const options& opt) {
  device_settings s;
  s.threads = static_cast<int>(opt.get<std::int64_t>("rlcore.threads"));
  s.instruction_set = opt.find<std::string>("rlcore.instruction_set").value_or("");
  s.type = opt.get<std::string>("rlcore.compute") == "bfloat16" ? compute::bfloat16 : compute::float32;
  return rlcore::open_device(s);
}

}  // namespace trainer
RLCORE_END
