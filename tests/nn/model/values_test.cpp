// Score models: values and gradients of transformers (tests/reference/score.py), and the same bits in any company.
#include "rlcore/nn/model/log_probs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

/// The formula of tests/reference/nn_parity.py.
float formula(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

nn::config tiny(bool token) {
  nn::config c;
  c.model = token ? nn::family::qwen3 : nn::family::qwen2;
  c.output = nn::model_output::score;
  c.score_bias = token;
  c.vocab_size = 40, c.hidden_size = 16, c.intermediate_size = 20, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = token ? 6 : 4;
  c.tie_word_embeddings = !token, c.attention_bias = !token;
  c.rope_theta = 10000, c.max_position_embeddings = 64;
  return c;
}

struct rig {
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
  nn::gradients<cpu> gradients;

  explicit rig(const nn::config& c, int threads = 1, const std::string& set = {}, compute type = compute::float32)
      : device(threads, set, type), model(device, c), space(device), gradients(model) {}

  void fill() {
    std::map<std::string, const nn::parameter*> sorted;
    for (const auto& p : model.parameters()) sorted[p.name] = &p;
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted) {
      for (std::size_t i = 0; i < p->size; ++i) {
        const float v = formula(k, static_cast<std::uint32_t>(i));
        model.weights().data()[p->offset + i] = name.find("norm") != name.npos ? 1 + v * 0.5f : v;
      }
      ++k;
    }
  }
};

struct batch {
  ragged<std::int32_t> sequences;
  std::vector<std::int32_t> rows;
  floats weight;

  /// All rows of the sequences with those lengths and numbers.
  void push_back(int s, int length, int first_row) {
    const auto start = static_cast<std::int32_t>(sequences.values.size());
    std::vector<std::int32_t> ids;
    for (int t = 0; t < length; ++t) {
      ids.push_back((11 * s + 7 * t + t * t) % 40);
      rows.push_back(start + t);
      weight.push_back(s == 1 ? 0.0f : static_cast<float>(5 * (first_row + t) % 7 - 3) / 4);
    }
    sequences.push_back(ids);
  }
};
constexpr int lengths[] = {7, 5, 13}, first_rows[] = {0, 7, 12};
batch of(std::initializer_list<int> numbers) {
  batch b;
  for (const int s : numbers) b.push_back(s, lengths[s], first_rows[s]);
  return b;
}

double relative_error(const float* ours, const std::vector<double>& theirs) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    norm += theirs[i] * theirs[i];
  }
  return std::sqrt(difference / norm);
}

floats train(rig& r, const std::vector<batch>& micro_batches, bool recompute, floats* values = nullptr) {
  r.gradients.zero();
  for (const batch& b : micro_batches)
    nn::value_forward_backward(r.model, r.space, r.gradients, b.sequences, b.rows, recompute,
                               [&](std::span<const float> value, std::span<float> dvalue) {
                                 if (values) values->insert(values->end(), value.begin(), value.end());
                                 std::copy(b.weight.begin(), b.weight.end(), dvalue.begin());
                               });
  return {r.gradients.data(), r.gradients.data() + r.gradients.size()};
}

TEST(values, and_gradients_are_those_of_transformers) {
  const auto golden = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/score.json"));
  for (const bool token : {false, true})
    for (const std::string& set : rlcore_test::instruction_sets()) {
      const nlohmann::json& expected = golden.at("models").at(token ? "token" : "sequence");
      rig r(tiny(token), 1, set);
      r.fill();
      const batch b = of({0, 1, 2});
      floats out(b.rows.size());
      nn::values(r.model, r.space, b.sequences, b.rows, out);
      EXPECT_LT(relative_error(out.data(), expected.at("values")), 2e-6) << set;
      floats again;
      train(r, {b}, false, &again);
      EXPECT_EQ(again, out);
      ASSERT_EQ(expected.at("gradients").size(), r.model.parameters().size());
      for (const nn::parameter& p : r.model.parameters())
        EXPECT_LT(relative_error(r.gradients.data() + p.offset, expected.at("gradients").at(p.name)), 1e-5)
            << set << " " << p.name;
    }
}

