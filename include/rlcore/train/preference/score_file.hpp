// Scores of the evaluation rows, one JSON object per line in the order of the data set.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train {

/// Collects the lines; close() writes them.
class score_file {
 public:
  /// An empty path: nothing is kept.
  explicit score_file(std::filesystem::path path) : path_(std::move(path)) {}
  bool wanted() const noexcept { return !path_.empty(); }
  /// Appends one object.
  void add(const nlohmann::ordered_json& scores) { lines_ += text::json_text(scores) + "\n"; }
  /// Replaces the file. Throws file_error.
  void close() const {
    if (!wanted()) return;
    if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path());
    checkpoint::write_file_atomically(path_, lines_);
  }

 private:
  std::filesystem::path path_;
  std::string lines_;
};

}  // namespace train
RLCORE_END
