// What names.awk must refuse.
#pragma once

inline void wanting(std::vector<int>& values) {
  std::an_unknown_name(values);
  nlohmann::json(values);
}
