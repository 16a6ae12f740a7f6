// Options of images: of trainers, and of the server.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train {

/// data.image_key, data.mm_processor_kwargs, rlcore.image_* and similar. Unset options keep the model's values.
struct image_options {
  std::string image_key = "images", video_key = "videos";
  std::optional<std::int64_t> min_pixels = {}, max_pixels = {};
  image::resampling resample = image::resampling::torchvision;
  image::alpha opacity = image::alpha::white;
  std::size_t cache_bytes = std::size_t{512} << 20;
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< images of a prompt: --data.max_images_per_prompt
  bool strip = false;                                          ///< white space around marks, as OpenRLHF does
  std::string limits_from = "data.mm_processor_kwargs";        ///< option behind min/max_pixels, for messages

  /// A model's processor settings with this command line's changes. Throws config_error if no size fits.
  image::processor_settings of(image::processor_settings model) const;
};

namespace detail {

/// A number of pixels in data.mm_processor_kwargs; anything else throws config_error.
std::int64_t pixels_of(const member& m, const std::string& name);

/// min_pixels and max_pixels count more than size, which has other names for both.
void read_processor_kwargs(image_options& o, const options& opt);

}  // namespace detail

/// Reads keys::image_pixels.
inline void read_image_pixels(image_options& o, const options& opt) {
  o.resample = opt.get<std::string>("rlcore.image_resampling") == "pillow" ? image::resampling::pillow
                                                                           : image::resampling::torchvision;
  o.opacity = opt.get<std::string>("rlcore.image_alpha") == "drop" ? image::alpha::drop : image::alpha::white;
}

/// Image settings, for programs with keys::images and keys::image_pixels; OpenRLHF's flags apply if one of them is
/// given. Throws config_error.
image_options read_image_options(const options& opt);

/// Throws config_error for invalid image settings; notes settings of other engines that have no effect.
void check_image_options(options& opt);

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

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE image::processor_settings image_options::of(image::processor_settings model) const {
  if (min_pixels) model.min_pixels = *min_pixels;
  if (max_pixels) model.max_pixels = *max_pixels;
  if (model.min_pixels > model.max_pixels)
    throw config_error(limits_from + ": at least " + std::to_string(model.min_pixels) + " pixels and at most " +
                       std::to_string(model.max_pixels) + "; expected min_pixels <= max_pixels");
  model.resample = resample;
  model.decode.opacity = opacity;
  return model;
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE std::int64_t pixels_of(const member& m, const std::string& name) {
  const auto* number = m.item.as<std::int64_t>();
  if (number == nullptr || *number < 1)
    throw config_error(name + "." + m.name + "=" + inline_text(m.item) + ": expected a number of pixels, 1 or more");
  return *number;
}

RLCORE_INLINE void read_processor_kwargs(image_options& o, const options& opt) {
  const std::string name = o.limits_from;
  const auto* members = opt.at(name).as<value::map>();
  if (members == nullptr) return;
  const auto size_member = [&](const member& m) {
    if (m.name == "shortest_edge") {
      if (!o.min_pixels) o.min_pixels = pixels_of(m, name + ".size");
    } else if (m.name == "longest_edge") {
      if (!o.max_pixels) o.max_pixels = pixels_of(m, name + ".size");
    } else {
      throw config_error(name + ".size." + m.name + ": expected shortest_edge or longest_edge (numbers of pixels)" +
                         did_you_mean(m.name, std::array<std::string, 2>{"shortest_edge", "longest_edge"}));
    }
  };
  for (const member& m : *members) {
    if (m.name == "min_pixels" && !m.item.is_null()) o.min_pixels = pixels_of(m, name);
    if (m.name == "max_pixels" && !m.item.is_null()) o.max_pixels = pixels_of(m, name);
  }
  for (const member& m : *members) {
    if (m.name == "min_pixels" || m.name == "max_pixels") continue;
    if (m.name != "size")
      throw config_error(name + "." + m.name + " is not known; expected min_pixels, max_pixels or size" +
                         did_you_mean(m.name, std::array<std::string, 3>{"min_pixels", "max_pixels", "size"}));
    if (m.item.is_null()) continue;
    const auto* sizes = m.item.as<value::map>();
    if (sizes == nullptr)
      throw config_error(name + ".size=" + inline_text(m.item) + ": expected {shortest_edge: ..., longest_edge: ...}");
    for (const member& s : *sizes) size_member(s);
  }
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE image_options read_image_options(const options& opt) {
  image_options o;
  o.image_key = opt.get<std::string>("data.image_key");
  o.video_key = opt.get<std::string>("data.video_key");
  read_image_pixels(o, opt);
  o.cache_bytes = static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.image_cache_mb")) << 20;
  detail::read_processor_kwargs(o, opt);
  if (opt.known().find("max_images_per_prompt") == nullptr || !(opt.is_set("pretrain") || opt.is_set("prompt_data")))
    return o;
  o.most = static_cast<std::size_t>(opt.get<std::int64_t>("max_images_per_prompt"));
  o.strip = true;
  return o;
}

RLCORE_INLINE void check_image_options(options& opt) {
  read_image_options(opt);
  const std::string engines = "actor_rollout_ref.rollout.engine_kwargs";
  if (opt.known().find(engines) == nullptr) return;
  const value* vllm = opt.at(engines).find("vllm");
  if (vllm == nullptr) return;
  for (const char* name : {"disable_mm_preprocessor_cache", "limit_mm_per_prompt", "mm_processor_cache_gb"})
    if (vllm->find(name) != nullptr)
      opt.note(engines + ".vllm." + name +
               " has no effect: images are prepared here, any number of a prompt "
               "(rlcore.image_cache_mb)");
}

}  // namespace train

namespace train::detail {

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

}  // namespace train::detail

namespace train {

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

}  // namespace train
RLCORE_END
#endif