TEST(values, no_bit_depends_on_company_splits_threads_or_recomputation) {
  for (const compute type : {compute::float32, compute::bfloat16})
    for (const std::string& set : rlcore_test::instruction_sets()) {
      rig one(tiny(true), 1, set, type), three(tiny(true), 3, set, type);
      one.fill(), three.fill();
      floats values, alone;
      const floats whole = train(one, {of({0, 1, 2})}, false, &values);
      EXPECT_EQ(whole, train(one, {of({0, 1, 2})}, true));
      EXPECT_EQ(whole, train(one, {of({0}), of({1}), of({2})}, true, &alone));
      EXPECT_EQ(whole, train(one, {of({0, 1}), of({2})}, false));
      EXPECT_EQ(whole, train(three, {of({0, 1, 2})}, false));
      EXPECT_EQ(values, alone);
      const batch b = of({2, 0});  // some of the rows, in other company
      floats two(2);
      nn::values(one.model, one.space, b.sequences, std::vector<std::int32_t>{3, 15}, two);
      EXPECT_EQ(two, (floats{values[12 + 3], values[2]}));
    }
}

TEST(values, a_new_head_is_small_and_a_function_of_the_seed) {
  rig a(tiny(false)), b(tiny(false));
  a.model.initialize(3);
  b.model.initialize(4);
  const nn::parameter& head = a.model.parameters().back();
  ASSERT_EQ(head.name, "score.weight");
  const auto of_head = [&](rig& r) {
    return floats(r.model.weights().data() + head.offset, r.model.weights().data() + head.offset + head.size);
  };
  const floats before = of_head(a), other = of_head(b);
  EXPECT_NE(before, other);
  const floats backbone(b.model.weights().data(), b.model.weights().data() + head.offset);
  b.model.initialize_score(3);
  EXPECT_EQ(of_head(b), before);
  EXPECT_TRUE(std::equal(backbone.begin(), backbone.end(), b.model.weights().data()));
  nn::config wide = tiny(false);
  wide.hidden_size = 400, wide.num_attention_heads = 100;
  rig w(wide);
  w.model.initialize(5);
  double squares = 0;
  const nn::parameter& wide_head = w.model.parameters().back();
  for (std::size_t i = 0; i < 400; ++i) squares += std::pow(w.model.weights().data()[wide_head.offset + i], 2);
  EXPECT_NEAR(std::sqrt(squares / 400), 1.0 / 401, 0.1 / 401);  // the standard deviation, not the variance
}

TEST(values, the_wrong_kind_of_model_is_refused) {
  nn::config causal = tiny(false);
  causal.output = nn::model_output::logits;
  rig score(tiny(false)), logits(causal);
  const batch b = of({0});
  floats out(b.rows.size());
  const nn::targets wanted{{0}, {1}};
  const auto nothing = [](auto&&...) {};
  EXPECT_THROW(nn::values(logits.model, logits.space, b.sequences, b.rows, out), std::invalid_argument);
  EXPECT_THROW(
      nn::value_forward_backward(logits.model, logits.space, logits.gradients, b.sequences, b.rows, false, nothing),
      std::invalid_argument);
  EXPECT_THROW(nn::log_probs(score.model, score.space, b.sequences, wanted, 1.0f, std::span(out).first(1), {}),
               std::invalid_argument);
  EXPECT_THROW(
      nn::forward_backward(score.model, score.space, score.gradients, b.sequences, wanted, 1.0f, false, nothing),
      std::invalid_argument);
  nn::kv_cache<cpu> cache(score.device, score.model.settings(), 1);
  EXPECT_THROW(nn::decode(score.model, score.space, cache, {}, out.data()), std::invalid_argument);
  EXPECT_THROW(nn::values(score.model, score.space, b.sequences, b.rows, std::span(out).first(2)),
               std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
