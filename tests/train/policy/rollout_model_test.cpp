// Groups of ranks sample from weights that they get from any layout of training: one rank's text, to the bit, in the
// bytes and the memory that the arithmetic says.
#include "rlcore/train/policy/models.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/rollout/engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// Counts the bytes that are taken of its memory.
struct counting_cpu : cpu {
  using cpu::cpu;
  void* allocate(std::size_t bytes) {
    void* p = cpu::allocate(bytes);
    sizes[p] = bytes;
    held += bytes;
    most = std::max(most, held);
    return p;
  }
  void release(void* p) {
    held -= sizes.at(p);
    sizes.erase(p);
    cpu::release(p);
  }
  std::map<void*, std::size_t> sizes;
  std::size_t held = 0, most = 0;
};

nn::config model_config(nn::family family = nn::family::qwen2) {
  nn::config c;
  c.model = family;
  c.vocab_size = 301, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 8, c.max_position_embeddings = 64;
  c.attention_bias = family == nn::family::qwen2;
  c.num_experts = 5, c.num_experts_per_tok = 2, c.moe_intermediate_size = 16;  // of qwen3_moe alone
  c.initializer_range = 0.3;
  c.tp_reduce_chunks = 4;
  return c;
}

struct answers {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<float> logp, entropy;
  bool operator==(const answers&) const = default;
};

template <class Device>
answers generate(const nn::causal_lm<Device>& model, float temperature, std::optional<weight_format> format) {
  nn::workspace<Device> space(model.device());
  std::vector<std::vector<std::int32_t>> prompts(3);
  std::vector<rollout::request> requests;
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::uint32_t t = 0; t < 2 + 9 * i; ++t)
      prompts[i].push_back(static_cast<std::int32_t>(random_key{3}.below(301, i, t)));
    for (std::uint32_t k = 0; k < 2; ++k) requests.push_back({prompts[i], i, k});
  }
  rollout::generation how;
  how.sampling.temperature = temperature;
  how.max_new_tokens = 7, how.max_sequences = 4, how.eos_ids = {4, 9, 30}, how.weights = format;
  answers a;
  for (const rollout::response& r : rollout::generate(model, space, requests, how, random_key{5}, [](std::size_t) {})) {
    a.tokens.push_back(r.tokens);
    a.logp.insert(a.logp.end(), r.logp.begin(), r.logp.end());
    a.entropy.insert(a.entropy.end(), r.entropy.begin(), r.entropy.end());
  }
  return a;
}

struct setting {
  int ranks, size, zero, tensor = 1, shard_ranks = 0;
  nn::family family = nn::family::qwen2;
  int expert = 1;
};

/// f(device, policy, rollout model) on every rank, from the same weights.
template <class F>
void on_ranks(const setting& s, F&& f) {
  parallel::launch_settings threads;
  threads.thread_ranks = s.ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::parallel_settings how;
    how.zero = s.zero, how.tensor = s.tensor, how.shard_ranks = s.shard_ranks;
    how.expert = s.expert;
    parallel::world world(all, how);
    counting_cpu device(1);
    train::trainable_model<counting_cpu> policy(device, model_config(s.family), {}, &world);
    {
      const auto whole = policy.gather_full_params();
      policy.model.initialize(11);
    }
    train::rollout_model<counting_cpu> rollout(policy, s.size, s.zero == 3 ? 1000 : 1 << 20);
    f(device, policy, rollout);
  });
}

const setting settings[] = {{2, 2, 3}, {4, 2, 3},    {4, 4, 3},       {4, 2, 0},   {4, 2, 1},
                            {4, 2, 2}, {4, 4, 3, 2}, {4, 2, 3, 1, 2}, {4, 1, 3, 2}};
const setting experts[] = {{4, 2, 3, 1, 0, nn::family::qwen3_moe},
                           {4, 2, 3, 1, 0, nn::family::qwen3_moe, 2},
                           {4, 2, 1, 1, 0, nn::family::qwen3_moe, 2},
                           {4, 4, 0, 1, 0, nn::family::qwen3_moe, 4}};

TEST(rollout_model, has_the_answers_of_one_rank_from_every_layout) {
  cpu device(1);
  for (const nn::family family : {nn::family::qwen2, nn::family::qwen3_moe}) {
    nn::causal_lm<cpu> serial(device, model_config(family));
    serial.initialize(11);
    const answers drawn = generate(serial, 0.9f, {}), greedy = generate(serial, 0, {}),
                  int8 = generate(serial, 0.9f, weight_format::int8);
    EXPECT_FALSE(drawn.logp == int8.logp);
    for (const setting& s : family == nn::family::qwen2 ? std::span<const setting>(settings) : std::span(experts))
      on_ranks(s, [&](auto&, auto&, auto& rollout) {
        for (int again = 0; again < 2; ++again) {
          {
            const train::rollout_weights<counting_cpu> filled(rollout, {});
            EXPECT_EQ(generate(rollout.model(), 0.9f, {}), drawn) << s.ranks << " " << s.size << " " << s.zero;
            EXPECT_EQ(generate(rollout.model(), 0, {}), greedy);
          }
          const train::rollout_weights<counting_cpu> filled(rollout, weight_format::int8);
          EXPECT_EQ(generate(rollout.model(), 0.9f, weight_format::int8), int8);
        }
        EXPECT_THROW(rollout.model().packed(), std::logic_error);
      });
  }
}

