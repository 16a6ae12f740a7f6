// Tensor and sequence parallel training on threads against the serial model: log-probs, entropies and the gradient of
// every parameter, to the bit with tp_reduce_chunks, near it without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/parallel/tensor_parallel.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore_test;

/// || a - b || / || a ||, the gradients of all parameters together.
struct difference {
  double logp = 0, gradient = 0;
};

double relative(const std::vector<const std::vector<float>*>& a, const std::vector<const std::vector<float>*>& b) {
  double apart = 0, all = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    EXPECT_EQ(a[k]->size(), b[k]->size());
    for (std::size_t i = 0; i < a[k]->size(); ++i) {
      apart += std::pow(static_cast<double>((*a[k])[i]) - static_cast<double>((*b[k])[i]), 2);
      all += std::pow(static_cast<double>((*a[k])[i]), 2);
    }
  }
  EXPECT_GT(all, 0);
  return std::sqrt(apart / all);
}

difference compare(const trained& a, const trained& b) {
  std::vector<const std::vector<float>*> of_a, of_b;
  for (const auto& [name, values] : a.gradient) {
    of_a.push_back(&values), of_b.push_back(&b.gradient.at(name));
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float x) { return x != 0; })) << name;
  }
  return {relative({&a.logp}, {&b.logp}), relative(of_a, of_b)};
}

class tensor_parallel : public testing::TestWithParam<nn::family> {};

TEST_P(tensor_parallel, has_the_bits_of_the_serial_model_for_any_number_of_ranks) {
  const nn::config c = small_model(GetParam(), 8);
  const trained serial = train_serial(c, {});
  for (const int ranks : {2, 4, 8})
    for (const bool sequence : {false, true})
      for (const bool recompute : {false, true}) {
        if (ranks != 4 && recompute) continue;
        const trained shared = train_on_ranks(c, ranks, {sequence, recompute});
        EXPECT_TRUE(shared.same(serial)) << ranks << " ranks, sequence " << sequence << ", recompute " << recompute;
      }
}

TEST_P(tensor_parallel, bits_do_not_depend_on_micro_batches_or_memory_for_logits) {
  const nn::config c = small_model(GetParam(), 8);
  const trained serial = train_serial(c, {});
  for (const bool sequence : {false, true})
    EXPECT_TRUE(train_on_ranks(c, 2, {sequence, false, 3, 2048}).same(serial)) << sequence;
  EXPECT_TRUE(train_serial(c, {false, true, 2, 1024}).same(serial));
}

TEST_P(tensor_parallel, bfloat16_products_and_score_models_have_the_bits_of_the_serial_model) {
  nn::config c = small_model(GetParam(), 8);
  how_to_train narrow;
  narrow.type = compute::bfloat16;
  EXPECT_TRUE(train_on_ranks(c, 4, narrow).same(train_serial(c, narrow)));
  c.output = nn::model_output::score, c.score_bias = true;
  const trained score = train_serial(c, {});
  for (const bool sequence : {false, true}) EXPECT_TRUE(train_on_ranks(c, 2, {sequence}).same(score)) << sequence;
}

TEST_P(tensor_parallel, without_row_chunks_it_is_near_the_serial_model) {
  const nn::config c = small_model(GetParam(), 0);
  const trained serial = train_serial(c, {});
  for (const int ranks : {2, 4, 8}) {
    const trained shared = train_on_ranks(c, ranks, {});
    const difference d = compare(serial, shared);
    EXPECT_LT(d.logp, 3e-7);      // measured 1.2e-7
    EXPECT_LT(d.gradient, 2e-6);  // measured 9e-7: log-sum-exp in float is most of it
    EXPECT_GT(d.gradient, 0);
    RecordProperty("logp_" + std::to_string(ranks), std::to_string(d.logp * 1e7) + "e-7");
    RecordProperty("gradient_" + std::to_string(ranks), std::to_string(d.gradient * 1e7) + "e-7");
    EXPECT_TRUE(train_on_ranks(c, ranks, {true}).same(shared)) << "sequence parallel, " << ranks << " ranks";
  }
  EXPECT_LT(compare(serial, train_serial(small_model(GetParam(), 8), {})).gradient, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(families, tensor_parallel,
                         testing::Values(nn::qwen2{}, nn::qwen3{}, nn::qwen3_moe{}, nn::llama{}));

}  // namespace
}  // namespace RLCORE_TEST_ID
