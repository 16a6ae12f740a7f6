// Passes over packed sequences made by several ranks together: the log-probs of one rank to the bit, its gradients up
// to the order in which ranks are added.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::context_kind;
using floats = std::vector<float>;

nn::config tiny(bool tied, nn::model_output output = nn::model_output::logits) {
  nn::config c;
  c.model = tied ? nn::family::qwen2 : nn::family::qwen3;
  c.output = output;
  c.vocab_size = 75;
  c.hidden_size = 32;
  c.intermediate_size = 40;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 8;
  c.num_key_value_heads = 4;
  c.head_dim = 6;
  c.tie_word_embeddings = tied;
  c.attention_bias = tied;
  c.initializer_range = 0.2;
  return c;
}

struct batch {
  ragged<std::int32_t> sequences;
  nn::targets wanted;
  floats weight;  ///< 0 for every third sequence
};
batch batch_of(const std::vector<int>& lengths) {
  batch b;
  for (int number = 0; const int length : lengths) {
    const auto start = static_cast<std::int32_t>(b.sequences.values.size());
    std::vector<std::int32_t> ids;
    for (int t = 0; t < length; ++t) ids.push_back((t * t + 13 * number + 3 * t) % 75);
    b.sequences.push_back(ids);
    for (int t = 2; t < length; ++t) {
      b.wanted.row.push_back(start + t - 1);
      b.wanted.token.push_back(ids[static_cast<std::size_t>(t)]);
      b.weight.push_back(number % 3 == 1 ? 0.0f : static_cast<float>((number + t) % 5 - 2) * 0.3f);
    }
    ++number;
  }
  return b;
}

struct result {
  floats logp, entropy, scored, gradient;
  std::vector<std::int32_t> likely;
};

/// The gradient is the sum over the ranks.
void add_ranks(parallel::any_communicator* ranks, floats& x) {
  if (!ranks) return;
  floats all(x.size() * static_cast<std::size_t>(ranks->size()));
  ranks->all_gather(std::span<const float>(x), std::span<float>(all));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = all[i];
    for (std::size_t j = i + x.size(); j < all.size(); j += x.size()) x[i] += all[j];
  }
}

result run(nn::context_group group, const batch& b, bool tied, bool recompute) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, tiny(tied));
  model.initialize(3);
  nn::workspace<cpu> space(device, std::size_t{1} << 15);  // of the logits, some are kept
  space.context = group;
  nn::gradients<cpu> gradients(model);
  result r;
  const std::size_t n = b.wanted.row.size();
  r.scored.resize(2 * n), r.likely.resize(n);
  const std::span<float> scored(r.scored);
  nn::log_probs(model, space, b.sequences, b.wanted, 0.9f, scored.first(n), scored.last(n));
  nn::most_likely(model, space, b.sequences, b.wanted.row, r.likely);
  for (int call = 0; call < 2; ++call)  // the second adds to the first
    nn::forward_backward(model, space, gradients, b.sequences, b.wanted, 0.9f, recompute,
                         [&](std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp,
                             std::span<float> dentropy) {
                           r.logp.assign(logp.begin(), logp.end()), r.entropy.assign(entropy.begin(), entropy.end());
                           for (std::size_t i = 0; i < n; ++i) dlogp[i] = b.weight[i], dentropy[i] = 0.1f * b.weight[i];
                         });
  r.gradient.resize(gradients.size());
  device.download(r.gradient.data(), gradients.data(), r.gradient.size() * sizeof(float));
  add_ranks(group.ranks, r.gradient);
  return r;
}

double relative_error(const floats& a, const floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return size > 0 ? std::sqrt(difference / size) : difference;
}

template <class F>
void on_ranks(int size, F&& f) {
  parallel::run_ranks(
      size,
      [&](parallel::thread_rank& self) {
        parallel::any_communicator_of<parallel::thread_rank> any(self);
        f(any);
      },
      std::chrono::seconds(60));
}

const char* name_of(context_kind how) {
  return how == context_kind::gather_kv ? "gather_kv" : how == context_kind::ring ? "ring" : "ulysses";
}

/// Odd lengths, lengths around tiles of 64 keys, fewer tokens than ranks, one sequence alone, and empty ones.
const std::vector<std::vector<int>> batches = {
    {5, 23, 300, 40, 17}, {257}, {3}, {130, 129, 131}, {0, 70, 64, 65, 0, 2}};

class context : public testing::TestWithParam<context_kind> {};

