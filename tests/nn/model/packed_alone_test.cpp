// A model whose matrices are in memory only as products read them computes the bits of one that has floats, too; so
// does one that packs them one unit at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/model/packed_units.hpp"
#include "rlcore/rollout/engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;
using enum nn::bf16_weights;

/// "many words" has so many that their matrix is packed in two strips; many outputs end within a panel.
nn::config config_of(const std::string& kind) {
  if (kind == "pictures") return tiny_vision::config();
  nn::config c;
  c.vocab_size = 75, c.hidden_size = 48, c.intermediate_size = 70, c.num_hidden_layers = 2;
  c.num_attention_heads = 6, c.num_key_value_heads = 2, c.head_dim = 8, c.initializer_range = 0.2;
  c.max_position_embeddings = 256;
  if (kind == "many words") c.vocab_size = 23000;
  if (kind == "head apart") c.model = nn::qwen3{}, c.tie_word_embeddings = false, c.attention_bias = false;
  if (kind == "reduce chunks") c.tp_reduce_chunks = 2;
  if (kind == "experts") {
    c.model = nn::qwen3_moe{}, c.attention_bias = false, c.intermediate_size = 64;
    c.num_experts = 5, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  }
  return c;
}

/// A prompt for each answer, and what they are scored by.
struct questions {
  std::vector<tiny_vision::prompt> images;
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> shown;
  nn::targets targets;

  explicit questions(const nn::config& c) {
    if (c.vision) {
      images = tiny_vision::prompts(3);
      for (const auto& p : images) tokens.push_back(p.tokens), shown.push_back(p.images);
    } else {
      for (const std::int32_t length : {3, 33, 1}) {
        std::vector<std::int32_t> ids;
        for (std::int32_t t = 0; t < length; ++t)
          ids.push_back((t * t * 977 + 31 * length) % static_cast<std::int32_t>(c.vocab_size));
        tokens.push_back(ids);
      }
    }
    for (std::size_t s = 0; s < tokens.rows(); ++s)
      targets.row.push_back(static_cast<std::int32_t>(tokens.begin(s))), targets.token.push_back(7);
  }
};

/// Everything that a model without gradients gives.
struct answers {
  floats logp, entropy, drawn;
  std::vector<std::int32_t> tokens;
  bool operator==(const answers&) const = default;
};
answers ask(cpu& device, const nn::causal_lm<cpu>& model, std::optional<weight_format> format) {
  const questions q(model.settings());
  nn::workspace<cpu> space(device);
  answers a;
  if (!format) {  // training's own
    a.logp.resize(q.targets.row.size()), a.entropy = a.logp;
    const nn::input in = q.shown.rows() > 0 ? nn::input(q.tokens, q.shown) : nn::input(q.tokens);
    nn::log_probs(model, space, in, q.targets, 0.8f, a.logp, a.entropy);
  }
  std::vector<rollout::request> requests;
  for (std::size_t i = 0; i < q.tokens.rows(); ++i) {
    requests.push_back({q.tokens.row(i), static_cast<std::uint32_t>(i), 0});
    if (q.shown.rows() > 0) requests.back().images = q.shown.row(i);
  }
  rollout::generation how;
  how.max_new_tokens = 6, how.weights = format;
  for (const rollout::response& r : rollout::generate(model, space, requests, how, random_key{9}, [](std::size_t) {})) {
    a.drawn.insert(a.drawn.end(), r.logp.begin(), r.logp.end());
    a.tokens.insert(a.tokens.end(), r.tokens.begin(), r.tokens.end());
  }
  return a;
}

/// Weights at random, or these rounded to bf16.
floats weights_of(const nn::config& c, bool rounded) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(11);
  floats w(model.weights().data(), model.weights().data() + model.size());
  for (float& x : w) x = rounded ? static_cast<float>(bf16(x)) : x;
  return w;
}
/// A model's weights, and who is to ask for them.
auto reader_of(const floats& weights) {
  return [&](std::size_t first, std::span<float> to) { std::copy_n(&weights.at(first), to.size(), to.data()); };
}

