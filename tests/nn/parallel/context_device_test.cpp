// Context parallelism on devices whose memory the host cannot read, and on those without attention in parts; and how
// many bytes it moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::context_kind;
using floats = std::vector<float>;

nn::config tiny() {
  nn::config c;
  c.vocab_size = 75, c.hidden_size = 32, c.intermediate_size = 40, c.num_hidden_layers = 2;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 6;
  c.initializer_range = 0.2;
  return c;
}

/// Log-probs and gradient of one sequence of 256 tokens.
template <class Device>
floats run(Device& device, nn::context_group group, bool recompute = false) {
  nn::causal_lm<Device> model(device, tiny());
  model.initialize(3);
  nn::workspace<Device> space(device);
  space.context = group;
  nn::gradients<Device> gradients(model);
  ragged<std::int32_t> sequences;
  nn::targets wanted;
  std::vector<std::int32_t> ids;
  for (std::int32_t t = 0; t < 256; ++t) ids.push_back(t * t % 75);
  sequences.push_back(ids);
  for (std::int32_t t = 1; t < 256; ++t)
    wanted.row.push_back(t - 1), wanted.token.push_back(ids[static_cast<std::size_t>(t)]);
  floats r;
  nn::forward_backward(
      model, space, gradients, sequences, wanted, 1.0f, recompute,
      [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
        r.assign(logp.begin(), logp.end());
        std::fill(dlogp.begin(), dlogp.end(), -0.01f);
      });
  const std::size_t n = r.size();
  r.resize(n + gradients.size());
  device.download(r.data() + n, gradients.data(), gradients.size() * sizeof(float));
  return r;
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

constexpr context_kind kinds[] = {context_kind::gather_kv, context_kind::ring, context_kind::ulysses};

TEST(context_device, memory_that_the_host_cannot_read) {
  for (const context_kind how : kinds)
    on_ranks(2, [&](parallel::any_communicator& self) {
      cpu plain(1);
      any_device_of<cpu> hidden(1);
      EXPECT_EQ(run<any_device>(hidden, {&self, how}), run(plain, {&self, how}));
    });
  on_ranks(8, [&](parallel::any_communicator& self) {  // of 4 key heads
    cpu plain(1);
    any_device_of<cpu> hidden(1);
    EXPECT_EQ(run<any_device>(hidden, {&self, context_kind::ulysses}), run(plain, {&self, context_kind::ulysses}));
  });
}

/// Takes the kernels away.
class whole_attention_only : public cpu {
 public:
  using cpu::cpu;
  std::string_view name() const noexcept { return "whole"; }
  void attention_tile() const = delete;
};
static_assert(device<whole_attention_only> && !partial_attention<whole_attention_only>);

TEST(context_device, a_ring_needs_attention_in_parts) {
  const auto expect_refusal = [](auto make) {
    try {
      on_ranks(2, [&](parallel::any_communicator& self) { make(self); });
      FAIL();
    } catch (const config_error& e) {
      EXPECT_EQ(std::string(e.what()),
                "rlcore: device whole cannot carry the state of attention around a ring; context parallelism by "
                "gather_kv or ulysses can be had on it");
    }
  };
  expect_refusal([](parallel::any_communicator& self) {
    whole_attention_only device(1);
    run(device, {&self, context_kind::ring});
  });
  expect_refusal([](parallel::any_communicator& self) {
    any_device_of<whole_attention_only> device(1);
    run<any_device>(device, {&self, context_kind::ring});
  });
  on_ranks(2, [](parallel::any_communicator& self) {
    whole_attention_only device(1);
    cpu whole(1);
    for (const context_kind how : {context_kind::gather_kv, context_kind::ulysses})
      EXPECT_EQ(run(device, {&self, how}), run(whole, {&self, how}));
  });
}

/// More ranks than key heads on such a device: ranks with the same key heads gather keys. Log-probs are those of one
/// rank, and so are gradients up to the order of sums.
TEST(context_device, ulysses_gathers_keys_where_there_is_no_ring) {
  cpu alone(1);
  const floats one = run(alone, {});
  on_ranks(8, [&](parallel::any_communicator& self) {
    whole_attention_only device(1);
    any_device_of<whole_attention_only> hidden(1);
    const nn::context_group group{&self, context_kind::ulysses};
    floats r = run(device, group);
    EXPECT_EQ(run<any_device>(hidden, group), r);
    EXPECT_EQ(run(device, group, true), r);
    EXPECT_TRUE(std::equal(r.begin(), r.begin() + 255, one.begin()));
    floats all(8 * r.size());
    self.all_gather(std::span<const float>(r), std::span<float>(all));
    double difference = 0, size = 0;
    for (std::size_t i = 255; i < r.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < 8; ++k) sum += static_cast<double>(all[k * r.size() + i]);
      difference += (sum - static_cast<double>(one[i])) * (sum - static_cast<double>(one[i]));
      size += static_cast<double>(one[i]) * static_cast<double>(one[i]);
    }
    EXPECT_LE(difference, 1e-12 * size);
  });
}

