// Numbers with names and remarks, in aligned lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// The derived numbers of a run, printed before its first step and in its report.
struct number_table {
  /// One number with its name, and a remark or an empty text.
  struct line {
    std::string name, number, remark;
  };
  std::vector<line> lines;

  /// Appends a line.
  void add(std::string name, std::int64_t number, std::string remark = {}) {
    lines.push_back({std::move(name), std::to_string(number), std::move(remark)});
  }
  /// One line each, numbers flush right.
  std::string text() const {
    std::size_t names = 0, numbers = 0;
    for (const line& l : lines) names = std::max(names, l.name.size()), numbers = std::max(numbers, l.number.size());
    std::string out;
    for (const line& l : lines) {
      out += "  " + l.name + std::string(names - l.name.size() + 2 + numbers - l.number.size(), ' ') + l.number;
      out += l.remark.empty() ? "\n" : "  " + l.remark + "\n";
    }
    return out;
  }
};

}  // namespace trainer
RLCORE_END
