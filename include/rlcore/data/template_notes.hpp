// What chat templates do with the rows of a data set, counted for the notes of a run.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/dropped_parts.hpp"

RLCORE_BEGIN
namespace data {

/// Counts the rows of which a sentence is true, such as "the chat template leaves out reasoning_content".
class template_notes {
 public:
  /// Counts the row that `where` names.
  void add(const std::string& sentence, const std::string& where) {
    auto& [rows, first] = counts_[sentence];
    if (rows++ == 0) first = where;
  }
  /// Counts the row for each kind of part that the template drops there.
  void add(std::span<const text::dropped_part> dropped, const std::string& where) {
    std::set<std::string> labels;
    for (const text::dropped_part& p : dropped)
      if (labels.insert(p.label).second)
        add("the chat template leaves out " + p.label, where + ": messages[" + std::to_string(p.message) + "]");
  }
  /// The sentences with their counts and the first row of each.
  std::vector<std::string> sentences() const {
    std::vector<std::string> all;
    for (const auto& [sentence, counted] : counts_)
      all.push_back(sentence + " in " + std::to_string(counted.rows) +
                    (counted.rows == 1 ? " row: " : " rows, first in ") + counted.first);
    return all;
  }

 private:
  struct count {
    std::size_t rows = 0;
    std::string first{};
  };
  std::map<std::string, count> counts_;
};

}  // namespace data
RLCORE_END
