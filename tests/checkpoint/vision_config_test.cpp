// config.json of Qwen2.5-VL in its layouts (tests/reference/checkpoint_vision.py): hub, transformers 4.57 and 5.23.
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/checkpoint/write_config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using checkpoint::read_config;
using checkpoint::write_config;
using nlohmann::json;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

const json& golden() {
  static const json read = json::parse(scratch::read(reference / "checkpoint_vision.json"));
  return read;
}

nn::config read_text(const json& root) {
  const scratch::folder place;
  scratch::write(place / "config.json", root.dump());
  return read_config(place.path());
}

TEST(vision_config, all_layouts_are_one_model) {
  ASSERT_EQ(golden()["layouts"].size(), 5u);
  for (const auto& [name, root] : golden()["layouts"].items()) {
    SCOPED_TRACE(name);
    nn::config c = read_text(root);
    for (const bool again : {false, true}) {
      EXPECT_EQ(c.model, nn::qwen2_5_vl{});
      EXPECT_EQ(c.output, nn::model_output::logits);
      EXPECT_EQ(std::vector({c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers,
                             c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.max_position_embeddings}),
                (std::vector<std::int64_t>{60, 24, 36, 2, 3, 1, 8, 512}));
      EXPECT_EQ(c.rms_norm_eps, 1e-6);
      EXPECT_EQ(c.rope_theta, 1e4);
      EXPECT_EQ(c.rope_scaling, nn::rope_settings{});
      EXPECT_TRUE(c.attention_bias);
      EXPECT_FALSE(c.o_bias());
      EXPECT_EQ(c.tie_word_embeddings, name.find("untied") == std::string::npos);
      EXPECT_EQ(c.eos_token_ids[0], 52);
      EXPECT_EQ(c.mrope_section, (std::array<std::int64_t, 3>{1, 1, 2}));
      EXPECT_EQ(c.image_token_id, 57);
      EXPECT_EQ(c.video_token_id, 56);
      EXPECT_EQ(c.vision_start_token_id, 58);
      EXPECT_EQ(c.vision_end_token_id, 59);
      ASSERT_TRUE(c.vision);
      const nn::vision_config expected{.depth = 2,
                                       .hidden_size = 32,
                                       .num_heads = 4,
                                       .intermediate_size = 44,
                                       .out_hidden_size = 24,
                                       .fullatt_block_indexes = {1}};
      EXPECT_EQ(*c.vision, expected);
      if (again) break;
      const scratch::folder place;
      write_config(place.path(), c, checkpoint::stored_type::bf16);
      const json written = json::parse(scratch::read(place / "config.json"));
      EXPECT_EQ(written["architectures"][0], "Qwen2_5_VLForConditionalGeneration");
      EXPECT_EQ(written["torch_dtype"], "bfloat16");
      c = read_config(place.path());
    }
  }
}

