// Experts divided among ranks: log-probs and the gradient of each rank's rows have the bits of the serial model that
// sees those rows alone, whichever rank computed them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/launch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

nn::config tiny() {
  nn::config c;
  c.model = nn::family::qwen3_moe;
  c.vocab_size = 75;
  c.hidden_size = 32;
  c.intermediate_size = 40;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.tie_word_embeddings = true;
  c.attention_bias = false;
  c.initializer_range = 0.2;
  c.num_experts = 7;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 20;
  c.norm_topk_prob = true;
  c.mlp_only_layers = {1};
  return c;
}

/// Sequences that passes of a rank have; every other token is a target.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;

  explicit batch(const std::vector<int>& lengths) {
    for (const int length : lengths) {
      const int start = static_cast<int>(sequences.values.size());
      std::vector<std::int32_t> ids;
      for (int t = 0; t < length; ++t) ids.push_back((t * t + 13 * length + 3 * t) % 75);
      sequences.push_back(ids);
      for (int t = 1; t < length; t += 2) {
        targets.row.push_back(start + t - 1);
        targets.token.push_back(ids[static_cast<std::size_t>(t)]);
      }
    }
  }
};

/// Two passes of four ranks: one rank has nothing in the first, one nothing in the second, one nothing at all; one
/// token goes to few experts, and long sequences to all.
const std::vector<std::vector<std::vector<int>>> work = {{{9, 14}, {1}}, {{}, {30}}, {{5}, {}}, {{}, {}}};

struct result {
  floats logp, gradient;
};

/// In every pass the gradient of a sum over the targets, and with `balance` of a load-balancing loss.
template <class Device>
result train(nn::causal_lm<Device>& model, nn::workspace<Device>& space, nn::gradients<Device>& grads,
             const std::vector<std::vector<int>>& passes, bool recompute, bool balance, bool skip_empty) {
  result r;
  grads.zero();
  if (balance) grads.balance(floats{0.1f, 0.02f, 0.03f, 0.2f, 0.0f, 0.05f, 0.01f});
  for (const std::vector<int>& lengths : passes) {
    if (lengths.empty() && skip_empty) continue;
    const batch b(lengths);
    nn::forward_backward(model, space, grads, b.sequences, b.targets, 0.9f, recompute,
                         [&](auto logp, auto, auto dlogp, auto dentropy) {
                           r.logp.insert(r.logp.end(), logp.begin(), logp.end());
                           for (std::size_t i = 0; i < dlogp.size(); ++i)
                             dlogp[i] = 0.3f * logp[i], dentropy[i] = 0.01f;
                         });
  }
  return r;
}

result serial(const nn::config& c, const std::vector<std::vector<int>>& passes, bool balance) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(11);
  nn::workspace<cpu> space(device);
  nn::gradients<cpu> grads(model);
  result r = train(model, space, grads, passes, false, balance, true);
  r.gradient.assign(grads.data(), grads.data() + grads.size());
  return r;
}

class expert_parallel : public testing::TestWithParam<int> {};

TEST_P(expert_parallel, gradients_come_home) {
  const int ranks = GetParam();
  for (const bool balance : {false, true}) {
    std::vector<result> alone;
    for (int r = 0; r < ranks; ++r) alone.push_back(serial(tiny(), work[static_cast<std::size_t>(r)], balance));
    parallel::run_ranks(
        ranks,
        [&](parallel::thread_rank& c) {
          const result& wanted = alone[static_cast<std::size_t>(c.rank())];
          cpu device(1);
          nn::causal_lm<cpu> model(device, tiny());
          model.initialize(11);
          nn::expert_group_of<parallel::thread_rank> group(c);
          nn::workspace<cpu> space(device);
          space.experts = &group;
          nn::gradients<cpu> grads(model);
          grads.divide_experts(model, group);
          for (const bool recompute : {false, true}) {
            const result got =
                train(model, space, grads, work[static_cast<std::size_t>(c.rank())], recompute, balance, false);
            grads.collect_experts();
            EXPECT_EQ(got.logp, wanted.logp) << c.rank();
            EXPECT_TRUE(std::equal(wanted.gradient.begin(), wanted.gradient.end(), grads.data())) << c.rank();
          }
        },
        std::chrono::seconds(60));
  }
}

