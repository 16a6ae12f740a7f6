// What the tests of rows with images have in common: reference/image_rows.json.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "rlcore/data/image_rows.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace image_golden {

inline const nlohmann::ordered_json& golden() {
  static const auto g = nlohmann::ordered_json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/image_rows.json"));
  return g;
}
inline const rlcore::text::tokenizer& tokenizer() {
  static const auto t = rlcore::text::tokenizer::parse(golden()["tokenizer"].dump(),
                                                       R"({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})");
  return t;
}
inline const rlcore::text::chat_template& chat() {
  static const auto only = rlcore::text::chat_template::named("qwen2.5-vl");
  return only;
}
/// The settings of images.
inline void expect_images(rlcore::data::image_settings& images) {
  images.processor.emplace().max_pixels = golden()["max_pixels"];
  images.token = *tokenizer().id_of("<|image_pad|>");
}

}  // namespace image_golden
