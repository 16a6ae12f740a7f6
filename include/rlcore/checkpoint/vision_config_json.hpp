// Vision-language parts of config.json <-> nn::config: family, vision tower and image tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The family of model_type.
inline nn::family read_family(const json_file& file) {
  const nn::family* found = nn::find_family(file.string("model_type"));
  if (!found) file.fail("model_type", nn::family_names(", ", " or ", "\""));
  return *found;
}

/// The members of the language model: of a family with a vision tower those of text_config before those of the file
/// itself (transformers since 4.52); older files have them all at the top.
json_file language_model(const json_file& file, nn::family model);

/// tie_word_embeddings of a config.json, at the top or in text_config; false where neither says it. Throws format_error
/// where text_config says false and the file true: versions of transformers read that in different ways.
bool read_tied(const json_file& file);

namespace detail {

/// The angles of the tower's patches: nothing, or transformers 5's object with its one kind.
double read_tower_theta(const json_file& file, double otherwise);

}  // namespace detail

/// The object vision_config. Missing keys have the defaults of transformers' class, not those of the released models.
/// Throws format_error naming the key.
nn::vision_config read_tower(const json_file& top, nn::family model);

/// Tower and ids of images, of a family that has them. The sizes of the language model are read already. Throws
/// format_error.
void read_vision(const json_file& file, nn::config& c);

/// Throws config_error unless the family has a vision tower exactly where the config has one.
void check_tower(const nn::config& c);

/// The config.json of write_config() for a model with a vision tower: `text`, the members of a language model, as
/// transformers since 4.52 nests them. Version 5 reads it too.
nlohmann::ordered_json nest_text(nlohmann::ordered_json text, const nn::config& c);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE json_file language_model(const json_file& file, nn::family model) {
  if (!model->vision || !file.has("text_config")) return file;
  const json_file text = file.section("text_config");
  const std::string type(model->vision->text_type);
  if (text.has("model_type") && text.root()["model_type"] != type) text.fail("model_type", "\"" + type + "\"");
  return file.with_section("text_config", {"rope_scaling", "rope_parameters"});
}

RLCORE_INLINE bool read_tied(const json_file& file) {
  const std::string key = "tie_word_embeddings";
  const bool top = file.boolean(key, false);
  if (!file.has("text_config") || !file.section("text_config").has(key)) return top;
  const bool text = file.section("text_config").boolean(key, false);
  if (top && !text) file.fail(key, "false, as text_config." + key + " is");
  return text;
}

}  // namespace checkpoint

