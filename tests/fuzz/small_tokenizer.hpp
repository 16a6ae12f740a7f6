// A byte-level tokenizer of ChatML for fuzzers whose input is not the tokenizer.
#pragma once

#include <string>
#include <vector>

#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace fuzzing {

inline const rlcore::text::tokenizer& small_tokenizer() {
  static const rlcore::text::tokenizer only = [] {
    const std::vector<std::string> corpus{"user assistant user assistant the the"},
        special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    return rlcore::text::train_bpe(corpus, 262, special);
  }();
  return only;
}

/// The same with the tokens of images.
inline const rlcore::text::tokenizer& image_tokenizer() {
  static const rlcore::text::tokenizer only = [] {
    const std::vector<std::string> corpus{"user assistant user assistant the the"},
        special{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"};
    return rlcore::text::train_bpe(corpus, 265, special);
  }();
  return only;
}

}  // namespace fuzzing
