// A random Qwen2.5-VL, and images to ask it about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/image_golden.hpp"
#include "image/drawn.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace image_model {

using json = rlcore::serving::json;
using rlcore::text::tokenizer;

inline std::int32_t id_of(const char* token) { return *image_golden::tokenizer().id_of(token); }

inline rlcore::nn::config config() {
  rlcore::nn::config c;
  c.model = rlcore::nn::qwen2_5_vl{};
  c.attention_bias = true;
  c.vocab_size = static_cast<std::int64_t>(image_golden::tokenizer().vocab_size());
  c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 1024;
  c.initializer_range = 0.3;  // far from uniform, so that another image shows
  c.mrope_section = {1, 1, 2};
  c.image_token_id = id_of("<|image_pad|>"), c.video_token_id = id_of("<|video_pad|>");
  c.vision_start_token_id = id_of("<|vision_start|>"), c.vision_end_token_id = id_of("<|vision_end|>");
  c.eos_token_ids = {id_of("<|im_end|>")};
  rlcore::nn::vision_config& v = c.vision.emplace();
  v.depth = 2, v.hidden_size = 32, v.num_heads = 4, v.intermediate_size = 44, v.out_hidden_size = 32;
  v.fullatt_block_indexes = {1};
  return c;
}

/// How it takes images: up to 51 tokens each.
inline rlcore::data::image_settings images() {
  rlcore::data::image_settings s;
  image_golden::expect_images(s);
  s.video = id_of("<|video_pad|>");
  s.cache = std::make_shared<rlcore::data::image_cache>(rlcore::image::processor(*s.processor), 0);
  return s;
}

/// What a server knows of it.
inline rlcore::serving::served_model served() {
  rlcore::serving::served_model m{.names = {"vl"}, .folder = "/models/vl", .tokenizer = image_golden::tokenizer()};
  m.chat = image_golden::chat();
  m.eos_ids = config().eos_token_ids, m.eos_id = m.eos_ids.front();
  m.max_length = 1024, m.vocabulary = config().vocab_size;
  m.images = images();
  m.features.images = true;
  m.max_image_tokens = 256;
  return m;
}

/// A folder that programs read.
inline void save(const std::filesystem::path& folder, std::uint64_t seed = 5) {
  rlcore::text::save(image_golden::tokenizer(), folder,
                     {.chat_template = rlcore::text::family_jinja("qwen2.5-vl"), .model_max_length = 1024});
  rlcore::cpu device(1);
  rlcore::nn::causal_lm<rlcore::cpu> model(device, config());
  model.initialize(seed);
  rlcore::checkpoint::write_config(folder, model.settings());
  rlcore::checkpoint::save_weights(folder, model.parameters(), {model.weights().data(), model.size()});
  rlcore::checkpoint::write_processor(folder, *images().processor);
}

/// A PNG of noise.
inline std::vector<unsigned char> png(std::uint32_t seed, std::size_t height = 60, std::size_t width = 90) {
  return rlcore::image::encode_png(rlcore::test::draw(rlcore::test::drawing::noise, seed, height, width));
}
inline std::string url_of(const std::vector<unsigned char>& bytes) {
  return "data:image/png;base64," + rlcore::text::to_base64(bytes);
}
inline json shown(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }
inline json words(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
/// A question about images, and further members of the body.
inline json question(const std::vector<std::string>& urls, json more = json::object(),
                     const std::string& text = "What is this?") {
  json parts = json::array();
  for (const std::string& url : urls) parts.push_back(shown(url));
  parts.push_back(words(text));
  more["messages"] = json::array({{{"role", "user"}, {"content", std::move(parts)}}});
  return more;
}

}  // namespace image_model
