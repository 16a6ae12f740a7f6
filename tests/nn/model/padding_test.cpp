// The gradient of an embedding with a pad_token_id, against transformers (tests/reference/nn_padding.py), and by every
// way that makes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nn/parallel/tensor_parallel.hpp"
#include "nn/parity_example.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/units.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace parity;

const json& reference() {
  static const json golden = read("nn_padding.json");
  return golden;
}

nn::config config_of(const json& golden, bool with_padding = true) {
  json spec = golden.at("config");
  spec["head_dim"] = spec.at("hidden_size").get<int>() / spec.at("num_attention_heads").get<int>();
  nn::config c = dense_config(spec);
  if (spec.at("family") == "llama") c.model = nn::llama{};
  c.attention_bias = spec.at("family") == "qwen2";
  if (with_padding) c.pad_token_id = spec.at("pad_token_id");
  return c;
}

/// Sequences [first, last) of the example.
void backward(nn::causal_lm<cpu>& model, nn::gradients<cpu>& gradients, const example& batch, std::size_t first,
              std::size_t last) {
  ragged<std::int32_t> sequences;
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < last; ++s) {
    if (s < first) begin += static_cast<std::int32_t>(batch.sequences.length(s));
    if (s >= first) sequences.push_back(batch.sequences.row(s));
  }
  const auto rows = static_cast<std::int32_t>(sequences.values.size());
  nn::targets targets;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < batch.targets.row.size(); ++i)
    if (const std::int32_t row = batch.targets.row[i] - begin; row >= 0 && row < rows) {
      targets.row.push_back(row), targets.token.push_back(batch.targets.token[i]);
      of.push_back(i);
    }
  nn::workspace<cpu> space(model.device());
  const auto temperature = reference().at("temperature").get<float>();
  nn::forward_backward(model, space, gradients, sequences, targets, temperature, false,
                       [&](auto, auto, auto dlogp, auto dentropy) {
                         for (std::size_t i = 0; i < of.size(); ++i)
                           dlogp[i] = batch.weight[of[i]], dentropy[i] = batch.bonus[of[i]];
                       });
}

std::vector<float> values_of(const nn::gradients<cpu>& g) { return {g.data(), g.data() + g.size()}; }

TEST(padding, has_the_gradients_of_transformers) {
  for (const std::string name : {"tied", "untied"}) {
    SCOPED_TRACE(name);
    const json& golden = reference().at("models").at(name);
    cpu device(1);
    nn::causal_lm<cpu> model(device, config_of(golden)), other(device, config_of(golden, false));
    sorted_parameters sorted = fill(model);
    fill(other);
    const example batch(reference(), model.settings().vocab_size);
    nn::gradients<cpu> gradients(model), without(other);
    backward(model, gradients, batch, 0, 3);
    expect_gradients(gradients, sorted, golden);
    backward(other, without, batch, 0, 3);
    const auto pad = static_cast<std::size_t>(model.settings().pad_token_id),
               width = static_cast<std::size_t>(model.settings().hidden_size);
    bool differs = false;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (i / width == pad)
        differs = differs || gradients.data()[i] != without.data()[i];
      else
        EXPECT_EQ(gradients.data()[i], without.data()[i]) << i;
    }
    EXPECT_TRUE(differs);
  }
}

TEST(padding, bits_do_not_depend_on_how_sequences_are_split) {
  for (const std::string name : {"tied", "untied"}) {
    SCOPED_TRACE(name);
    const json& golden = reference().at("models").at(name);
    cpu device(1);
    nn::causal_lm<cpu> model(device, config_of(golden));
    fill(model);
    example batch(reference(), model.settings().vocab_size);
    batch.sequences.row(1)[0] = model.settings().pad_token_id;  // the second sequence is padding alone
    nn::gradients<cpu> whole(model), parts(model), first(model);
    backward(model, whole, batch, 0, 3);
    for (std::size_t s = 0; s < 3; ++s) backward(model, parts, batch, s, s + 1);
    EXPECT_EQ(values_of(whole), values_of(parts));

    backward(model, first, batch, 1, 3);  // padding alone comes first
    nn::gradients<cpu> second(model);
    for (std::size_t s = 1; s < 3; ++s) backward(model, second, batch, s, s + 1);
    EXPECT_EQ(values_of(first), values_of(second));
  }
}

TEST(padding, unit_by_unit_the_gradient_is_the_same) {
  struct collected final : nn::unit_sink {
    explicit collected(std::size_t size) : values(size) {}
    std::vector<float> values;
    std::vector<std::size_t> ends;
    void take(std::size_t unit, const float* gradient) override {
      const std::size_t begin = unit == 0 ? 0 : ends[unit - 1];
      std::memcpy(values.data() + begin, gradient, (ends[unit] - begin) * sizeof(float));
    }
  };
  cpu device(1);
  nn::causal_lm<cpu> model(device, config_of(reference().at("models").at("untied")));
  fill(model);
  const example batch(reference(), model.settings().vocab_size);
  nn::gradients<cpu> whole(model), lazy(model, true);
  backward(model, whole, batch, 0, 3);
  collected sink(model.size());
  sink.ends = nn::unit_ends(model.parameters());
  lazy.by_units(sink.ends, &sink);
  backward(model, lazy, batch, 0, 3);
  EXPECT_EQ(sink.values, values_of(whole));
}

TEST(padding, tensor_parallel_ranks_have_the_bits_of_one) {
  for (const nn::family family : {nn::family(nn::qwen2{}), nn::family(nn::llama{})}) {
    nn::config c = rlcore_test::small_model(family, 8);
    const rlcore_test::trained without = rlcore_test::train_serial(c, {});
    c.pad_token_id = rlcore_test::token_of(1, 3);
    const rlcore_test::trained serial = rlcore_test::train_serial(c, {});
    EXPECT_NE(serial.gradient.at("model.embed_tokens.weight"), without.gradient.at("model.embed_tokens.weight"));
    for (const int ranks : {2, 8})
      for (const bool sequence : {false, true})
        EXPECT_TRUE(rlcore_test::train_on_ranks(c, ranks, {sequence}).same(serial)) << ranks << sequence;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
