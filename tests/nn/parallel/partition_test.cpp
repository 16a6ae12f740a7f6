// What each tensor parallel rank holds: rectangles that tile every tensor, the same values as the serial model's, and
// one line for models that cannot be split so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/gradients.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config sizes(nn::family family) {
  nn::config c;
  c.model = family;
  c.vocab_size = 300;  // ten groups of 32, the last of them of 12
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 8;
  c.num_key_value_heads = 4;
  c.head_dim = 6;
  c.tie_word_embeddings = family == nn::family::qwen2;
  c.attention_bias = family == nn::family::qwen2;
  return c;
}

std::vector<float> values_of(const nn::causal_lm<cpu>& model) {
  return {model.weights().data(), model.weights().data() + model.size()};
}

/// Checks that `weights` of `model` are those of `whole` where its parameters lie; counts how often each was seen.
void compare(const nn::causal_lm<cpu>& model, std::span<const float> weights, const nn::causal_lm<cpu>& whole,
             std::vector<int>& seen) {
  for (std::size_t k = 0; k < model.parameters().size(); ++k) {
    const nn::parameter &p = model.parameters()[k], &all = whole.parameters()[k];
    ASSERT_EQ(p.name, all.name);
    ASSERT_EQ(p.whole_shape(), all.shape);
    p.for_runs([&](std::size_t at, std::uint64_t from, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(weights[p.offset + at + i], whole.weights().data()[all.offset + from + i]) << p.name;
        ++seen[all.offset + from + i];
      }
    });
  }
}

class partition : public testing::TestWithParam<nn::family> {};

TEST_P(partition, rank_has_slices_of_the_serial_initialisation_and_reads_them_from_files) {
  cpu device(1);
  nn::causal_lm<cpu> whole(device, sizes(GetParam()));
  whole.initialize(5);
  const scratch::folder place;
  const std::filesystem::path& folder = place.path();
  checkpoint::save_weights(folder, whole.parameters(), values_of(whole));
  for (const int ranks : {1, 2, 4}) {
    std::vector<int> seen(whole.size()), loaded(whole.size());
    for (int r = 0; r < ranks; ++r) {
      nn::causal_lm<cpu> part(device, sizes(GetParam()), nn::partition{r, ranks});
      part.initialize(5);
      compare(part, values_of(part), whole, seen);
      std::vector<float> read(part.size(), -1.0f);
      checkpoint::load_weights(folder, part.parameters(), read);
      compare(part, read, whole, loaded);
      if (ranks > 1) {
        EXPECT_THROW(checkpoint::save_weights(folder, part.parameters(), read), std::invalid_argument);
      }
      for (const nn::parameter& p : part.parameters())
        EXPECT_EQ(p.split(), ranks > 1 && p.name.find("norm") == std::string::npos) << p.name;
    }
    for (const nn::parameter& p : whole.parameters()) {
      const int copies = p.name.find("norm") == std::string::npos ? 1 : ranks;
      for (std::size_t i = 0; i < p.size; ++i) {
        ASSERT_EQ(seen[p.offset + i], copies) << p.name;
        ASSERT_EQ(loaded[p.offset + i], copies) << p.name;
      }
    }
  }
}

/// Eight ranks of four key heads: each has one query head and the key head of its pair.
TEST_P(partition, ranks_may_have_the_same_key_heads) {
  cpu device(1);
  nn::causal_lm<cpu> whole(device, sizes(GetParam()));
  whole.initialize(5);
  std::vector<int> seen(whole.size());
  for (int r = 0; r < 8; ++r) {
    nn::causal_lm<cpu> part(device, sizes(GetParam()),
                            nn::partition{.tensor_rank = r, .tensor_size = 8, .repeats_key_heads = true});
    part.initialize(5);
    compare(part, values_of(part), whole, seen);
    EXPECT_EQ(part.blocks()[0].self_attention.shape.heads, 1);
    EXPECT_EQ(part.blocks()[0].self_attention.shape.kv_heads, 1);
    for (const nn::parameter& p : part.parameters())
      if (p.name == "model.layers.1.self_attn.v_proj.weight") {
        EXPECT_EQ(p.start[0], r / 2 * 6);
      }
    EXPECT_THROW(nn::gradients<cpu>{part}, std::invalid_argument);
  }
  for (const nn::parameter& p : whole.parameters()) {
    const bool keys = p.name.find("k_proj") != std::string::npos || p.name.find("v_proj") != std::string::npos;
    const int copies = keys ? 2 : p.name.find("norm") == std::string::npos ? 1 : 8;
    for (std::size_t i = 0; i < p.size; ++i) ASSERT_EQ(seen[p.offset + i], copies) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(families, partition, testing::Values(nn::qwen2{}, nn::qwen3{}, nn::llama{}));

TEST(partition_parts, parts_of_parts_are_parts) {
  for (const std::int64_t n : {32, 75, 300, 151936, 152064})
    for (const std::int64_t ranks : {1, 2, 4, 8}) {
      EXPECT_EQ(nn::vocabulary_part(n, 0, ranks).begin, 0);
      EXPECT_EQ(nn::vocabulary_part(n, ranks - 1, ranks).end, n);
      for (std::int64_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(nn::vocabulary_part(n, r, ranks).begin, nn::vocabulary_part(n, r * 8 / ranks, 8).begin);
        EXPECT_EQ(nn::vocabulary_part(n, r, ranks).begin % nn::vocabulary_unit, 0);
        if (r > 0) {
          EXPECT_EQ(nn::vocabulary_part(n, r, ranks).begin, nn::vocabulary_part(n, r - 1, ranks).end);
        }
      }
    }
}

TEST(partition_parts, says_in_one_line_what_does_not_divide) {
  cpu device(1);
  const auto message = [&](auto&& change, int ranks) -> std::string {
    nn::config c = sizes(nn::family::qwen2);
    change(c);
    try {
      nn::causal_lm<cpu> model(device, c, nn::partition{0, ranks});
    } catch (const config_error& e) {
      return e.what();
    }
    return "";
  };
  const auto nothing = [](nn::config&) {};
  EXPECT_EQ(message(nothing, 4), "");
  EXPECT_THAT(message(nothing, 3),
              testing::HasSubstr("num_attention_heads 8 is not a multiple of the number of ranks 3"));
  EXPECT_THAT(message(nothing, 8), testing::HasSubstr("num_key_value_heads 4 is not a multiple of the number of ranks "
                                                      "8; ranks that only sample may have the same key heads"));
  EXPECT_THAT(message([](nn::config& c) { c.intermediate_size = 50; }, 4),
              testing::HasSubstr("intermediate_size 50 is not a multiple"));
  EXPECT_THAT(message([](nn::config& c) { c.vocab_size = 96; }, 4), testing::HasSubstr("vocab_size 96"));
  EXPECT_THAT(message([](nn::config& c) { c.tp_reduce_chunks = 6; }, 1),
              testing::HasSubstr("row_chunks must be 0 or a power"));
  EXPECT_THAT(message([](nn::config& c) { c.tp_reduce_chunks = 2; }, 4),
              testing::HasSubstr("row_chunks 2 is not a multiple of the number of ranks 4"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
