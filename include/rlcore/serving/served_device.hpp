// The device of a server, with the arithmetic that --dtype says.
#pragma once

#include <memory>
#include <string>

#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/training/read_device.hpp"

RLCORE_BEGIN
namespace serving {

/// As trainer::open_device(). With --dtype auto and no rlcore.compute, products read what the model is stored as:
/// bfloat16 if config.json says so, else the device's own format. Throws config_error, file_error, format_error too.
inline std::unique_ptr<any_device> open_served_device(const trainer::options& opt) {
  device_settings s = trainer::read_device(opt);
  if (!opt.find<std::string>("rlcore.compute") &&
      checkpoint::stored_dtype(checkpoint::resolve_model(opt.get<std::string>("model"))) == "bfloat16")
    s.type = compute::bfloat16;
  return trainer::open_device_or_explain(s);
}

}  // namespace serving
RLCORE_END
