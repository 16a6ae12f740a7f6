// Multimodal options of the server.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace trainer {

/// --limit-mm-per-prompt, --mm-processor-kwargs, --allowed-local-media-path and similar.
struct media_options {
  std::size_t most_images = 16;         ///< of a request
  std::filesystem::path local_files{};  ///< file:// is read below this folder, an absolute path; empty: nowhere
  image_options images{};
};

namespace detail {

/// The members of a flag's JSON object. Throws config_error.
nlohmann::ordered_json object_of(const std::string& flag, const std::string& text);

/// A whole number that is at least `least`. Throws config_error.
std::int64_t whole_number(const std::string& name, const nlohmann::ordered_json& found, std::int64_t least);

/// {"image": 4}, or vLLM's older image=4,video=0, as an object. Throws config_error.
nlohmann::ordered_json read_media_limits(const std::string& text);

/// The image limit; the limits of videos and audio are only checked, neither is supported. Throws config_error.
std::size_t most_images_of(const nlohmann::ordered_json& limits);

/// {"min_pixels": N, "max_pixels": N}. Throws config_error.
void read_pixel_limits(const std::string& text, image_options& o);

}  // namespace detail

/// Reads the flags of keys::server_media, and keys::image_pixels. Throws config_error.
media_options read_media_options(const options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer::detail {

RLCORE_INLINE nlohmann::ordered_json object_of(const std::string& flag, const std::string& text) {
  auto object = text::parse_json<config_error, nlohmann::ordered_json>(text, flag);
  if (!object.is_object())
    throw config_error(flag + ": expected a JSON object, found " + std::string(object.type_name()));
  return object;
}

RLCORE_INLINE std::int64_t whole_number(const std::string& name, const nlohmann::ordered_json& found,
                                        std::int64_t least) {
  const bool whole = found.is_number_integer() && found <= std::int64_t{1} << 50;
  if (!whole || found.get<std::int64_t>() < least)
    throw config_error(name + "=" + text::json_text(found) + ": expected a whole number, " + std::to_string(least) +
                       " or more");
  return found.get<std::int64_t>();
}

RLCORE_INLINE nlohmann::ordered_json read_media_limits(const std::string& text) {
  const std::string flag = "--limit-mm-per-prompt";
  if (text.find('{') != text.npos || text.find('=') == text.npos) return object_of(flag, text);
  nlohmann::ordered_json object;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t equal = std::min(item.find('='), item.size());
    const std::string_view digits = item.substr(std::min(equal + 1, item.size()));
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (code != std::errc() || end != digits.data() + digits.size())
      throw config_error(flag + " " + text + R"(: expected {"image": N}, or image=N)");
    object[std::string(item.substr(0, equal))] = number;
  }
  return object;
}

RLCORE_INLINE std::size_t most_images_of(const nlohmann::ordered_json& limits) {
  static constexpr std::array<std::string_view, 3> kinds{"image", "video", "audio"};
  std::size_t most = media_options().most_images;
  for (const auto& [kind, limit] : limits.items()) {
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      throw config_error("--limit-mm-per-prompt: '" + kind + "' is unknown" + did_you_mean(kind, kinds) +
                         "; expected image, video or audio");
    const std::int64_t number = whole_number("--limit-mm-per-prompt." + kind, limit, 0);
    if (kind == "image") most = static_cast<std::size_t>(number);
  }
  return most;
}

RLCORE_INLINE void read_pixel_limits(const std::string& text, image_options& o) {
  static constexpr std::array<std::string_view, 2> known{"min_pixels", "max_pixels"};
  const nlohmann::ordered_json limits = object_of(o.limits_from, text);
  for (const auto& [name, limit] : limits.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw config_error(o.limits_from + ": '" + name + "' is unknown" + did_you_mean(name, known) +
                         "; expected min_pixels or max_pixels");
    (name == "min_pixels" ? o.min_pixels : o.max_pixels) = whole_number(o.limits_from + "." + name, limit, 1);
  }
}

}  // namespace trainer::detail

namespace trainer {

RLCORE_INLINE media_options read_media_options(const options& opt) {
  media_options o;
  if (const auto text = opt.find<std::string>("limit-mm-per-prompt"))
    o.most_images = detail::most_images_of(detail::read_media_limits(*text));
  o.images.limits_from = "--mm-processor-kwargs";
  if (const auto text = opt.find<std::string>("mm-processor-kwargs")) detail::read_pixel_limits(*text, o.images);
  read_image_pixels(o.images, opt);
  o.images.cache_bytes = 0;  // images from clients are not shared between requests
  if (const auto folder = opt.find<std::string>("allowed-local-media-path"); folder && !folder->empty()) {
    std::error_code failure;
    o.local_files = std::filesystem::canonical(*folder, failure);
    if (failure || !std::filesystem::is_directory(o.local_files, failure))
      throw config_error("--allowed-local-media-path " + *folder + " is no folder");
  }
  return o;
}

}  // namespace trainer
RLCORE_END
#endif
