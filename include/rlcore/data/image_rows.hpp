// Images of data rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/message.hpp"

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

class image_cache;

/// How rows with images are read.
struct image_settings {
  std::string image_key = "images", video_key = "videos";      ///< columns: data.image_key, data.video_key
  std::optional<image::processor_settings> processor = {};     ///< the model's; unset: the model is text-only
  std::int32_t token = -1;                                     ///< image placeholder token: <|image_pad|>
  std::int32_t video = -1;                                     ///< video placeholder token: <|video_pad|>
  std::string written = {};                                    ///< text for an image when no chat template is used
  std::string model = "the model";                             ///< the model's name in error messages
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< images per row: --data.max_images_per_prompt
  bool strip = false;                                          ///< strips white space around marks, as OpenRLHF does
  std::shared_ptr<image_cache> cache = {};                     ///< decodes the patches; shared by all rows
};

namespace detail {

/// "2 <image> marks (messages[1]: 2)".
std::string marks_text(std::span<const text::message> messages, std::size_t marks);
inline std::string images_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " image" : " images");
}

/// Throws data_error for a row with images, which this reader does not support.
void refuse_images(const row& from, std::span<const text::message> messages, std::size_t marks,
                   const image_settings& settings, const std::string& where);

}  // namespace detail

/// The images of a row, in order; splits the messages at their marks. Changes nothing for rows without marks and
/// images. Throws data_error with `where` unless every mark has an image and every image a mark, for videos, and
/// for a row with images if the model is text-only. Relative paths start in `folder`.
std::vector<image_pointer> take_images(const row& from, std::vector<text::message>& messages,
                                       const image_settings& settings, const std::string& where,
                                       const std::filesystem::path& folder);

/// Splits another conversation with the same `images` at its marks. Throws data_error with `where` unless it has as
/// many marks.
void show_again(std::vector<text::message>& messages, std::size_t images, const image_settings& settings,
                const std::string& where);

/// Token count of an image, from its header. Throws data_error for one that is over 200 times as long as wide.
std::size_t count_image_tokens(const image_file& of, const image_settings& settings);

/// Statistics of the rows with images.
struct image_counts {
  std::size_t rows = 0, left_out = 0;  ///< rows read; rows of these dropped as too long
  image::size largest = {};            ///< size of the kept image with the most tokens
  std::size_t most_tokens = 0;         ///< token count of that image

  /// Counts a row and, if it is kept, its images. Ignores rows without images.
  void add_row(std::span<const image_pointer> shown, const image_settings& settings, bool is_left);
};

/// Number of tokens added when each image token is expanded to the image's token count.
inline std::size_t count_added_tokens(std::span<const image_pointer> images, const image_settings& settings) {
  std::size_t added = 0;
  for (const image_pointer& i : images) added += count_image_tokens(*i, settings) - 1;
  return added;
}

/// Throws data_error unless the row has one image token for each image.
void check_image_tokens(std::span<const std::int32_t> ids, std::size_t images, const image_settings& settings,
                        const std::string& where);

/// A message as text, with settings.written for each image.
std::string written_text(const text::message& m, const image_settings& settings);

/// Calls each(id, count) for every token with its count in the expanded sequence: 1, or the token count of its image
/// for an image token. The k-th image token belongs to image k; check_image_tokens() must have passed.
template <class Each>
void for_expanded_tokens(std::span<const std::int32_t> ids, std::span<const image_pointer> images,
                         const image_settings& settings, Each&& each) {
  std::size_t image = 0;
  for (const std::int32_t id : ids)
    each(id, id == settings.token && image < images.size() ? count_image_tokens(*images[image++], settings) : 1);
}

/// The model's input sequence, with expanded image tokens.
std::vector<std::int32_t> expand_image_tokens(std::vector<std::int32_t> ids, std::span<const image_pointer> images,
                                              const image_settings& settings);

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
    throw data_error(where + ": images in column '" + printable(key) + "', but " + image::no_images_message);
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

namespace data::detail {

RLCORE_INLINE std::string marks_text(std::span<const text::message> messages, std::size_t marks) {
  std::string text = std::to_string(marks) + (marks == 1 ? " <image> mark" : " <image> marks"), places;
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (const std::size_t n =
            messages[i].parts.empty() ? text::count_image_marks(messages[i].content) : messages[i].images();
        n > 0)
      places += (places.empty() ? "" : ", ") + ("messages[" + std::to_string(i) + "]: ") + std::to_string(n);
  return places.empty() ? text : text + " (" + printable(places) + ")";
}

RLCORE_INLINE void refuse_images(const row& from, std::span<const text::message> messages, std::size_t marks,
                                 const image_settings& settings, const std::string& where) {
  const bool shown = has_content(from, settings.image_key);
  const bool parts = std::any_of(messages.begin(), messages.end(), [](const auto& m) { return m.images() > 0; });
  if (!parts && (marks == 0 || !shown)) return;
  throw data_error(where + ": " + marks_text(messages, marks) +
                   (shown ? " and images in column '" + printable(settings.image_key) + "'" : std::string()) +
                   ", but " + settings.model + " reads no images: its config.json has no vision_config");
}

}  // namespace data::detail

