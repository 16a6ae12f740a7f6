// What a training run needs, in a few kilobytes: a random Qwen2 in a Hugging Face folder, its tokenizer, some rows.
// Compiled once, in the library test_support.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "rlcore/data/jsonl.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace text {
class tokenizer;
}
RLCORE_END

namespace tiny_model {

namespace fs = std::filesystem;

struct files {
  fs::path model, train, val;
};

inline constexpr int answers = 4;

/// "How many ... ?" with the answer 1 + i % 4.
rlcore::data::row problem(std::size_t i, const std::string& split);

std::string rows(std::size_t count, const std::string& split);

void write(const fs::path& path, const std::string& bytes);

/// A tokenizer in which "#### 1" to "#### 4" are single tokens that stay in the decoded text.
void save_tokenizer(const fs::path& folder);

rlcore::nn::config config_for(const rlcore::text::tokenizer& tokenizer);

/// A random model for the tokenizer in `folder`, written beside it. All embeddings share a direction, in which those of
/// the answers and of the end are longer: every other token is one of them, so that rewards differ from the first step
/// on. With `experts` it is a Qwen3-MoE.
void save_weights(const fs::path& folder, std::uint64_t seed, std::int64_t experts = 0);

/// The same of the configuration that `change` leaves.
void save_weights(const fs::path& folder, std::uint64_t seed, const std::function<void(rlcore::nn::config&)>& change);

files make(const fs::path& root, std::uint64_t seed = 11);

/// A model for somebody else's tokenizer, copied from `tokenizer_folder`.
void make_for_tokenizer(const fs::path& model, const fs::path& tokenizer_folder, std::uint64_t seed = 11);

}  // namespace tiny_model
