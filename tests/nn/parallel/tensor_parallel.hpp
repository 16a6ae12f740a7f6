// One step of a small model, serial or shared by ranks that are threads, and its gradient put together.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace rlcore_test {

using namespace rlcore;

/// 8 heads, so that 8 ranks can share them; Qwen2 has biases and tied embeddings, Qwen3 norms of heads and an output
/// matrix of its own, Llama scaled positions. The vocabulary is not a multiple of anything.
inline nn::config small_model(nn::family family, std::int64_t tp_reduce_chunks) {
  nn::config c;
  c.model = family;
  c.vocab_size = 301;
  c.hidden_size = 40;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 16;
  c.num_key_value_heads = 8;
  c.head_dim = 6;
  c.tie_word_embeddings = family == nn::family::qwen2;
  c.attention_bias = family == nn::family::qwen2;
  c.initializer_range = 0.2;
  if (family == nn::family::qwen3_moe) {
    c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  }
  if (family == nn::llama{})
    c.rope_scaling = {.type = nn::rope_type::llama3, .factor = 8, .original_max_position_embeddings = 64};
  c.tp_reduce_chunks = tp_reduce_chunks;
  return c;
}

struct how_to_train {
  bool sequence = false, recompute = false;
  int batches = 1;
  std::size_t logits_bytes = 0;
  compute type = compute::float32;
};

/// Sequences of these lengths, of which the fourth and the last have no gradient.
inline constexpr int lengths[] = {5, 23, 1, 14, 17, 2, 31, 9};
inline constexpr int sequences = 8;

struct trained {
  std::vector<float> logp, entropy;
  std::map<std::string, std::vector<float>> gradient;  ///< whole tensors

  bool same(const trained& o) const {
    const auto equal = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    };
    bool all = equal(logp, o.logp) && equal(entropy, o.entropy) && gradient.size() == o.gradient.size();
    for (const auto& [name, values] : gradient)
      if (!equal(values, o.gradient.at(name))) {
        ADD_FAILURE() << name << " differs";
        all = false;
      }
    return all;
  }
};

inline float weight_of(int sequence, int t) {
  return sequence == 3 || sequence == 7 ? 0.0f : static_cast<float>((sequence + t) % 5 - 2) * 0.3f;
}
inline std::int32_t token_of(int sequence, int t) { return (t * t * 7 + 31 * sequence + 3 * t) % 301; }

/// What one rank computes; its part of the gradient goes to its place in `result.gradient`.
inline void train_rank(const nn::config& c, const nn::partition& part, nn::tensor_group* group, const how_to_train& how,
                       trained& result) {
  cpu device(1, {}, how.type);
  nn::causal_lm<cpu> model(device, c, part);
  model.initialize(11);
  model.set_tensor_group(group);
  nn::workspace<cpu> space(device, how.logits_bytes);
  nn::gradients<cpu> gradients(model);
  for (int b = 0; b < how.batches; ++b) {
    ragged<std::int32_t> batch;
    nn::targets targets;
    std::vector<float> weight;
    for (int s = sequences * b / how.batches; s < sequences * (b + 1) / how.batches; ++s) {
      const int length = lengths[s], start = static_cast<int>(batch.values.size());
      std::vector<std::int32_t> ids;
      for (int t = 0; t < length; ++t) ids.push_back(token_of(s, t));
      batch.push_back(ids);
      for (int t = 2; t < length; ++t) {
        targets.row.push_back(start + t - 1);
        targets.token.push_back(ids[static_cast<std::size_t>(t)]);
        weight.push_back(weight_of(s, t));
      }
    }
    if (c.output == nn::model_output::score) {
      nn::value_forward_backward(model, space, gradients, batch, targets.row, how.recompute,
                                 [&](std::span<const float> value, std::span<float> dvalue) {
                                   result.logp.insert(result.logp.end(), value.begin(), value.end());
                                   std::copy(weight.begin(), weight.end(), dvalue.begin());
                                 });
      continue;
    }
    nn::forward_backward(model, space, gradients, batch, targets, 0.9f, how.recompute,
                         [&](std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp,
                             std::span<float> dentropy) {
                           result.logp.insert(result.logp.end(), logp.begin(), logp.end());
                           result.entropy.insert(result.entropy.end(), entropy.begin(), entropy.end());
                           for (std::size_t i = 0; i < logp.size(); ++i)
                             dlogp[i] = weight[i], dentropy[i] = 0.1f * weight[i];
                         });
  }
  for (const nn::parameter& p : model.parameters()) {
    std::size_t size = 1;
    for (const std::int64_t n : p.whole_shape()) size *= static_cast<std::size_t>(n);
    std::vector<float>& whole = result.gradient[p.name];
    whole.resize(size);
    p.for_runs([&](std::size_t at, std::uint64_t to, std::size_t count) {
      std::memcpy(whole.data() + to, gradients.data() + p.offset + at, count * sizeof(float));
    });
  }
}

inline trained train_serial(const nn::config& c, const how_to_train& how) {
  trained result;
  train_rank(c, {}, nullptr, how, result);
  return result;
}

/// The parts of all ranks together; what several ranks hold has to be the same in all of them.
inline trained train_on_ranks(const nn::config& c, int ranks, const how_to_train& how) {
  std::vector<trained> of(static_cast<std::size_t>(ranks));
  parallel::run_ranks(
      ranks,
      [&](parallel::thread_rank& self) {
        nn::tensor_group_of<parallel::thread_rank> group(self, how.sequence);
        train_rank(c, nn::partition{self.rank(), ranks}, &group, how, of[static_cast<std::size_t>(self.rank())]);
      },
      std::chrono::seconds(20));
  cpu device(1);
  trained all = of[0];
  for (int r = 1; r < ranks; ++r) {
    const trained& other = of[static_cast<std::size_t>(r)];
    EXPECT_EQ(other.logp, all.logp);
    EXPECT_EQ(other.entropy, all.entropy);
    const nn::causal_lm<cpu> part(device, c, nn::partition{r, ranks});
    for (const nn::parameter& p : part.parameters()) {
      const std::vector<float>& theirs = other.gradient.at(p.name);
      std::vector<float>& whole = all.gradient.at(p.name);
      if (!p.split()) {
        EXPECT_EQ(theirs, whole) << p.name;
      }
      p.for_runs([&](std::size_t, std::uint64_t at, std::size_t count) {
        std::memcpy(whole.data() + at, theirs.data() + at, count * sizeof(float));
      });
    }
  }
  return all;
}

}  // namespace rlcore_test