/// Eight ranks on four key heads: two groups of four exchange heads, and pairs of ranks are rings of 128 tokens each.
TEST(context_device, bytes_of_more_ranks_than_key_heads) {
  const std::size_t layers = 2, own = 32, heads = 8, q = 48, k = 24, others = 3, group = 4;
  on_ranks(8, [&](parallel::any_communicator& self) {
    cpu device(1);
    run(device, {&self, context_kind::ulysses}, true);
    const std::size_t exchange = own / group * others,
                      forward = exchange * (2 * q + 2 * k + 2 * heads) + group * own * 2 * k / group,
                      // All of them once more, but for what this layer's forward has just exchanged; then keys, values
                      // and their gradients go around.
        backward = exchange * (2 * q + 2 * k) + 3 * group * own * 2 * k / group;
    std::size_t floats_sent = layers * (2 * forward + backward);
    floats_sent += 2 * (own - (self.rank() == 7 ? 1 : 0)) * 7;  // log-probs and entropies
    EXPECT_EQ(self.counters().total().bytes, floats_sent * sizeof(float)) << self.rank();
  });
}

/// What a rank sends to others. S tokens, P ranks, q and k columns of queries and of keys: all formulas are those of
/// the literature, in floats, plus two statistics per row and head for ulysses, and the log-probs and entropies.
TEST(context_device, bytes_are_those_of_the_formulas) {
  const std::size_t layers = 2, tokens = 256, heads = 8, q = 48, k = 24;
  for (const std::size_t ranks : {2u, 4u})
    for (const context_kind how : kinds)
      for (const bool recompute : {false, true})
        on_ranks(static_cast<int>(ranks), [&](parallel::any_communicator& self) {
          cpu device(1);
          run(device, {&self, how}, recompute);
          const std::size_t others = ranks - 1, own = tokens / ranks;
          std::size_t floats_sent = 0, forwards = recompute ? 2 : 1;
          if (how == context_kind::ulysses) {
            const std::size_t forward = own / ranks * (2 * q + 2 * k + 2 * heads),
                              backward = own / ranks * (2 * q + 2 * k);
            floats_sent = layers * others * (forwards * forward + backward);
            // Without recomputation, what layers below the last attended to travels once more.
            if (!recompute) floats_sent += (layers - 1) * others * forward;
          } else {
            const std::size_t keys = own * 2 * k * others;
            floats_sent = layers * forwards * keys;  // forward
            if (how == context_kind::ring) floats_sent += layers * (2 * keys + own * 2 * k);
            if (how == context_kind::gather_kv) floats_sent += layers * keys + (recompute ? 0 : (layers - 1) * keys);
          }
          const std::size_t targets = how == context_kind::ulysses || how == context_kind::ring
                                          ? own - (self.rank() + 1 == self.size() ? 1 : 0)
                                          : own - (self.rank() == 0 ? 1 : 0);
          floats_sent += 2 * targets * others;
          EXPECT_EQ(self.counters().total().bytes, floats_sent * sizeof(float))
              << static_cast<int>(how) << " " << ranks << " " << recompute;
        });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
