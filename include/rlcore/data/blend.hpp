// Blend of several datasets: their rows in one order.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/data/interleave.hpp"
#include "rlcore/data/row.hpp"

RLCORE_BEGIN
namespace data {

/// The rows of all sets in the order of use.
struct blend {
  std::vector<table> sets;
  std::vector<row_place> order;

  std::size_t size() const noexcept { return order.size(); }
  /// Row i in the order of use.
  const row& operator[](std::size_t i) const { return sets[order[i].set].rows[order[i].row]; }
  /// "<file>: row <n>"
  std::string where(std::size_t i) const { return row_text(sets[order[i].set].file, order[i].row); }
  /// The folder of its file, the base of relative image paths.
  std::filesystem::path folder(std::size_t i) const {
    return std::filesystem::path(sets[order[i].set].file).parent_path();
  }
};

}  // namespace data
RLCORE_END
