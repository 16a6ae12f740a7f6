// Which device to open, and how.
#pragma once

#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/compute.hpp"

RLCORE_BEGIN

/// What a program says of the device it wants; open_device() makes it.
struct device_settings {
  enum class kind : unsigned char { cpu };
  kind what = kind::cpu;
  /// In what matrix products are taken; by default float32 on the CPU.
  std::optional<compute> type = {};

  int threads = 0;                   ///< cpu: worker threads; 0: one per core
  std::string instruction_set = {};  ///< cpu: see cpu; empty: the best available
};

RLCORE_END