class packed_alone : public testing::TestWithParam<std::tuple<std::string, weight_format>> {};

TEST_P(packed_alone, has_the_bits_of_a_model_with_floats) {
  const auto& [kind, format] = GetParam();
  const nn::config c = config_of(kind);
  const bool int8 = format == weight_format::int8;
  const auto given = int8 ? std::optional(format) : std::nullopt;
  for (const bool rounded : {false, true}) {
    const floats weights = weights_of(c, rounded);
    cpu device(2, "", format == weight_format::bfloat16 ? compute::bfloat16 : compute::float32);
    nn::causal_lm<cpu> whole(device, c), alone(device, c, {}, nn::weights_in::packed);
    whole.weights().upload(weights);
    alone.fill(format, rounded ? all : none, reader_of(weights));
    EXPECT_TRUE(ask(device, whole, given) == ask(device, alone, given)) << "rounded " << rounded;
    const bool rows = int8 || (format == weight_format::bfloat16 && !rounded);
    EXPECT_EQ(alone.embedding_rows() != nullptr, rows) << "floats where the format has lost some";
    if (format == weight_format::float32) {
      nn::causal_lm<cpu> floats_alone(device, c, {}, nn::weights_in::packed);
      floats_alone.fill(format, none, reader_of(weights));
      EXPECT_TRUE(ask(device, floats_alone, given) == ask(device, alone, given));
      EXPECT_LT(10 * alone.bytes(), (rounded ? 6 : 11) * floats_alone.bytes())
          << "bfloat16 values take half the memory";
    }

    const floats others = weights_of(c, !rounded);  // as an update of a server's weights: the embedding moves
    whole.weights().upload(others);
    alone.fill(format, rounded ? none : all, reader_of(others));
    EXPECT_TRUE(ask(device, whole, given) == ask(device, alone, given)) << "other weights";
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, packed_alone,
                         testing::Combine(testing::Values("embedding tied", "many words", "head apart", "reduce chunks",
                                                          "experts", "pictures"),
                                          testing::Values(weight_format::float32, weight_format::bfloat16,
                                                          weight_format::int8)));

TEST(packed_alone_model, is_read_once_and_takes_the_memory_of_its_packed_weights) {
  for (const std::string kind : {"embedding tied", "head apart", "reduce chunks", "experts", "pictures"}) {
    const nn::config c = config_of(kind);
    const floats weights = weights_of(c, true);
    cpu device(2, "", compute::bfloat16);
    nn::causal_lm<cpu> model(device, c, {}, nn::weights_in::packed);
    std::vector<std::atomic<int>> read(model.size());
    model.fill(weight_format::bfloat16, all, [&](std::size_t first, std::span<float> to) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = weights[first + i], ++read[first + i];
    });
    EXPECT_TRUE(std::ranges::all_of(read, [](const auto& n) { return n == 1; })) << kind;
    std::size_t bytes = 0;
    for (const nn::parameter& p : model.parameters()) bytes += p.shape.size() == 1 ? 4 * p.size : 0;
    for (const nn::matrix& m : model.matrices()) {  // in panels of 32 outputs, and pairs of inputs
      const extent_t inputs = (m.inputs / m.chunks + 1) / 2 * 2 * m.chunks;
      bytes += static_cast<std::size_t>((m.outputs + 31) / 32 * 32 * inputs * 2);
    }
    EXPECT_EQ(model.bytes(), bytes) << kind;
    EXPECT_LT(model.bytes(), 4 * model.size()) << kind << ": less than floats alone";
  }
}

