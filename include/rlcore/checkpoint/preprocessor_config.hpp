// Image processor configuration: preprocessor_config.json.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The settings of a model's image processor, their file, and a note for the user.
struct model_processor {
  image::processor_settings settings;
  std::filesystem::path file;  ///< empty: no file has settings
  std::string note;            ///< a line worth printing, or empty
};

namespace detail {

/// Rejects settings that would change the patches.
void refuse_other_processing(const json_file& file);

/// One of the limits of pixels: `key`, else its name in size, else `otherwise`.
std::int64_t read_limit(const json_file& file, const char* key, const char* in_size, std::int64_t otherwise);

/// Three numbers, one for each colour; unchanged where the file does not say them.
void read_colours(const json_file& file, const char* key, bool positive, std::array<double, 3>& values);

image::processor_settings read_processor_settings(const json_file& file);

/// processor_config.json, where transformers 5 may put the same, else preprocessor_config.json.
std::optional<std::pair<json_file, std::filesystem::path>> find_processor(const std::filesystem::path& folder);

}  // namespace detail

/// The image processor settings of the model in `folder`. min_pixels and max_pixels count, else the same two in size,
/// else transformers' class. A folder without a file for it has the class's settings, and a note. Throws file_error, or
/// format_error naming file, key, value and expectation for unsupported settings and for patches that do not match the
/// tower of `config`.
model_processor read_processor(const std::filesystem::path& folder, const nn::config& config);

/// Writes preprocessor_config.json for a model that we made; transformers and read_processor() take it. Throws
/// file_error.
void write_processor(const std::filesystem::path& folder, const image::processor_settings& s);

/// The tokens that stand for images have to be the same in config.json and in the tokenizer of `folder`. Does nothing
/// for a model without a vision tower. `tokenizer.id_of(text)` is an optional id (text::tokenizer). Throws format_error
/// naming the token and both ids.
template <class Tokenizer>
void check_image_tokens(const std::filesystem::path& folder, const nn::config& config, const Tokenizer& tokenizer) {
  if (!config.vision || !config.model->vision) return;
  const nn::vision_traits& traits = *config.model->vision;
  struct row {
    const char* key;
    std::int32_t id;
    std::string_view token;
  };
  for (const row& r : {row{"image_token_id", config.image_token_id, traits.image_token},
                       row{"video_token_id", config.video_token_id, traits.video_token},
                       row{"vision_start_token_id", config.vision_start_token_id, traits.vision_start},
                       row{"vision_end_token_id", config.vision_end_token_id, traits.vision_end}}) {
    const auto id = tokenizer.id_of(r.token);
    const bool video = r.token == traits.video_token;  // nothing here needs it
    if (id ? *id == r.id : video) continue;
    throw format_error((folder / "config.json").string() + ": key '" + r.key + "' is " + std::to_string(r.id) +
                       "; expected the id of " + std::string(r.token) + " in the tokenizer" +
                       (id ? ", " + std::to_string(*id) : ", which has no such token"));
  }
}

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint::detail {

RLCORE_INLINE void refuse_other_processing(const json_file& file) {
  const std::string type = "image_processor_type";
  if (file.has(type)) {
    bool known = false;
    for (const char* name : {"Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil"})
      known = known || file.root()[type] == name;
    if (!known) file.fail(type, "\"Qwen2VLImageProcessor\", or the same with Fast or Pil behind it");
  }
  for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (!file.boolean(key, true)) file.fail(key, "true");
  for (const char* key : {"do_center_crop", "do_pad"})
    if (file.boolean(key, false)) file.fail(key, "false");
  if (file.has("resample") && file.root()["resample"] != 3) file.fail("resample", "3 (bicubic)");
}

RLCORE_INLINE std::int64_t read_limit(const json_file& file, const char* key, const char* in_size,
                                      std::int64_t otherwise) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  if (file.has(key)) return file.integer(key, 1, most);
  if (!file.has("size")) return otherwise;
  const json_file size = file.section("size");
  return size.integer(size.has(key) && !size.has(in_size) ? key : in_size, 1, most);
}

RLCORE_INLINE void read_colours(const json_file& file, const char* key, bool positive, std::array<double, 3>& values) {
  if (!file.has(key)) return;
  const std::string expected = positive ? "a list of three numbers > 0" : "a list of three numbers";
  const nlohmann::json& list = file.root()[key];
  if (!list.is_array() || list.size() != values.size()) file.fail(key, expected);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!list[i].is_number() || (positive && !(list[i].get<double>() > 0))) file.fail(key, expected);
    values[i] = list[i].get<double>();
  }
}

