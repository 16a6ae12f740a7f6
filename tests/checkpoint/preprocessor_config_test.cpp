// preprocessor_config.json against transformers' class (tests/reference/checkpoint_vision.py), what is refused, and the
// tokens of images.
#include "rlcore/checkpoint/preprocessor_config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
namespace fs = std::filesystem;

const fs::path reference = RLCORE_REFERENCE_DIR;

nn::config model() {
  nn::config c;
  c.model = nn::qwen2_5_vl{};
  c.vision.emplace();
  return c;
}

TEST(preprocessor_config, limits_and_means_are_those_of_transformers) {
  const json golden = json::parse(scratch::read(reference / "checkpoint_vision.json"))["processors"];
  ASSERT_GE(golden.size(), 14u);
  for (const json& each : golden) {
    SCOPED_TRACE(each.dump());
    const scratch::folder place;
    const auto name = each["name"].get<std::string>();
    const json file = name == "processor_config.json" ? json{{"image_processor", each["file"]}} : each["file"];
    scratch::write(place / name, file.dump());
    if (name == "processor_config.json")  // is not looked at
      scratch::write(place / "preprocessor_config.json", R"({"min_pixels": 1, "max_pixels": 2})");
    const auto p = checkpoint::read_processor(place.path(), model());
    EXPECT_EQ(p.settings.min_pixels, each["size"][0].get<std::int64_t>());
    EXPECT_EQ(p.settings.max_pixels, each["size"][1].get<std::int64_t>());
    EXPECT_EQ(p.settings.normalise.mean, (each["mean"].get<std::array<double, 3>>()));
    EXPECT_EQ(p.file, place / name);
    EXPECT_EQ(p.note, "");
  }
}

TEST(preprocessor_config, a_published_file_and_none) {
  const scratch::folder place;
  auto p = checkpoint::read_processor(place.path(), model());
  EXPECT_EQ(p.settings.min_pixels, 3136);
  EXPECT_EQ(p.settings.max_pixels, 1003520);
  EXPECT_EQ(p.file, "");
  EXPECT_NE(p.note.find("no preprocessor_config.json; images get 3136 to 1003520 pixels"), std::string::npos);
  scratch::write(place / "processor_config.json", R"({"processor_class": "Qwen2_5_VLProcessor"})");  // older versions'
  scratch::write(place / "preprocessor_config.json",
                 R"({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2,
  "merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
  "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor"})");
  p = checkpoint::read_processor(place.path(), model());
  EXPECT_EQ(p.settings.max_pixels, 12845056);
  EXPECT_EQ(p.settings.shape.patch, 14u);
  EXPECT_EQ(p.settings.normalise.deviation[2], 0.27577711);
  EXPECT_EQ(p.file, place / "preprocessor_config.json");
  // As transformers 4.45 to 4.49 saved size.
  scratch::write(place / "preprocessor_config.json", R"({"size": {"min_pixels": 100, "max_pixels": 200}})");
  EXPECT_EQ(checkpoint::read_processor(place.path(), model()).settings.max_pixels, 200);
}

TEST(preprocessor_config, what_is_written_is_read_back) {
  const scratch::folder place;
  image::processor_settings s;
  s.min_pixels = 784, s.max_pixels = 50176;
  s.normalise.mean = {0.5, 0.25, 0.125};
  checkpoint::write_processor(place.path(), s);
  const checkpoint::model_processor p = checkpoint::read_processor(place.path(), model());
  EXPECT_TRUE(p.note.empty());
  EXPECT_EQ(p.settings.min_pixels, 784);
  EXPECT_EQ(p.settings.max_pixels, 50176);
  EXPECT_EQ(p.settings.normalise.mean, s.normalise.mean);
  EXPECT_EQ(p.settings.normalise.deviation, s.normalise.deviation);
  EXPECT_EQ(p.settings.normalise.rescale, s.normalise.rescale);
}