TEST(packed_alone_model, scores_as_a_model_with_floats) {
  for (const std::string kind : {"embedding tied", "experts"})
    for (const compute type : {compute::float32, compute::bfloat16}) {
      nn::config c = config_of(kind);
      c.output = nn::model_output::score, c.score_bias = true;
      const floats weights = weights_of(c, false);
      cpu device(2, "", type);
      nn::causal_lm<cpu> whole(device, c), alone(device, c, {}, nn::weights_in::packed);
      whole.weights().upload(weights);
      alone.fill(device.compute_format(), none, reader_of(weights));
      const questions q(c);
      nn::workspace<cpu> space(device);
      floats expected(q.targets.row.size()), scores(expected.size());
      nn::values(whole, space, q.tokens, q.targets.row, expected);
      nn::values(alone, space, q.tokens, q.targets.row, scores);
      EXPECT_EQ(scores, expected) << kind;
      EXPECT_NE(expected[0], expected[1]);
      EXPECT_LT(alone.bytes(), whole.bytes()) << kind;
    }
}

TEST(packed_alone_model, refuses_what_needs_floats) {
  const nn::config c = config_of("embedding tied");
  const floats weights = weights_of(c, true);
  cpu device(1);
  nn::causal_lm<cpu> model(device, c, {}, nn::weights_in::packed), whole(device, c);
  EXPECT_THROW(model.packed(), std::logic_error) << "nothing has been read";
  EXPECT_THROW(whole.fill(weight_format::float32, none, reader_of(weights)), std::logic_error);
  EXPECT_THROW(model.fill(weight_format::float32, none, [](std::size_t, std::span<float>) { throw error("torn"); }),
               error);
  EXPECT_THROW(model.packed(), std::logic_error) << "not all has been read";
  model.fill(weight_format::float32, none, reader_of(weights));
  EXPECT_NO_THROW(model.packed());
  EXPECT_THROW(model.packed(weight_format::bfloat16), std::logic_error);
  EXPECT_THROW(model.weights(), std::logic_error);
  EXPECT_THROW(model.initialize(1), std::logic_error);
  nn::workspace<cpu> space(device);
  nn::gradients<cpu> gradients(model);
  const questions q(c);
  EXPECT_THROW(nn::forward_backward(model, space, gradients, q.tokens, q.targets, 1.0f, false,
                                    [](auto, auto, auto dlogp, auto) { std::ranges::fill(dlogp, 1.0f); }),
               std::logic_error);
}

TEST(unit_packer, gives_the_gradients_of_a_packed_model) {
  for (const std::string kind : {"embedding tied", "head apart", "reduce chunks", "experts", "pictures"})
    for (const bool recompute : {false, true})
      for (const compute type : {compute::float32, compute::bfloat16}) {
        cpu device(2, "", type);
        nn::causal_lm<cpu> model(device, config_of(kind));
        model.initialize(11);
        const questions q(model.settings());
        const nn::input in = q.shown.rows() > 0 ? nn::input(q.tokens, q.shown) : nn::input(q.tokens);
        nn::workspace<cpu> space(device);
        const auto gradient = [&] {
          nn::gradients<cpu> g(model);
          for (int pass = 0; pass < 2; ++pass)
            nn::forward_backward(model, space, g, in, q.targets, 0.8f, recompute, [](auto, auto, auto dlogp, auto) {
              for (std::size_t i = 0; i < dlogp.size(); ++i) dlogp[i] = 0.5f + static_cast<float>(i);
            });
          return floats(g.data(), g.data() + g.size());
        };
        const floats whole = gradient();
        EXPECT_GT(model.bytes(), model.weights().bytes());
        model.free_packed();
        nn::unit_packer<cpu> packer(model);
        space.units = &packer;
        EXPECT_EQ(gradient(), whole) << kind << (recompute ? ", recomputed" : "");
        EXPECT_EQ(model.bytes(), model.weights().bytes()) << kind << ": nothing is packed as a whole";
        EXPECT_TRUE(std::ranges::any_of(whole, [](float x) { return x != 0; }));
      }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