RLCORE_INLINE image::processor_settings read_processor_settings(const json_file& file) {
  refuse_other_processing(file);
  image::processor_settings s;
  s.min_pixels = read_limit(file, "min_pixels", "shortest_edge", s.min_pixels);
  s.max_pixels = read_limit(file, "max_pixels", "longest_edge", s.max_pixels);
  if (s.min_pixels > s.max_pixels)
    file.fail(file.has("max_pixels") ? "max_pixels" : "size",
              "at least min_pixels (size.shortest_edge), " + std::to_string(s.min_pixels));
  const auto number = [&](const char* key, std::size_t& value) {
    if (file.has(key)) value = static_cast<std::size_t>(file.integer(key, 1, 4096));
  };
  number("patch_size", s.shape.patch);
  number("merge_size", s.shape.merge);
  number("temporal_patch_size", s.shape.frames);
  read_colours(file, "image_mean", false, s.normalise.mean);
  read_colours(file, "image_std", true, s.normalise.deviation);
  if (file.has("rescale_factor")) s.normalise.rescale = file.positive("rescale_factor");
  for (const auto& colour : image::normalised_values(s.normalise, s.resample))
    if (!std::isfinite(colour.front()) || !std::isfinite(colour.back()))
      file.fail(file.has("image_std")    ? "image_std"
                : file.has("image_mean") ? "image_mean"
                                         : "rescale_factor",
                "numbers that make finite floats of the colours 0 to 255");
  return s;
}

RLCORE_INLINE std::optional<std::pair<json_file, std::filesystem::path>> find_processor(
    const std::filesystem::path& folder) {
  const std::filesystem::path both = folder / "processor_config.json", one = folder / "preprocessor_config.json";
  if (std::filesystem::exists(both))
    if (const json_file file(both); file.has("image_processor"))
      return std::pair{file.section("image_processor"), both};
  if (!std::filesystem::exists(one)) return std::nullopt;
  return std::pair{json_file(one), one};
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE model_processor read_processor(const std::filesystem::path& folder, const nn::config& config) {
  if (!config.vision) throw config_error(folder.string() + ": the model reads no images (no vision_config)");
  const nn::vision_config& tower = *config.vision;
  const auto found = detail::find_processor(folder);
  model_processor p;
  if (found) {
    p.settings = detail::read_processor_settings(found->first);
    p.file = found->second;
  } else {
    p.note = folder.string() + ": no preprocessor_config.json; images get " + std::to_string(p.settings.min_pixels) +
             " to " + std::to_string(p.settings.max_pixels) + " pixels, as transformers' class does it";
  }
  const std::string where = found ? p.file.string() : folder.string() + ": transformers' class";
  const auto same = [&](const char* key, std::size_t value, const char* of_tower, std::int64_t expected) {
    if (static_cast<std::int64_t>(value) != expected)
      throw format_error(where + ": key '" + key + "' is " + std::to_string(value) + "; expected " + of_tower +
                         " of vision_config in config.json, " + std::to_string(expected));
  };
  same("patch_size", p.settings.shape.patch, "patch_size", tower.patch_size);
  same("merge_size", p.settings.shape.merge, "spatial_merge_size", tower.spatial_merge_size);
  same("temporal_patch_size", p.settings.shape.frames, "temporal_patch_size", tower.temporal_patch_size);
  if (tower.in_channels != 3)
    throw format_error((folder / "config.json").string() + ": key 'vision_config.in_channels' is " +
                       std::to_string(tower.in_channels) + "; expected 3, the colours of an image");
  return p;
}

RLCORE_INLINE void write_processor(const std::filesystem::path& folder, const image::processor_settings& s) {
  const nlohmann::ordered_json file{{"image_processor_type", "Qwen2VLImageProcessor"},
                                    {"do_resize", true},
                                    {"do_rescale", true},
                                    {"do_normalize", true},
                                    {"do_convert_rgb", true},
                                    {"min_pixels", s.min_pixels},
                                    {"max_pixels", s.max_pixels},
                                    {"patch_size", s.shape.patch},
                                    {"temporal_patch_size", s.shape.frames},
                                    {"merge_size", s.shape.merge},
                                    {"image_mean", s.normalise.mean},
                                    {"image_std", s.normalise.deviation},
                                    {"rescale_factor", s.normalise.rescale},
                                    {"resample", 3}};
  write_file_atomically(folder / "preprocessor_config.json", text::json_text(file, 2) + "\n");
}

}  // namespace checkpoint
RLCORE_END
#endif
