// Image options of a command line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/image/processor_settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// data.image_key, data.mm_processor_kwargs, rlcore.image_* and similar. Unset options keep the model's values.
struct image_options {
  std::string image_key = "images", video_key = "videos";
  std::optional<std::int64_t> min_pixels = {}, max_pixels = {};
  image::resampling resample = image::resampling::torchvision;
  image::alpha opacity = image::alpha::drop;
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
  o.opacity = opt.get<std::string>("rlcore.image_alpha") == "white" ? image::alpha::white : image::alpha::drop;
}

/// Image settings, for programs with keys::images and keys::image_pixels; OpenRLHF's flags apply if one of them is
/// given. Throws config_error.
image_options read_image_options(const options& opt);

/// Throws config_error for invalid image settings; notes settings of other engines that have no effect.
void check_image_options(options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer

namespace trainer::detail {

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

}  // namespace trainer::detail

namespace trainer {

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
               " has no effect: pictures are prepared here, any number of a prompt "
               "(rlcore.image_cache_mb)");
}

}  // namespace trainer
RLCORE_END
#endif