/// Each rank's part of the model comes and goes; nothing else does.
TEST(rollout_model, takes_its_part_of_the_weights_and_gives_it_back) {
  cpu host(1);
  std::vector<setting> all(std::begin(settings), std::end(settings));
  all.insert(all.end(), std::begin(experts), std::end(experts));
  for (const setting& s : all) {
    if (s.zero != 3) continue;
    const nn::config config = model_config(s.family);
    const nn::causal_lm<cpu> serial(host, config);
    on_ranks(s, [&](counting_cpu& device, auto& policy, auto& rollout) {
      const nn::causal_lm<cpu> part(host, config, rollout.model().part());
      if (s.size > 1) {  // norms are everywhere, and five experts are three and two
        EXPECT_LT(part.size(), serial.size() / static_cast<std::size_t>(s.size) + 4000);
      }
      const std::size_t before = device.most = device.held;
      {
        const train::rollout_weights<counting_cpu> filled(rollout, {});
        rollout.model().packed();
        EXPECT_LT(device.most - before, part.size() * sizeof(float) + 100000) << "packed, and a matrix in floats";
        EXPECT_GT(device.held - before, part.size() * sizeof(float) * 9 / 10);
      }
      EXPECT_EQ(device.held, before);
      EXPECT_EQ(policy.model.weights().size(), 0u);
    });
  }
}

/// Who owns what, by the definition of shards, beside the rectangles of a tensor parallel model: a rank receives what
/// is not its own.
TEST(rollout_model, receives_what_others_own_and_no_byte_more) {
  cpu device(1);
  const nn::causal_lm<cpu> serial(device, model_config());
  std::map<std::string, std::size_t> offsets;
  for (const nn::parameter& p : serial.parameters()) offsets[p.name] = p.offset;
  for (const setting& s : {setting{2, 2, 3}, {4, 2, 3}, {4, 4, 3}}) {
    const parallel::shard_layout shards(nn::unit_ends(serial.parameters()), s.ranks);
    std::uint64_t wanted = 0;
    for (int rank = 0; rank < s.ranks; ++rank) {
      std::vector<bool> own(serial.size());
      for (std::size_t u = 0; u < shards.units(); ++u) {
        const auto mine = shards.part(u, static_cast<std::size_t>(rank));
        for (std::size_t i = mine.first; i < mine.last; ++i) own[i] = true;
      }
      const nn::causal_lm<cpu> part(device, model_config(), {rank % s.size, s.size});
      for (const nn::parameter& p : part.parameters())
        p.for_runs([&](std::size_t, std::uint64_t place, std::size_t count) {
          for (std::size_t i = offsets.at(p.name) + place; count-- > 0; ++i) wanted += own[i] ? 0 : 1;
        });
    }
    std::vector<std::uint64_t> sent(static_cast<std::size_t>(s.ranks));
    on_ranks(s, [&](auto&, auto& policy, auto& rollout) {
      parallel::any_communicator& all = policy.world()->all();
      const std::uint64_t before = all.counters().total().bytes;
      const train::rollout_weights<counting_cpu> filled(rollout, {});
      sent[static_cast<std::size_t>(all.rank())] = all.counters().total().bytes - before;
    });
    std::uint64_t counted = 0;
    for (const std::uint64_t n : sent) counted += n;
    // For norms and biases, each layer, and the embedding that is the head, two numbers for every other rank come on
    // top, and a checksum where something is sent.
    const auto ranks = static_cast<std::uint64_t>(s.ranks), pairs = ranks * (ranks - 1), parts = std::uint64_t{4};
    EXPECT_LE(counted, 4 * wanted + 24 * pairs * parts) << s.ranks << " " << s.size;
    EXPECT_GE(counted, 4 * wanted + 16 * pairs * parts) << s.ranks << " " << s.size;
  }
}

TEST(rollout_model, that_cannot_be_cut_is_refused) {
  EXPECT_THROW(on_ranks({8, 8, 3}, [](auto&, auto&, auto&) {}), config_error);  // four key heads
}

}  // namespace
}  // namespace RLCORE_TEST_ID
