// A JSON object from a file. Every error names the file, the key, the value and what was expected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The bytes of a file, or the text of one in a GGUF file (text::has_model_file). Throws file_error, format_error.
inline std::string read_model_file(const std::filesystem::path& path) {
  return text::is_gguf(path.parent_path()) ? text::read_model_file(path) : data::read_file(path);
}

/// The object of one file with checked access to its values; mismatches throw format_error.
class json_file {
 public:
  /// Throws file_error, or format_error when the content is not a JSON object.
  explicit json_file(const std::filesystem::path& path) : where_(path.string()) {
    root_ = text::parse_json<format_error>(read_model_file(path), where_);
    if (!root_.is_object()) throw format_error(where_ + ": not a JSON object");
  }

  const nlohmann::json& root() const noexcept { return root_; }
  /// The object under `key`; messages name its keys "key.name". Throws format_error unless it is one.
  json_file section(const std::string& key) const;
  /// This object, overridden by the members of the object under `key`; null counts as absent. Where that object has one
  /// of the keys `together`, none of them is taken from here.
  json_file with_section(const std::string& key, const std::vector<std::string>& together = {}) const;
  /// True if the key is present and not null.
  bool has(const std::string& key) const { return root_.contains(key) && !root_[key].is_null(); }

  /// Throws format_error: the file, the key, its value or that it is missing, `expected`, and the nearest key of the
  /// file.
  [[noreturn]] void fail(const std::string& key, std::string_view expected) const {
    const std::string found = root_.contains(key) ? "is " + data::printable(text::json_text(root_[key])) : "is missing";
    throw format_error(where_ + ": key '" + path_of(key) + "' " + found + "; expected " + std::string(expected) +
                       (root_.contains(key) ? "" : near(key)));
  }
  /// The required integer of a key, from `minimum` to `maximum`.
  std::int64_t integer(const std::string& key, std::int64_t minimum = 1, std::int64_t maximum = INT64_MAX) const;
  /// The required positive number of a key.
  double positive(const std::string& key) const {
    if (!has(key) || !root_[key].is_number() || !(root_[key].get<double>() > 0)) fail(key, "a number > 0");
    return root_[key].get<double>();
  }
  /// The boolean of a key; `absent` if the key is missing or null.
  bool boolean(const std::string& key, bool absent) const {
    if (!has(key)) return absent;
    if (!root_[key].is_boolean()) fail(key, "true or false");
    return root_[key].get<bool>();
  }
  /// The required string of a key.
  std::string string(const std::string& key) const {
    if (!has(key) || !root_[key].is_string()) fail(key, "a string");
    return root_[key].get<std::string>();
  }
  /// One integer or a list of integers; empty if absent or null.
  std::vector<std::int32_t> token_ids(const std::string& key) const;

 private:
  std::string path_of(const std::string& key) const {
    const auto at = paths_.find(key);
    return at != paths_.end() ? at->second : prefix_ + key;
  }
  std::string near(const std::string& key) const {
    std::vector<std::string> keys;
    for (const auto& [name, value] : root_.items()) keys.push_back(data::printable(name));
    return did_you_mean(key, keys);
  }

  std::string where_, prefix_;
  std::map<std::string, std::string> paths_;  // of keys that came from a section
  nlohmann::json root_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE json_file json_file::section(const std::string& key) const {
  if (!has(key) || !root_[key].is_object()) fail(key, "an object");
  json_file part(*this);
  part.root_ = root_[key];
  part.prefix_ = path_of(key) + ".";
  return part;
}

RLCORE_INLINE json_file json_file::with_section(const std::string& key,
                                                const std::vector<std::string>& together) const {
  const json_file part = section(key);
  json_file all(*this);
  const bool has_one =
      std::any_of(together.begin(), together.end(), [&](const std::string& name) { return part.has(name); });
  for (const std::string& name : together)
    if (has_one) all.root_.erase(name);
  for (const auto& [name, value] : part.root_.items())
    if (!value.is_null()) all.root_[name] = value, all.paths_[name] = part.path_of(name);
  return all;
}

RLCORE_INLINE std::int64_t json_file::integer(const std::string& key, std::int64_t minimum,
                                              std::int64_t maximum) const {
  const std::string expected = maximum == INT64_MAX
                                   ? "an integer >= " + std::to_string(minimum)
                                   : "an integer from " + std::to_string(minimum) + " to " + std::to_string(maximum);
  if (!has(key) || !root_[key].is_number_integer()) fail(key, expected);
  const auto value = root_[key].get<std::int64_t>();
  if (value < minimum || value > maximum || (root_[key].is_number_unsigned() && value < 0)) fail(key, expected);
  return value;
}

RLCORE_INLINE std::vector<std::int32_t> json_file::token_ids(const std::string& key) const {
  if (!has(key)) return {};
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : root_[key].is_array() ? root_[key] : nlohmann::json::array({root_[key]})) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
      fail(key, "a token id or a list of token ids");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace checkpoint
RLCORE_END
#endif