namespace data {

RLCORE_INLINE std::vector<image_pointer> take_images(const row& from, std::vector<text::message>& messages,
                                                     const image_settings& settings, const std::string& where,
                                                     const std::filesystem::path& folder) {
  std::size_t marks = 0;
  for (const text::message& m : messages) marks += m.parts.empty() ? text::count_image_marks(m.content) : m.images();
  if (!settings.processor)
    return detail::refuse_images(from, messages, marks, settings, where), std::vector<image_pointer>();
  if (has_content(from, settings.video_key))
    throw data_error(where + ": column '" + printable(settings.video_key) +
                     "' has content; videos are not read, only images");
  if (marks == 0 && !has_content(from, settings.image_key)) return {};
  if (!from.contains(settings.image_key))
    throw data_error(where + ": " + detail::marks_text(messages, marks) + ", but no column '" +
                     printable(settings.image_key) + "' with images (data.image_key); it has " +
                     printable(column_names(from), 300));
  std::vector<image_pointer> images = read_images(from, settings.image_key, where, folder, settings.processor->decode);
  if (images.size() != marks)
    throw data_error(where + ": " + detail::marks_text(messages, marks) + ", but " +
                     detail::images_text(images.size()) + " in column '" + printable(settings.image_key) +
                     "'; each mark takes the next image");
  if (images.size() > settings.most)
    throw data_error(where + ": " + detail::images_text(images.size()) + ", but --data.max_images_per_prompt is " +
                     std::to_string(settings.most));
  for (text::message& m : messages) {
    if (m.parts.empty() && m.content.find("<video>") != m.content.npos)
      throw data_error(where + ": a mark <video> beside images; videos are not read, only images");
    text::cut_at_image_marks(m, settings.strip);
  }
  return images;
}

RLCORE_INLINE void show_again(std::vector<text::message>& messages, std::size_t images, const image_settings& settings,
                              const std::string& where) {
  if (!settings.processor) return;
  std::size_t marks = 0;
  for (const text::message& m : messages) marks += m.parts.empty() ? text::count_image_marks(m.content) : m.images();
  if (marks != images)
    throw data_error(where + ": " + detail::marks_text(messages, marks) + ", but " + detail::images_text(images) +
                     " in column '" + printable(settings.image_key) + "'; each mark takes the next image");
  if (images == 0) return;
  for (text::message& m : messages) text::cut_at_image_marks(m, settings.strip);
}

RLCORE_INLINE std::size_t count_image_tokens(const image_file& of, const image_settings& settings) {
  try {
    return static_cast<std::size_t>(image::token_count(of.size, *settings.processor));
  } catch (const format_error& e) {
    throw data_error(of.name + ": " + e.what());
  }
}

RLCORE_INLINE void image_counts::add_row(std::span<const image_pointer> shown, const image_settings& settings,
                                         bool is_left) {
  rows += !shown.empty();
  left_out += !shown.empty() && !is_left;
  if (!is_left) return;
  for (const image_pointer& i : shown)
    if (const std::size_t tokens = count_image_tokens(*i, settings); tokens > most_tokens)
      most_tokens = tokens, largest = i->size;
}

RLCORE_INLINE void check_image_tokens(std::span<const std::int32_t> ids, std::size_t images,
                                      const image_settings& settings, const std::string& where) {
  if (!settings.processor) return;
  if (settings.video >= 0 && std::find(ids.begin(), ids.end(), settings.video) != ids.end())
    throw data_error(where + ": <|video_pad|> may not stand in a message; videos are not read, only images");
  const auto found = static_cast<std::size_t>(std::count(ids.begin(), ids.end(), settings.token));
  if (found == images) return;
  throw data_error(where + ": the conversation as text has " + std::to_string(found) + " image tokens for " +
                   detail::images_text(images) +
                   (found > images
                        ? "; <|image_pad|> may not stand in a message"
                        : "; expected a chat template that writes <|image_pad|> for each, such as qwen2.5-vl"));
}

RLCORE_INLINE std::string written_text(const text::message& m, const image_settings& settings) {
  if (m.parts.empty()) return m.content;
  std::string text;
  for (const text::message_part& p : m.parts) text += p.image ? settings.written : p.text;
  return text;
}

RLCORE_INLINE std::vector<std::int32_t> expand_image_tokens(std::vector<std::int32_t> ids,
                                                            std::span<const image_pointer> images,
                                                            const image_settings& settings) {
  if (images.empty()) return ids;
  std::vector<std::int32_t> expanded;
  expanded.reserve(ids.size() + count_added_tokens(images, settings));
  for_expanded_tokens(ids, images, settings,
                      [&](std::int32_t id, std::size_t count) { expanded.insert(expanded.end(), count, id); });
  return expanded;
}

}  // namespace data
RLCORE_END
#endif
