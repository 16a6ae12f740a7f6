// The devices of a server, with the arithmetic that --dtype says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/training/read_device.hpp"

RLCORE_BEGIN
namespace serving {

/// One for each of --rlcore-ranks, as trainer::open_device() opens those of ranks. With --dtype auto and no
/// rlcore.compute, products read what the model is stored as: bfloat16 if config.json says so, else the device's own
/// format. Throws config_error, file_error, format_error too.
inline std::vector<std::unique_ptr<any_device>> open_served_devices(const trainer::options& opt) {
  device_settings s = trainer::read_device(opt);
  if (!opt.find<std::string>("rlcore.compute") &&
      checkpoint::stored_dtype(checkpoint::resolve_model(opt.get<std::string>("model"))) == "bfloat16")
    s.type = compute::bfloat16;
  const auto ranks = static_cast<int>(opt.get<std::int64_t>("rlcore-ranks"));
  std::vector<std::unique_ptr<any_device>> devices;
  for (int rank = 0; rank < ranks; ++rank)
    devices.push_back(trainer::open_device_or_explain(ranks == 1 ? s : trainer::place_device(s, {rank, ranks})));
  return devices;
}

}  // namespace serving
RLCORE_END