namespace checkpoint::detail {

RLCORE_INLINE double read_tower_theta(const json_file& file, double otherwise) {
  const std::string key = "rope_parameters";
  if (!file.has(key)) return otherwise;
  const json_file rope = file.section(key);
  if (rope.has("rope_type") && rope.root()["rope_type"] != "axial") rope.fail("rope_type", "\"axial\"");
  return rope.has("rope_theta") ? rope.positive("rope_theta") : otherwise;
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE nn::vision_config read_tower(const json_file& top, nn::family model) {
  const json_file file = top.section("vision_config");
  if (file.has("model_type")) {
    const auto& type = file.root()["model_type"];
    if (type != model->vision->tower_type && type != model->vision->old_tower_type)
      file.fail("model_type", "\"" + std::string(model->vision->tower_type) + "\" or \"" +
                                  std::string(model->vision->old_tower_type) + "\"");
  }
  if (file.has("hidden_act") && file.root()["hidden_act"] != model->activation)
    file.fail("hidden_act", "\"" + std::string(model->activation) + "\"");
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return file.has(key) ? file.integer(key, 1, 1 << 24) : otherwise;
  };
  nn::vision_config v;
  v.depth = number("depth", 32);
  v.hidden_size = number("hidden_size", 3584);
  v.num_heads = number("num_heads", 16);
  v.intermediate_size = number("intermediate_size", 3420);
  v.out_hidden_size = number("out_hidden_size", 3584);
  v.in_channels = number("in_channels", number("in_chans", 3));
  v.patch_size = number("patch_size", 14);
  v.temporal_patch_size = number("temporal_patch_size", 2);
  v.spatial_merge_size = number("spatial_merge_size", 2);
  v.window_size = number("window_size", 112);
  v.tokens_per_second = number("tokens_per_second", 4);
  v.rope_theta = detail::read_tower_theta(file, v.rope_theta);
  if (v.hidden_size % (4 * v.num_heads) != 0)
    file.fail("hidden_size", "a multiple of 4 num_heads, " + std::to_string(4 * v.num_heads));
  if (v.window() == 0)
    file.fail("window_size",
              "at least spatial_merge_size times patch_size, " + std::to_string(v.spatial_merge_size * v.patch_size));
  v.fullatt_block_indexes = {7, 15, 23, 31};
  const std::string key = "fullatt_block_indexes",
                    expected = "a list of numbers below depth " + std::to_string(v.depth);
  if (file.has(key)) {
    const nlohmann::json& list = file.root()[key];
    if (!list.is_array()) file.fail(key, expected);
    v.fullatt_block_indexes.clear();
    for (const nlohmann::json& block : list) {
      if (!block.is_number_integer()) file.fail(key, expected);
      v.fullatt_block_indexes.push_back(block.get<std::int64_t>());
    }
  }
  for (const std::int64_t block : v.fullatt_block_indexes)
    if (block < 0 || block >= v.depth) file.fail(key, expected);
  return v;
}

RLCORE_INLINE void read_vision(const json_file& file, nn::config& c) {
  if (!c.model->vision) return;
  c.vision = read_tower(file, c.model);
  if (c.vision->out_hidden_size != c.hidden_size)
    file.section("vision_config").fail("out_hidden_size", "hidden_size, " + std::to_string(c.hidden_size));
  if (c.head_dim * c.num_attention_heads != c.hidden_size)
    file.fail("head_dim", "hidden_size / num_attention_heads, as transformers takes it for this family");
  const auto id = [&](const char* key, std::int32_t otherwise) {
    const std::string expected = "one id below vocab_size " + std::to_string(c.vocab_size);
    const auto ids = file.token_ids(key);
    if (ids.empty()) return otherwise < c.vocab_size ? otherwise : -1;
    if (ids.size() > 1 || ids[0] >= c.vocab_size) file.fail(key, expected);
    return ids[0];
  };
  c.image_token_id = id("image_token_id", c.model->vision->image_token_id);
  c.video_token_id = id("video_token_id", c.model->vision->video_token_id);
  c.vision_start_token_id = id("vision_start_token_id", c.model->vision->vision_start_token_id);
  c.vision_end_token_id = id("vision_end_token_id", c.model->vision->vision_end_token_id);
  if (c.image_token_id < 0) file.fail("image_token_id", "one id below vocab_size " + std::to_string(c.vocab_size));
  for (const auto& [key, other] : {std::pair{"video_token_id", c.video_token_id},
                                   {"vision_start_token_id", c.vision_start_token_id},
                                   {"vision_end_token_id", c.vision_end_token_id}})
    if (other == c.image_token_id)
      file.fail(key, "another id than image_token_id, " + std::to_string(c.image_token_id));
}

RLCORE_INLINE void check_tower(const nn::config& c) {
  if (c.vision.has_value() == (c.model->vision != nullptr)) return;
  throw config_error("model config: a file of the family " + std::string(nn::name_of(c.model)) +
                     (c.vision ? " has no place for a vision tower; expected the family qwen2_5_vl"
                               : " has to have a vision tower; expected config::vision to be set"));
}

RLCORE_INLINE nlohmann::ordered_json nest_text(nlohmann::ordered_json text, const nn::config& c) {
  const nn::vision_config& v = *c.vision;
  const nn::vision_traits& traits = *c.model->vision;
  nlohmann::ordered_json root;
  for (const char* key : {"architectures", "model_type", "torch_dtype", "num_labels", "id2label", "label2id"})
    if (text.contains(key)) {
      root[key] = text[key];
      if (std::string(key) != "torch_dtype") text.erase(key);
    }
  root["tie_word_embeddings"] = c.tie_word_embeddings;
  for (const auto& [key, id] : {std::pair{"image_token_id", c.image_token_id},
                                {"video_token_id", c.video_token_id},
                                {"vision_start_token_id", c.vision_start_token_id},
                                {"vision_end_token_id", c.vision_end_token_id}})
    if (id >= 0) root[key] = id;
  text.erase("head_dim");  // is hidden_size / num_attention_heads
  text["model_type"] = traits.text_type;
  text["rope_scaling"] = {{"type", "default"}, {"rope_type", "default"}, {"mrope_section", c.mrope_section}};
  root["text_config"] = std::move(text);
  root["vision_config"] = {{"model_type", traits.old_tower_type},
                           {"depth", v.depth},
                           {"hidden_size", v.hidden_size},
                           {"hidden_act", c.model->activation},
                           {"num_heads", v.num_heads},
                           {"intermediate_size", v.intermediate_size},
                           {"out_hidden_size", v.out_hidden_size},
                           {"in_channels", v.in_channels},
                           {"patch_size", v.patch_size},
                           {"temporal_patch_size", v.temporal_patch_size},
                           {"spatial_merge_size", v.spatial_merge_size},
                           {"window_size", v.window_size},
                           {"fullatt_block_indexes", v.fullatt_block_indexes},
                           {"tokens_per_second", v.tokens_per_second},
                           {"initializer_range", c.initializer_range}};
  if (v.rope_theta != nn::vision_config{}.rope_theta)  // transformers 4 has no such key
    root["vision_config"]["rope_parameters"] = {{"rope_type", "axial"}, {"rope_theta", v.rope_theta}};
  return root;
}

}  // namespace checkpoint
RLCORE_END
#endif
