// The regular expressions by which published tokenizers cut text into words.
#pragma once

#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// The split expression of GPT-2 (Radford et al. 2019), used by ByteLevel with use_regex.
inline constexpr std::string_view gpt2_split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The split expression of Qwen2 (Yang et al. 2024): digits stand alone.
inline constexpr std::string_view qwen2_split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The split expression of Llama 3 (Grattafiori et al. 2024): at most three digits stand together.
inline constexpr std::string_view llama3_split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace text
RLCORE_END
