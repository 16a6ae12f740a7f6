// The golden file of tests/reference/optim.py.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace rlcore_test {

inline const nlohmann::json& optim_golden() {
  static const nlohmann::json golden = [] {
    std::ifstream in(std::string(RLCORE_REFERENCE_DIR) + "/optim.json");
    return nlohmann::json::parse(in);
  }();
  return golden;
}

}  // namespace rlcore_test