/// A rank has its own experts alone: the gradients of these for the rows of other ranks stay with it.
TEST_P(expert_parallel, parts_of_the_model) {
  const int ranks = GetParam();
  std::vector<result> alone;
  for (int r = 0; r < ranks; ++r) alone.push_back(serial(tiny(), work[static_cast<std::size_t>(r)], false));
  cpu whole_device(1);
  nn::causal_lm<cpu> whole(whole_device, tiny());
  whole.initialize(11);
  std::mutex lock;
  std::size_t held = 0;
  parallel::run_ranks(
      ranks,
      [&](parallel::thread_rank& c) {
        cpu device(1);
        nn::causal_lm<cpu> model(device, tiny(), {0, 1, c.rank(), ranks});
        model.initialize(11);
        nn::expert_group_of<parallel::thread_rank> group(c);
        nn::workspace<cpu> space(device);
        space.experts = &group;
        nn::gradients<cpu> grads(model);
        grads.divide_experts(model, group);
        const result got = train(model, space, grads, work[static_cast<std::size_t>(c.rank())], true, false, false);
        grads.collect_experts();  // nothing to send home to
        EXPECT_EQ(got.logp, alone[static_cast<std::size_t>(c.rank())].logp);
        std::size_t mine = 0, at = 0;
        for (const nn::parameter& p : model.parameters()) {
          const auto same = std::find_if(whole.parameters().begin(), whole.parameters().end(),
                                         [&](const nn::parameter& q) { return q.name == p.name; });
          ASSERT_NE(same, whole.parameters().end());
          const float* w = std::as_const(whole).weights().data() + same->offset;
          EXPECT_TRUE(std::equal(w, w + p.size, std::as_const(model).weights().data() + p.offset)) << p.name;
          const auto expect = [&](const float* g, int source) {
            const float* wanted = alone[static_cast<std::size_t>(source)].gradient.data() + same->offset;
            EXPECT_TRUE(std::equal(wanted, wanted + p.size, g)) << p.name << " of rank " << source;
          };
          expect(grads.data() + p.offset, c.rank());
          if (p.name.find(".experts.") == std::string::npos) continue;
          for (int s = 0; s < ranks; ++s)
            if (s != c.rank()) expect(grads.experts_of_rank(s) + at, s);
          mine += p.size, at += p.size;
        }
        // Scoring: the ranks make the same number of passes.
        const batch b({c.rank() == 0 ? 12 : 3});
        floats logp(b.targets.row.size()), expected(logp.size());
        nn::log_probs(model, space, b.sequences, b.targets, 1, logp, {});
        const std::lock_guard<std::mutex> guard(lock);
        nn::workspace<cpu> other(whole_device);
        nn::log_probs(whole, other, b.sequences, b.targets, 1, expected, {});
        EXPECT_EQ(logp, expected);
        held += mine;
      },
      std::chrono::seconds(60));
  EXPECT_EQ(held, 2u * 7 * 3 * 32 * 20);  // each expert once
}
INSTANTIATE_TEST_SUITE_P(ranks, expert_parallel, testing::Values(2, 3, 4),
                         [](const auto& each) { return std::to_string(each.param); });

/// Bytes: in each layer with experts a row goes to the rank of each of its experts and back, forward and backward, and
/// in the backward its weight and the gradient of that, too.
TEST(expert_group, counters_and_a_device_that_the_host_cannot_read) {
  parallel::launch({.thread_ranks = 2, .deadline = std::chrono::seconds(60)}, [&](parallel::any_communicator& c) {
    const std::vector<std::vector<int>> passes = {{c.rank() == 0 ? 20 : 11}};
    const result wanted = serial(tiny(), passes, false);
    any_device_of<cpu> device(1);
    nn::causal_lm<any_device> model(device, tiny());
    model.initialize(11);
    nn::expert_group_of<parallel::any_communicator> group(c);
    nn::workspace<any_device> space(device);
    space.experts = &group;
    nn::gradients<any_device> grads(model);
    grads.divide_experts(model, group);
    const result got = train(model, space, grads, passes, false, false, false);
    EXPECT_EQ(got.logp, wanted.logp);
    const auto& line = c.counters().lines[static_cast<std::size_t>(parallel::collective::all_to_all_v)];
    const std::size_t other_begin = c.rank() == 0 ? 3 : 0, other_end = c.rank() == 0 ? 7 : 3;
    std::int64_t leaving = 0, all = space.routed.rows() * 2;
    for (std::size_t e = other_begin; e < other_end; ++e) leaving += space.routed.chosen(e);
    std::vector<std::int64_t> arriving(2);
    c.all_gather(std::span<const std::int64_t>(&leaving, 1), std::span<std::int64_t>(arriving));
    const std::int64_t from_other = arriving[static_cast<std::size_t>(1 - c.rank())];
    EXPECT_GT(leaving, 0);
    EXPECT_LT(leaving, all);
    EXPECT_EQ(line.bytes, static_cast<std::size_t>((leaving + from_other) * (2 * 32 + 1) * 4));
    EXPECT_EQ(line.calls, 2u * (2 + 4));
    grads.collect_experts();
    floats gradient(grads.size());
    device.download(gradient.data(), grads.data(), gradient.size() * sizeof(float));
    EXPECT_EQ(gradient, wanted.gradient);
  });
}

TEST(expert_group, refusals) {
  cpu device(1);
  nn::config c = tiny();
  EXPECT_THROW((nn::causal_lm<cpu>(device, c, {0, 1, 0, 8})), config_error);  // 7 experts
  EXPECT_THROW((nn::causal_lm<cpu>(device, c, {0, 1, 2, 2})), config_error);
  nn::causal_lm<cpu> part(device, c, {0, 1, 0, 2});
  part.initialize(1);
  nn::workspace<cpu> space(device);
  const batch b({5});
  floats logp(b.targets.row.size());
  EXPECT_THROW(nn::log_probs(part, space, b.sequences, b.targets, 1, logp, {}), std::logic_error);
  c.model = nn::family::qwen3;
  EXPECT_THROW((nn::causal_lm<cpu>(device, c, {0, 1, 0, 2})), config_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