TEST(preprocessor_config, refuses_other_patches_in_one_line) {
  const scratch::folder place;
  const auto refused = [&](const json& file, const std::vector<std::string>& parts, nn::config c = model()) {
    scratch::write(place / "preprocessor_config.json", file.dump());
    scratch::error_of<format_error>([&] { checkpoint::read_processor(place.path(), c); }, parts);
  };
  refused({{"image_processor_type", "CLIPImageProcessor"}},
          {"preprocessor_config.json: key 'image_processor_type' is \"CLIPImageProcessor\"; expected \"Qwen2VLImage"});
  for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    refused({{key, false}}, {std::string("'") + key + "' is false; expected true"});
  refused({{"do_pad", true}}, {"'do_pad' is true; expected false"});
  refused({{"resample", 2}}, {"'resample' is 2; expected 3 (bicubic)"});
  refused({{"min_pixels", 0}}, {"'min_pixels' is 0; expected an integer from 1"});
  refused({{"min_pixels", 56.5}}, {"'min_pixels' is 56.5"});
  refused({{"min_pixels", 300}, {"max_pixels", 200}},
          {"'max_pixels' is 200; expected at least min_pixels (size.shortest_edge), 300"});
  refused({{"size", {{"shortest_edge", 300}, {"longest_edge", 200}}}}, {"'size' is {", "expected at least min_pixels"});
  refused({{"size", {{"shortest_edge", 300}}}}, {"'size.longest_edge' is missing; expected an integer"});
  refused({{"size", 224}}, {"'size' is 224; expected an object"});
  refused({{"image_std", {0.5, 0.5, 1e-60}}},
          {"'image_std' is [0.5,0.5,1e-60]; expected numbers that make finite floats of the colours 0 to 255"});
  refused({{"image_mean", {1e30, 0.5, 0.5}}, {"rescale_factor", 1e-30}}, {"'image_mean' is [1e+30,"});
  refused({{"rescale_factor", 1e-60}}, {"'rescale_factor' is 1e-60"});
  refused({{"image_mean", {0.5, 0.5}}}, {"'image_mean' is [0.5,0.5]; expected a list of three numbers"});
  refused({{"image_std", {0.5, 0, 0.5}}}, {"'image_std' is", "expected a list of three numbers > 0"});
  refused({{"rescale_factor", 0}}, {"'rescale_factor' is 0; expected a number > 0"});
  refused({{"patch_size", 16}}, {"'patch_size' is 16; expected patch_size of vision_config in config.json, 14"});
  refused({{"merge_size", 1}}, {"'merge_size' is 1; expected spatial_merge_size of vision_config in config.json, 2"});
  refused({{"temporal_patch_size", 1}}, {"'temporal_patch_size' is 1; expected temporal_patch_size of", ", 2"});
  nn::config grey = model();
  grey.vision->in_channels = 1;
  refused(json::object(), {"config.json: key 'vision_config.in_channels' is 1; expected 3"}, grey);
  fs::remove(place / "preprocessor_config.json");
  nn::config small = model();
  small.vision->patch_size = 7;
  scratch::error_of<format_error>([&] { checkpoint::read_processor(place.path(), small); },
                                  {"transformers' class: key 'patch_size' is 14; expected patch_size", ", 7"});
  scratch::error_of<config_error>([&] { checkpoint::read_processor(place.path(), {}); },
                                  {"the model reads no images (no vision_config)"});
}

TEST(preprocessor_config, tokens_of_images_are_those_of_the_tokenizer) {
  const scratch::folder place;
  text::copy_files(reference / "text_qwen2", place.path());
  json tokens = json::parse(scratch::read(place / "tokenizer.json"));
  std::int32_t next = static_cast<std::int32_t>(text::tokenizer::load(place.path()).vocab_size());
  nn::config c = model();
  const auto add = [&](const char* text) {
    tokens["added_tokens"].push_back({{"id", next},
                                      {"content", text},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
    scratch::write(place / "tokenizer.json", tokens.dump());
    return next++;
  };
  const auto check = [&] { checkpoint::check_image_tokens(place.path(), c, text::tokenizer::load(place.path())); };
  c.image_token_id = add("<|image_pad|>"), c.vision_start_token_id = add("<|vision_start|>");
  scratch::error_of<format_error>(check, {"config.json: key 'vision_end_token_id' is -1; expected the id of "
                                          "<|vision_end|> in the tokenizer, which has no such token"});
  c.vision_end_token_id = add("<|vision_end|>");
  check();  // nothing needs <|video_pad|>
  const auto video = add("<|video_pad|>");
  scratch::error_of<format_error>(
      check, {"'video_token_id' is -1; expected the id of <|video_pad|> in the tokenizer, " + std::to_string(video)});
  c.video_token_id = video;
  check();
  --c.image_token_id;
  scratch::error_of<format_error>(
      check, {"'image_token_id' is " + std::to_string(c.image_token_id), ", " + std::to_string(c.image_token_id + 1)});
  c.vision.reset();
  check();
}

TEST(preprocessor_config, goes_with_the_tokenizers_files) {
  const scratch::folder from, to;
  text::copy_files(reference / "text_qwen2", from.path());
  for (const char* name : {"preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json",
                           "chat_template.json", "chat_template.jinja"})
    scratch::write(from / name, name);
  text::copy_files(from.path(), to.path());
  for (const char* name : {"preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json",
                           "chat_template.json", "chat_template.jinja"})
    EXPECT_EQ(scratch::read(to / name), name);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
