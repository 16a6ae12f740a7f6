// How much context parallelism adds to the error that bf16 products have anyway: frozen weights, one batch of
// REINFORCE++ (group-normalised advantages of whole responses), log-probs and gradients of several ranks against those
// of one. Prints the table of docs/parallel_proof.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::context_kind;
using floats = std::vector<float>;

struct result {
  floats logp, gradient;
};

result run(nn::context_group group, compute type) {
  nn::config c;
  c.vocab_size = 512, c.hidden_size = 128, c.intermediate_size = 256, c.num_hidden_layers = 4;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 16;
  c.tie_word_embeddings = c.attention_bias = true;
  c.initializer_range = 0.1;
  cpu device(1, {}, type);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(5);
  nn::workspace<cpu> space(device);
  space.context = group;
  nn::gradients<cpu> gradients(model);
  ragged<std::int32_t> sequences;
  nn::targets wanted;
  floats advantage;
  constexpr std::uint32_t lengths[] = {700, 411, 96, 33};
  constexpr float of_response[] = {1.3f, -0.9f, 0.4f, -0.8f};
  for (std::uint32_t s = 0; s < 4; ++s) {
    const auto start = static_cast<std::int32_t>(sequences.values.size());
    std::vector<std::int32_t> ids;
    for (std::uint32_t t = 0; t < lengths[s]; ++t)
      ids.push_back(static_cast<std::int32_t>(random_key{9}.below(512, s, t)));
    for (std::size_t t = 16; t < ids.size(); ++t) {
      wanted.row.push_back(start + static_cast<std::int32_t>(t) - 1);
      wanted.token.push_back(ids[t]);
      advantage.push_back(of_response[s]);
    }
    sequences.push_back(ids);
  }
  result r;
  nn::forward_backward(
      model, space, gradients, sequences, wanted, 1.0f, false,
      [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
        r.logp.assign(logp.begin(), logp.end());
        const auto n = static_cast<float>(logp.size());
        for (std::size_t i = 0; i < logp.size(); ++i) dlogp[i] = -advantage[i] / n;  // ratio 1: not yet clipped
      });
  r.gradient.assign(gradients.data(), gradients.data() + gradients.size());
  if (group.ranks) parallel::all_reduce_sum(parallel::ranked{}, *group.ranks, std::span<float>(r.gradient));
  return r;
}

struct error {
  double most = 0, mean = 0, gradient = 0;  ///< |difference| of log-probs, relative L2 of the gradient
};
error between(const result& a, const result& b) {
  error e;
  for (std::size_t i = 0; i < a.logp.size(); ++i) {
    const double d = std::abs(static_cast<double>(a.logp[i]) - static_cast<double>(b.logp[i]));
    e.most = std::max(e.most, d), e.mean += d / static_cast<double>(a.logp.size());
  }
  double size = 0;
  for (std::size_t i = 0; i < a.gradient.size(); ++i) {
    e.gradient += std::pow(static_cast<double>(a.gradient[i]) - static_cast<double>(b.gradient[i]), 2);
    size += std::pow(static_cast<double>(b.gradient[i]), 2);
  }
  e.gradient = std::sqrt(e.gradient / size);
  return e;
}
void print(const char* what, int ranks, const error& e) {
  std::printf("  %-38s %d   %9.2e  %9.2e  %9.2e\n", what, ranks, e.most, e.mean, e.gradient);
}

TEST(context_accuracy, nothing_is_added_to_the_error_of_bf16) {
  const result exact = run({}, compute::float32), one = run({}, compute::bfloat16);
  const error floor = between(one, exact);
  std::printf("  %-38s ranks  max dlogp  mean dlogp  gradient\n", "");
  print("bf16 against fp32 (the floor)", 1, floor);
  EXPECT_GT(floor.mean, 1e-4);
  EXPECT_GT(floor.gradient, 1e-3);
  constexpr const char* against_one[] = {"gather_kv against one rank, bf16", "ring against one rank, bf16",
                                         "ulysses against one rank, bf16"};
  constexpr const char* against_exact[] = {"gather_kv, bf16, against fp32", "ring, bf16, against fp32",
                                           "ulysses, bf16, against fp32"};
  for (const int how : {0, 1, 2})
    for (const int ranks : {2, 4})
      parallel::run_ranks(
          ranks,
          [&](parallel::thread_rank& self) {
            parallel::any_communicator_of<parallel::thread_rank> any(self);
            const result r = run({&any, static_cast<context_kind>(how)}, compute::bfloat16);
            if (self.rank() != 0) return;
            const error added = between(r, one), all = between(r, exact);
            print(against_one[how], ranks, added);
            print(against_exact[how], ranks, all);
            EXPECT_EQ(added.most, 0);
            // gather_kv adds up keys' gradients in another order, and bf16 products round what differs in the last bit
            EXPECT_LE(added.gradient, how == 0 ? 0.25 * floor.gradient : 1e-5);
            EXPECT_LE(all.most, 1.1 * floor.most);
            EXPECT_LE(all.mean, 1.1 * floor.mean);
            EXPECT_LE(all.gradient, 1.1 * floor.gradient);
          },
          std::chrono::seconds(120));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
