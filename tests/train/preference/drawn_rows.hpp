// What the tests of preferences with images share: transformers' token ids of a conversation, rows with drawn
// images, and a tiny model that reads them.
#pragma once

#ifdef RLCORE_HAS_IMAGES

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/preference/row_text.hpp"

namespace drawn_rows {

using namespace rlcore;

/// tests/reference/image_rows.py: a tokenizer, and conversations as transformers' processor reads them.
inline const nlohmann::ordered_json& golden() {
  static const auto g = nlohmann::ordered_json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/image_rows.json"));
  return g;
}
inline const text::tokenizer& tokenizer() {
  static const text::tokenizer t = text::tokenizer::parse(
      golden()["tokenizer"].dump(), R"({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})");
  return t;
}

/// Images as transformers' processor has them, or patches of 4 x 4 pixels for config().
inline train::row_rules rules(bool chat, bool tiny = true) {
  train::row_rules r{tokenizer(), {}, {}, 400, {}};
  if (chat) r.chat = text::chat_template::named("qwen2.5-vl");
  auto& processor = r.images.processor.emplace();
  if (tiny) {
    processor.min_pixels = 64, processor.shape.patch = 4;
  } else {
    processor.max_pixels = golden()["max_pixels"];
  }
  r.images.token = *tokenizer().id_of("<|image_pad|>"), r.images.video = *tokenizer().id_of("<|video_pad|>");
  r.images.written = "<|vision_start|><|image_pad|><|vision_end|>";
  r.images.cache = std::make_shared<data::image_cache>(image::processor(processor));
  return r;
}

/// A tiny model for the tokenizer.
inline nn::config config() {
  nn::config c = tiny_vision::config();
  c.vocab_size = static_cast<std::int64_t>(tokenizer().vocab_size()), c.max_position_embeddings = 400;
  c.image_token_id = *tokenizer().id_of("<|image_pad|>"), c.video_token_id = *tokenizer().id_of("<|video_pad|>");
  return c;
}

inline data::blend blend(std::vector<data::row> list) {
  data::blend b;
  for (std::uint32_t i = 0; i < list.size(); ++i) b.order.push_back({0, i});
  b.sets.push_back({"file", std::move(list)});
  return b;
}

/// `count` images of noise, as a column has them.
inline data::row images(std::size_t count, std::uint32_t seed) {
  data::row list = data::row::array();
  std::mt19937 random(seed);
  for (std::size_t k = 0; k < count; ++k) {
    image::pixels p{16 + 8 * k, 24, std::vector<std::uint8_t>((16 + 8 * k) * 24 * 3)};
    for (auto& c : p.rgb) c = static_cast<std::uint8_t>(random());
    list.push_back({{"bytes", text::to_base64(image::encode_png(p))}});
  }
  return list;
}

/// Rows with none, one and two images in turn, with the columns of all four trainers. `seed` draws the images.
inline data::blend rows(std::uint32_t count, std::uint32_t seed = 7) {
  std::vector<data::row> list;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    std::string prompt = i % 3 == 0 ? "Draw " : i % 3 == 1 ? "<image>Find " : "Is <image> larger than <image>, ";
    prompt += n + "?";
    list.push_back({{"prompt", prompt},
                    {"chosen", "x is " + n + "."},
                    {"rejected", "x is not " + std::string(1 + i % 2, '4') + " at all."},
                    {"label", i % 2},
                    {"steps", prompt + " First.<tool_call> Then " + n + ".<tool_call> Done."},
                    {"value", {i % 2 ? "<think>" : "</think>", "<think>"}},
                    {"images", images(i % 3, seed + i)}});
  }
  return blend(std::move(list));
}

}  // namespace drawn_rows

#endif
