// The model folder that a supervised run starts from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/model_files.hpp"

RLCORE_BEGIN
namespace train {

/// A Hugging Face folder without its weights.
struct base_model {
  std::filesystem::path folder;
  nn::config config;
  text::tokenizer tokenizer;
};

/// Reads everything of a Hugging Face folder but the weights; `key` names it. Throws rlcore::error.
inline base_model open_base_model(const options& opt, const std::string& key) {
  std::filesystem::path folder = named_model(opt, key);
  nn::config config = checkpoint::read_stored_config(folder);
  text::tokenizer tokenizer = text::tokenizer::load(folder);
  if (static_cast<std::int64_t>(tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));
  checkpoint::check_image_tokens(folder, config, tokenizer);
  return {std::move(folder), std::move(config), std::move(tokenizer)};
}

}  // namespace train
RLCORE_END