TEST_P(context, has_the_log_probs_of_one_rank) {
  for (const auto& lengths : batches)
    for (const bool recompute : {false, true}) {
      const bool tied = recompute;
      const batch b = batch_of(lengths);
      const result one = run({}, b, tied, recompute);
      std::vector<int> sizes{1, 2, 3, 4};
      if (GetParam() == context_kind::ulysses && lengths.size() == 5)
        sizes.push_back(recompute ? 6 : 8);  // 4 key heads
      for (const int ranks : sizes) {
        on_ranks(ranks, [&](parallel::any_communicator& self) {
          const result r = run({&self, GetParam()}, b, tied, recompute);
          const auto where = [&] {
            return std::string(name_of(GetParam())) + ", rank " + std::to_string(self.rank()) + " of " +
                   std::to_string(ranks) + ", " + std::to_string(lengths.size()) + " sequences, the first of " +
                   std::to_string(lengths[0]);
          };
          EXPECT_EQ(r.logp, one.logp) << where();
          EXPECT_EQ(r.entropy, one.entropy) << where();
          EXPECT_EQ(r.scored, one.scored) << where();
          EXPECT_EQ(r.likely, one.likely) << where();
          EXPECT_LE(relative_error(r.gradient, one.gradient), ranks == 1 ? 0 : 1e-6) << where();
        });
      }
    }
}

TEST_P(context, has_the_values_of_one_rank) {
  const batch b = batch_of({150, 9, 80});
  const auto values = [&](nn::context_group group) {
    cpu device(1);
    nn::causal_lm<cpu> model(device, tiny(true, nn::model_output::score));
    model.initialize(3);
    nn::workspace<cpu> space(device);
    space.context = group;
    nn::gradients<cpu> gradients(model);
    result r;
    r.scored.resize(b.wanted.row.size());
    nn::values(model, space, b.sequences, b.wanted.row, r.scored);
    nn::value_forward_backward(model, space, gradients, b.sequences, b.wanted.row, false,
                               [&](std::span<const float> value, std::span<float> dvalue) {
                                 r.logp.assign(value.begin(), value.end());
                                 std::copy(b.weight.begin(), b.weight.end(), dvalue.begin());
                               });
    r.gradient.assign(gradients.data(), gradients.data() + gradients.size());
    add_ranks(group.ranks, r.gradient);
    return r;
  };
  const result one = values({});
  on_ranks(2, [&](parallel::any_communicator& self) {
    const result r = values({&self, GetParam()});
    EXPECT_EQ(r.scored, one.scored);
    EXPECT_EQ(r.logp, one.logp);
    EXPECT_LE(relative_error(r.gradient, one.gradient), 1e-6);
  });
}

/// No target has a gradient in any rank, or in one of them alone.
TEST_P(context, ranks_stay_together_where_there_is_nothing_to_do) {
  for (const int active : {0, 1, 2}) {
    batch b = batch_of({40, 41, 300});
    for (std::size_t i = 0; i < b.weight.size(); ++i) b.weight[i] = i < static_cast<std::size_t>(active) ? 1.0f : 0.0f;
    const result one = run({}, b, true, false);
    on_ranks(4, [&](parallel::any_communicator& self) {
      EXPECT_LE(relative_error(run({&self, GetParam()}, b, true, false).gradient, one.gradient), 1e-6);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(kinds, context,
                         testing::Values(context_kind::gather_kv, context_kind::ring, context_kind::ulysses),
                         [](const auto& i) { return std::string(name_of(i.param)); });

/// Every rank knows how often experts were chosen for the rows of all ranks.
TEST(context, mixtures_of_experts) {
  const batch b = batch_of({150, 9, 80});
  const auto counts_of = [&](nn::context_group group, floats& logp) {
    cpu device(1);
    nn::config c = tiny(false);
    c.model = nn::family::qwen3_moe;
    c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
    nn::causal_lm<cpu> model(device, c);
    model.initialize(3);
    nn::workspace<cpu> space(device);
    space.context = group;
    nn::gradients<cpu> gradients(model);
    std::vector<std::int64_t> counts;
    nn::forward_backward(
        model, space, gradients, b.sequences, b.wanted, 1.0f, false,
        [&](std::span<const float> values, std::span<const float>, std::span<float> dlogp, std::span<float>) {
          logp.assign(values.begin(), values.end());
          counts = space.routed.values;
          std::copy(b.weight.begin(), b.weight.end(), dlogp.begin());
        });
    return counts;
  };
  floats one;
  const std::vector<std::int64_t> counts = counts_of({}, one);
  EXPECT_EQ(counts[0], 2 * 239);
  on_ranks(4, [&](parallel::any_communicator& self) {
    floats logp;
    EXPECT_EQ(counts_of({&self, context_kind::ring}, logp), counts);
    EXPECT_EQ(logp, one);
  });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
