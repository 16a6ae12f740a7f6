// Reads the column `images` of a row.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/data/row.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace data {

namespace detail {

/// Reads one element of the column.
class image_value {
 public:
  image_value(std::string name, const std::filesystem::path& folder, const image::decode_settings& decode)
      : name_(std::move(name)), folder_(folder), decode_(decode) {}

  image_pointer operator()(const row& value) const;

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    throw data_error(name_ + " is " + found + R"(; expected a path, {"bytes": ...}, {"path": ...} or a data URI)");
  }
  static const row* member(const row& of, const char* key) {
    const auto found = of.find(key);
    return found == of.end() || found->is_null() ? nullptr : &*found;
  }
  std::string named(const std::string& shown) const {
    return shown.empty() ? name_ : name_ + " (" + printable(shown) + ")";
  }

  image_pointer from_bytes(const std::vector<std::uint8_t>& bytes, const std::string& shown) const {
    return make_image_file(named(shown), bytes, {}, decode_);
  }
  image_pointer from_base64(std::string_view digits, const std::string& shown) const {
    auto bytes = text::from_base64(digits);
    if (!bytes) throw data_error(named(shown) + ": '" + printable(digits, 40) + "' is not base64");
    return make_image_file(named(shown), *std::move(bytes), {}, decode_);
  }
  image_pointer from_text(std::string_view given) const;
  /// Resolves a relative path in the folder of the rows' file, or else in the working directory.
  std::filesystem::path find(std::string_view given) const;

  std::string name_;
  const std::filesystem::path& folder_;
  const image::decode_settings& decode_;
};

}  // namespace detail

/// The images in column `key` of a row, in order; none if it has no content. An element is a path, {"bytes": ...}
/// (base64 in JSON), {"path": ...} or a data URI; relative paths start in `folder`. Only headers are read. Throws
/// data_error with `where` and the index of the image.
std::vector<image_pointer> read_images(const row& from, const std::string& key, const std::string& where,
                                       const std::filesystem::path& folder, const image::decode_settings& decode = {});

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data::detail {

RLCORE_INLINE image_pointer image_value::operator()(const row& value) const {
  if (value.is_string()) return from_text(value.get_ref<const std::string&>());
  if (value.is_binary() && !text::is_big_integer(value)) return from_bytes(value.get_binary(), "");
  if (!value.is_object()) refuse(value.is_null() ? "null" : printable(text::exact_dump(value), 60));
  for (const auto& [key, ignored] : value.items())
    if (key != "bytes" && key != "path" && key != "image")
      throw data_error(name_ + ": {\"" + printable(key) + "\": ...} is not known; expected bytes, path" +
                       did_you_mean(key, std::array<std::string, 2>{"bytes", "path"}));
  const row *bytes = member(value, "bytes"), *path = member(value, "path"), *image = member(value, "image");
  const std::string shown = path != nullptr && path->is_string() ? path->get<std::string>() : "";
  if (bytes != nullptr && image == nullptr) {
    if (bytes->is_binary() && !text::is_big_integer(*bytes)) return from_bytes(bytes->get_binary(), shown);
    if (bytes->is_string()) return from_base64(bytes->get_ref<const std::string&>(), shown);
    throw data_error(name_ + ": \"bytes\" is " + printable(text::exact_dump(*bytes), 60) +
                     "; expected the bytes of a file, in JSON as base64");
  }
  const row* place = path == nullptr ? image : path;
  if (place == nullptr || !place->is_string() || (path != nullptr && image != nullptr) || bytes != nullptr)
    refuse("neither bytes nor a path");
  return from_text(place->get_ref<const std::string&>());
}

RLCORE_INLINE image_pointer image_value::from_text(std::string_view given) const {
  if (given.starts_with("data:")) {
    const std::size_t comma = given.find(',');
    if (comma == given.npos || !given.substr(0, comma).ends_with(";base64"))
      throw data_error(name_ + ": '" + printable(given, 40) + "' is no data:image/...;base64,...");
    return from_base64(given.substr(comma + 1), "");
  }
  if (given.starts_with("file://")) given.remove_prefix(7);
  if (const std::size_t scheme = given.find("://"); scheme != given.npos && scheme < given.find('/'))
    throw data_error(name_ + ": '" + printable(given) + "': nothing is downloaded; expected a file on this machine");
  if (given.empty()) refuse("an empty path");
  const std::filesystem::path path = find(given);
  const std::string name = named(path.string());
  return make_image_file(name, read_image_bytes(path, name), path, decode_);
}

RLCORE_INLINE std::filesystem::path image_value::find(std::string_view given) const {
  const std::filesystem::path path(given), beside = folder_ / path;
  std::error_code ignored;
  if (path.is_absolute() || std::filesystem::exists(beside, ignored) || folder_.empty()) return beside;
  if (std::filesystem::exists(path, ignored)) return path;
  throw data_error(name_ + ": '" + printable(given) + "' is neither in " + printable(folder_.string()) +
                   " nor in the working directory");
}

}  // namespace data::detail

namespace data {

RLCORE_INLINE std::vector<image_pointer> read_images(const row& from, const std::string& key, const std::string& where,
                                                     const std::filesystem::path& folder,
                                                     const image::decode_settings& decode) {
  std::vector<image_pointer> images;
  if (!has_content(from, key)) return images;
  if (!image::has_images)
    throw data_error(where + ": pictures in column '" + printable(key) + "', but " + image::no_images_message);
  const row& value = from[key];
  const auto read = [&](const row& element) {
    const std::string name = where + ": " + printable(key) + "[" + std::to_string(images.size()) + "]";
    images.push_back(detail::image_value(name, folder, decode)(element));
  };
  if (value.is_array())
    for (const row& element : value) {
      if (!element.is_null()) read(element);  // text-only rows may have [null]
    }
  else
    read(value);
  return images;
}

}  // namespace data
RLCORE_END
#endif
