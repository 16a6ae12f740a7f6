// Tensor and sequence parallel training on threads against the serial model: log-probs, entropies and the gradient of
// every parameter, to the bit with row_chunks, near it without.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/tensor_parallel.hpp"

namespace {

using namespace rlcore;
using namespace rlcore_test;

/// How far apart two results are, relative to the largest value of a parameter.
struct difference {
  float logp = 0, entropy = 0, gradient = 0;
  bool none() const { return logp == 0 && entropy == 0 && gradient == 0; }
};

difference compare(const trained& a, const trained& b) {
  difference d;
  EXPECT_EQ(a.logp.size(), b.logp.size());
  for (std::size_t i = 0; i < a.logp.size(); ++i) {
    d.logp = std::max(d.logp, std::abs(a.logp[i] - b.logp[i]));
    d.entropy = std::max(d.entropy, std::abs(a.entropy[i] - b.entropy[i]));
  }
  for (const auto& [name, values] : a.gradient) {
    const std::vector<float>& others = b.gradient.at(name);
    EXPECT_EQ(values.size(), others.size());
    float largest = 0, apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      apart = std::max(apart, std::abs(values[i] - others[i]));
    }
    EXPECT_GT(largest, 0) << name;
    d.gradient = std::max(d.gradient, apart / largest);
  }
  return d;
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

TEST_P(tensor_parallel, without_row_chunks_it_is_near_the_serial_model) {
  const nn::config c = small_model(GetParam(), 0);
  const trained serial = train_serial(c, {});
  for (const int ranks : {2, 8}) {
    const trained shared = train_on_ranks(c, ranks, {});
    const difference d = compare(serial, shared);
    EXPECT_LT(d.logp, 5e-6f);
    EXPECT_LT(d.entropy, 5e-6f);
    EXPECT_LT(d.gradient, 3e-6f);
    EXPECT_TRUE(train_on_ranks(c, ranks, {true}).same(shared)) << "sequence parallel, " << ranks << " ranks";
    RecordProperty("ranks_" + std::to_string(ranks), std::to_string(d.gradient));
  }
  EXPECT_FALSE(compare(serial, train_serial(small_model(GetParam(), 8), {})).none());
}

INSTANTIATE_TEST_SUITE_P(families, tensor_parallel, testing::Values(nn::family::qwen2, nn::family::qwen3));

}  // namespace
