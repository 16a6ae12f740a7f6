// What tensor and sequence parallel ranks send, counted by the engine, against the formulas.
#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "nn/parallel/tensor_parallel.hpp"
#include "rlcore/parallel/communicator/any.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore_test;

/// Of all ranks together.
parallel::traffic sent(const nn::config& c, int ranks, const how_to_train& how) {
  parallel::traffic all;
  std::mutex adding;
  parallel::run_ranks(
      ranks,
      [&](parallel::thread_rank& self) {
        parallel::any_communicator_of<parallel::thread_rank&> counted(self);
        nn::tensor_group_of<parallel::any_communicator> group(counted, how.sequence);
        trained result;
        train_rank(c, nn::partition{self.rank(), ranks}, &group, how, result);
        const std::lock_guard<std::mutex> lock(adding);
        all += counted.counters();
      },
      std::chrono::seconds(20));
  return all;
}

/// Rows of the batch of train_rank: all tokens, those of sequences with a gradient, targets, targets with a gradient.
struct batch_rows {
  std::uint64_t tokens = 0, active_tokens = 0, targets = 0, active_targets = 0;
};
batch_rows count_rows() {
  batch_rows n;
  for (int s = 0; s < sequences; ++s) {
    const auto length = static_cast<std::uint64_t>(lengths[s]);
    std::uint64_t active = 0;
    for (int t = 2; t < lengths[s]; ++t) {
      ++n.targets;
      active += weight_of(s, t) != 0;
    }
    n.tokens += length, n.active_targets += active;
    if (active > 0) n.active_tokens += length;
  }
  return n;
}

TEST(tensor_parallel_traffic, is_what_the_formulas_say) {
  const nn::config c = small_model(nn::family::qwen3, 8);
  const batch_rows n = count_rows();
  const auto h = static_cast<std::uint64_t>(c.hidden_size), layers = static_cast<std::uint64_t>(c.num_hidden_layers);
  for (const std::uint64_t p : {2U, 4U, 8U}) {
    // An all-reduce of x floats is 2 (P - 1) x floats of all ranks together, half of it each way.
    const auto values = [&](std::uint64_t rows) { return 4 * (p - 1) * h * rows; };
    // The states of rows and the sums of the norms of heads go from every rank to every other.
    const std::uint64_t head_sums =
        layers * static_cast<std::uint64_t>((c.num_attention_heads + c.num_key_value_heads) * c.head_dim);
    const std::uint64_t others = (p - 1) * (p * n.targets * sizeof(log_prob_state) + 4 * head_sums);
    const std::uint64_t top = values(2 * n.active_targets) + others;

    const parallel::traffic tensor = sent(c, static_cast<int>(p), {});
    EXPECT_EQ(tensor.total().bytes,
              values(2 * n.tokens) + layers * (values(4 * n.tokens) + values(4 * n.active_tokens)) + top);

    // Sequence parallel: each all-reduce in two halves; the inputs of products and the slopes of their outputs are
    // gathered once more in the backward, since each rank keeps only its rows.
    const parallel::traffic sequence = sent(c, static_cast<int>(p), {true});
    const parallel::traffic::line norms = sequence.of(parallel::collective::broadcast);
    EXPECT_EQ(norms.bytes, 4 * h * (p - 1) * (norms.calls / p));
    EXPECT_EQ(sequence.total().bytes - norms.bytes,
              values(3 * n.tokens) + layers * (values(4 * n.tokens) + values(6 * n.active_tokens)) + top);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