TEST(vision_config, what_a_file_leaves_out) {
  json root = golden()["layouts"]["published"];
  json& tower = root["vision_config"];
  for (const char* key : {"depth", "num_heads", "in_chans", "patch_size", "fullatt_block_indexes", "window_size",
                          "tokens_per_second", "spatial_merge_size", "temporal_patch_size", "hidden_act"})
    tower.erase(key);
  tower["hidden_size"] = 64;
  root.erase("tie_word_embeddings");
  nn::config c = read_text(root);
  EXPECT_EQ(*c.vision, (nn::vision_config{
                           .hidden_size = 64, .intermediate_size = 44, .out_hidden_size = 24, .tokens_per_second = 4}));
  EXPECT_FALSE(c.tie_word_embeddings);
  tower["in_chans"] = 5;
  EXPECT_EQ(read_text(root).vision->in_channels, 5);
  tower["in_channels"] = 4;
  EXPECT_EQ(read_text(root).vision->in_channels, 4);
  root["vocab_size"] = 200000;
  for (const char* key : {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"})
    root.erase(key);
  c = read_text(root);
  EXPECT_EQ(c.image_token_id, 151655);
  EXPECT_EQ(c.video_token_id, 151656);
  EXPECT_EQ(c.vision_start_token_id, 151652);
  EXPECT_EQ(c.vision_end_token_id, 151653);
  root["text_config"] = {{"hidden_size", 24}, {"rope_scaling", nullptr}, {"vocab_size", 155000}};
  EXPECT_EQ(read_text(root).vocab_size, 155000);  // text_config comes first
  root["text_config"]["rope_parameters"] = {{"rope_theta", 500.0}, {"mrope_section", {0, 4, 0}}};
  c = read_text(root);
  EXPECT_EQ(c.rope_theta, 500);
  EXPECT_EQ(c.mrope_section[1], 4);
}

TEST(vision_config, tied_embeddings_at_either_place) {
  const auto tied = [&](const json& top, const json& text) {
    json root = golden()["layouts"]["published"];
    root["tie_word_embeddings"] = top;
    root["text_config"] = {{"tie_word_embeddings", text}};
    return read_text(root).tie_word_embeddings;
  };
  EXPECT_TRUE(tied(true, nullptr));
  EXPECT_TRUE(tied(nullptr, true));
  EXPECT_TRUE(tied(true, true));
  EXPECT_TRUE(tied(false, true));
  EXPECT_FALSE(tied(nullptr, nullptr));
  EXPECT_FALSE(tied(nullptr, false));
  scratch::error_of<format_error>([&] { tied(true, false); },
                                  {"'tie_word_embeddings' is true; expected false, as text_config.tie_word_embe"});
}

TEST(vision_config, refuses_in_one_line_what_it_cannot_compute) {
  const auto refused = [](const char* layout, const json& change, const std::vector<std::string>& parts) {
    json root = golden()["layouts"][layout];
    root.merge_patch(change);
    scratch::error_of<format_error>([&] { read_text(root); }, parts);
  };
  const auto hub = [&](const json& change, const std::vector<std::string>& parts) {
    refused("published", change, parts);
  };
  const auto tower = [&](const json& change, const std::vector<std::string>& parts) {
    refused("published", {{"vision_config", change}}, parts);
  };
  const auto rope = [&](const json& change, const std::vector<std::string>& parts) {
    refused("published", {{"rope_scaling", change}}, parts);
  };
  hub({{"vision_config", nullptr}}, {"'vision_config' is missing; expected an object"});
  hub({{"vision_config", 3}}, {"'vision_config' is 3; expected an object"});
  hub({{"text_config", 3}}, {"'text_config' is 3; expected an object"});
  hub({{"text_config", {{"model_type", "qwen3"}}}},
      {"'text_config.model_type' is \"qwen3\"; expected \"qwen2_5_vl_text\""});
  hub({{"text_config", {{"hidden_act", "gelu"}}}}, {"'text_config.hidden_act' is \"gelu\"; expected \"silu\""});
  hub({{"use_sliding_window", true}}, {"'use_sliding_window' is true; expected false"});
  refused("4.57.6 tied", {{"text_config", {{"use_sliding_window", true}}}},
          {"'text_config.use_sliding_window' is true; expected false"});
  refused("5.23.0 tied", {{"text_config", {{"layer_types", {"sliding_attention"}}}}},
          {"'text_config.layer_types'", "full_attention"});
  hub({{"head_dim", 10}, {"rope_scaling", {{"mrope_section", {1, 2, 2}}}}}, {"'head_dim' is 10", "transformers"});
  hub({{"image_token_id", 60}}, {"'image_token_id' is 60; expected one id below vocab_size 60"});
  hub({{"image_token_id", nullptr}}, {"'image_token_id' is missing; expected one id below vocab_size 60"});
  hub({{"image_token_id", {1, 2}}}, {"'image_token_id' is [1,2]"});
  hub({{"vision_end_token_id", -3}}, {"'vision_end_token_id' is -3; expected a token id"});
  hub({{"video_token_id", 57}}, {"'video_token_id' is 57; expected another id than image_token_id, 57"});

  rope({{"type", "yarn"}}, {"'rope_scaling' is {", "yarn", "expected the 'type' \"mrope\" or \"default\""});
  rope({{"rope_type", "linear"}}, {"expected the 'rope_type' \"mrope\" or \"default\""});
  rope({{"factor", 2}}, {"expected no 'factor' beside 'mrope_section'"});
  rope({{"mrope_interleaved", true}}, {"expected no 'mrope_interleaved' beside"});
  const std::string sections = "expected an 'mrope_section' of three integers that add up to head_dim / 2, 4";
  for (const json& wrong : {json(nullptr), json(4), json({1, 1, 1, 1}), json({1, 1, 1}), json({1, 2, 2}),
                            json({-1, 3, 2}), json({1, 1, 2.0})})
    rope({{"mrope_section", wrong}}, {sections});
  hub({{"rope_scaling", nullptr}}, {"'rope_scaling' is missing; expected an object with 'mrope_section'"});
  hub({{"rope_scaling", 1}}, {"'rope_scaling' is 1; expected an object"});
  refused("5.23.0 untied", {{"text_config", {{"rope_parameters", {{"rope_type", "yarn"}}}}}},
          {"'text_config.rope_parameters' is {", "expected the 'rope_type'"});
  refused("5.23.0 untied", {{"vision_config", {{"rope_parameters", {{"rope_type", "default"}}}}}},
          {"'vision_config.rope_parameters.rope_type' is \"default\"; expected \"axial\""});

  tower({{"model_type", "qwen2_vl"}},
        {"'vision_config.model_type' is \"qwen2_vl\"; expected \"qwen2_5_vl_vision\" or \"qwen2_5_vl\""});
  tower({{"hidden_act", "quick_gelu"}}, {"'vision_config.hidden_act' is \"quick_gelu\"; expected \"silu\""});
  tower({{"hidden_size", 40}}, {"'vision_config.hidden_size' is 40; expected a multiple of 4 num_heads, 16"});
  tower({{"out_hidden_size", 32}}, {"'vision_config.out_hidden_size' is 32; expected hidden_size, 24"});
  tower({{"window_size", 27}}, {"'vision_config.window_size' is 27; expected at least", "28"});
  tower({{"patch_size", {14, 14}}}, {"'vision_config.patch_size' is [14,14]; expected an integer from 1"});
  tower({{"depth", 0}}, {"'vision_config.depth' is 0"});
  for (const json& wrong : {json(1), json({2}), json({-1}), json({"1"})})
    tower({{"fullatt_block_indexes", wrong}},
          {"'vision_config.fullatt_block_indexes' is ", "expected a list of numbers below depth 2"});
  for (const char* other : {"qwen2_vl", "qwen3_vl"})
    hub({{"model_type", other}}, {"'model_type' is", other, "\"qwen2_5_vl\""});
}

TEST(vision_config, models_differ_in_ids_of_images_not_in_ids_of_ends) {
  const nn::config c = read_text(golden()["layouts"]["published"]);
  nn::config other = c;
  other.eos_token_ids.push_back(1), other.pad_token_id = 2;
  EXPECT_EQ(checkpoint::difference_of(other, c), "");
  other.image_token_id = c.image_token_id + 1;
  EXPECT_NE(checkpoint::difference_of(other, c).find("image_token_id is "), std::string::npos);
}

TEST(vision_config, family_and_tower_have_to_fit) {
  const scratch::folder place;
  nn::config c = read_text(golden()["layouts"]["published"]);
  c.model = nn::qwen2{};
  scratch::error_of<config_error>([&] { write_config(place.path(), c); },
                                  {"the family qwen2 has no place for a vision"});
  c.model = nn::qwen2_5_vl{};
  c.vision.reset();
  scratch::error_of<config_error>([&] { write_config(place.path(), c); }, {"qwen2_5_vl has to have a vision tower"});
}

TEST(vision_config, score_models_come_back) {
  const scratch::folder place;
  nn::config c = read_text(golden()["layouts"]["published"]);
  c.output = nn::model_output::score;
  for (const bool bias : {false, true}) {
    c.score_bias = bias;
    write_config(place.path(), c);
    const nn::config d = read_config(place.path());
    EXPECT_EQ(d.output, nn::model_output::score);
    EXPECT_EQ(d.score_bias, bias);
    EXPECT_EQ(d.vision, c.vision);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
