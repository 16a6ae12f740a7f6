// Softmax over the tokens of a sampling mask: values and gradients against the whole vocabulary's, bits with any
// memory, devices whose memory the host cannot read, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

constexpr int vocabulary = 2 * 1024 + 70;
constexpr float temperature = 0.8f;

nn::config tiny(std::int64_t chunks = 0) {
  nn::config c;
  c.model = nn::family::qwen2;
  c.vocab_size = vocabulary, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2;
  c.tie_word_embeddings = true, c.attention_bias = true;
  c.initializer_range = 0.3;
  c.tp_reduce_chunks = chunks;
  return c;
}

/// Three sequences. Target i can be one of about 1, 7, 300 or all tokens, which have no place in common with 1024.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  floats dlogp, dentropy;

  batch() {
    for (int k = 0; k < 3; ++k) {
      std::vector<std::int32_t> ids;
      for (int t = 0; t < 4 + 3 * k; ++t) ids.push_back((t * 311 + k * 97) % vocabulary);
      const auto start = static_cast<std::int32_t>(sequences.values.size());
      sequences.push_back(ids);
      for (int t = 1; t < 4 + 3 * k; ++t) push(start + t - 1, ids[static_cast<std::size_t>(t)]);
    }
  }
  void push(std::int32_t row, std::int32_t token) {
    const auto i = static_cast<int>(targets.row.size());
    std::vector<std::int32_t> kept;
    const int step = i % 4 == 0 ? vocabulary : i % 4 == 1 ? 311 : 7;
    for (int id = token % step; id < vocabulary && i % 4 != 3; id += step) kept.push_back(id);
    targets.row.push_back(row), targets.token.push_back(token), targets.sampling_mask.push_back(kept);
    dlogp.push_back(i % 5 == 4 ? 0.0f : 0.3f * static_cast<float>(i % 3 + 1));
    dentropy.push_back(i % 5 == 4 ? 0.0f : 0.2f - 0.1f * static_cast<float>(i % 6));
  }
  /// The tokens that target i can be.
  std::vector<std::int32_t> support(std::size_t i) const {
    const auto kept = targets.sampling_mask.row(i);
    if (!kept.empty()) return {kept.begin(), kept.end()};
    std::vector<std::int32_t> all(vocabulary);
    for (int id = 0; id < vocabulary; ++id) all[static_cast<std::size_t>(id)] = id;
    return all;
  }
  /// One target without a mask for each token that each target can be.
  nn::targets spread() const {
    nn::targets all;
    for (std::size_t i = 0; i < targets.row.size(); ++i)
      for (const std::int32_t id : support(i)) all.row.push_back(targets.row[i]), all.token.push_back(id);
    return all;
  }
};

/// Log-probs and entropies.
template <class Device>
std::pair<floats, floats> values_of(const nn::causal_lm<Device>& model, const batch& b, const nn::targets& wanted) {
  nn::workspace<Device> space(model.device());
  floats logp(wanted.row.size()), entropy(logp.size());
  nn::log_probs(model, space, b.sequences, wanted, temperature, logp, entropy);
  return {logp, entropy};
}

template <class Device>
floats gradient_of(nn::causal_lm<Device>& model, const batch& b, std::size_t logits_bytes, bool recompute = false) {
  nn::workspace<Device> space(model.device(), logits_bytes);
  nn::gradients<Device> gradients(model);
  nn::forward_backward(model, space, gradients, b.sequences, b.targets, temperature, recompute,
                       [&](auto, auto, auto dlogp, auto dentropy) {
                         std::copy(b.dlogp.begin(), b.dlogp.end(), dlogp.begin());
                         std::copy(b.dentropy.begin(), b.dentropy.end(), dentropy.begin());
                       });
  floats out(gradients.size());
  model.device().download(out.data(), gradients.data(), out.size() * sizeof(float));
  return out;
}

TEST(sampling_mask, log_probs_and_entropies_are_renormalised_over_it) {
  cpu device(2);
  for (const std::int64_t chunks : {0, 2}) {
    nn::causal_lm<cpu> model(device, tiny(chunks));
    model.initialize(5);
    const batch b;
    const auto [logp, entropy] = values_of(model, b, b.targets);
    const floats all = values_of(model, b, b.spread()).first;
    std::size_t at = 0;
    for (std::size_t i = 0; i < logp.size(); ++i) {
      const auto kept = b.support(i);
      double total = 0, own = 0, h = 0;
      for (std::size_t k = 0; k < kept.size(); ++k) {
        total += std::exp(static_cast<double>(all[at + k]));
        if (kept[k] == b.targets.token[i]) own = static_cast<double>(all[at + k]);
      }
      for (std::size_t k = 0; k < kept.size(); ++k) {
        const double l = static_cast<double>(all[at + k]) - std::log(total);
        h -= std::exp(l) * l;
      }
      at += kept.size();
      EXPECT_NEAR(static_cast<double>(logp[i]), own - std::log(total), 4e-6) << i;
      EXPECT_NEAR(static_cast<double>(entropy[i]), h, 4e-6) << i;
    }
  }
}

/// The same slopes by the chain rule through log-probs over the whole vocabulary, one target for each token of a mask.
TEST(sampling_mask, gradients_are_those_of_the_renormalised_log_probs) {
  cpu device(2);
  nn::causal_lm<cpu> model(device, tiny());
  model.initialize(5);
  const batch b;
  const floats got = gradient_of(model, b, 0);
  nn::workspace<cpu> space(device);
  nn::gradients<cpu> gradients(model);
  nn::forward_backward(
      model, space, gradients, b.sequences, b.spread(), temperature, false,
      [&](std::span<const float> all, auto, std::span<float> slope, auto) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < b.dlogp.size(); ++i) {
          const auto kept = b.support(i);
          double total = 0, h = 0;
          for (std::size_t k = 0; k < kept.size(); ++k) total += std::exp(static_cast<double>(all[at + k]));
          const auto log_of = [&](std::size_t k) { return static_cast<double>(all[at + k]) - std::log(total); };
          for (std::size_t k = 0; k < kept.size(); ++k) h -= std::exp(log_of(k)) * log_of(k);
          for (std::size_t k = 0; k < kept.size(); ++k) {
            const double q = std::exp(log_of(k)), own = kept[k] == b.targets.token[i] ? 1 : 0;
            slope[at + k] = static_cast<float>(static_cast<double>(b.dlogp[i]) * (own - q) -
                                               static_cast<double>(b.dentropy[i]) * q * (log_of(k) + h));
          }
          at += kept.size();
        }
      });
  double largest = 0;
  for (std::size_t k = 0; k < got.size(); ++k) largest = std::max(largest, std::abs(static_cast<double>(got[k])));
  ASSERT_GT(largest, 0.1);
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_NEAR(static_cast<double>(got[k]), static_cast<double>(gradients.data()[k]), 1e-5 * largest) << k;
}

TEST(sampling_mask, memory_threads_and_rows_without_slopes_change_no_bit) {
  cpu one(1), two(2);
  nn::causal_lm<cpu> model(one, tiny()), other(two, tiny());
  model.initialize(5), other.initialize(5);
  const batch b;
  const floats whole = gradient_of(model, b, 0);
  EXPECT_EQ(whole, gradient_of(other, b, 0)) << "two threads";
  EXPECT_EQ(whole, gradient_of(model, b, 1)) << "one row of 1024 logits at a time";
  EXPECT_EQ(whole, gradient_of(model, b, (8 << 20) + 5 * vocabulary * 4)) << "some rows of logits kept";
  EXPECT_EQ(whole, gradient_of(model, b, 0, true)) << "recomputed";
  batch some = b;
  some.targets = {}, some.dlogp.clear(), some.dentropy.clear();
  for (std::size_t i = 0; i < b.dlogp.size(); ++i) {
    if (b.dlogp[i] == 0) continue;
    some.targets.row.push_back(b.targets.row[i]), some.targets.token.push_back(b.targets.token[i]);
    some.targets.sampling_mask.push_back(b.targets.sampling_mask.row(i));
    some.dlogp.push_back(b.dlogp[i]), some.dentropy.push_back(b.dentropy[i]);
  }
  ASSERT_LT(some.dlogp.size(), b.dlogp.size());
  EXPECT_EQ(whole, gradient_of(model, some, 1)) << "targets left out";
}

TEST(sampling_mask, devices_whose_memory_the_host_cannot_read_have_the_same_bits) {
  cpu device(1);
  any_device_of<cpu> apart(1);
  nn::causal_lm<cpu> model(device, tiny());
  nn::causal_lm<any_device> other(apart, tiny());
  model.initialize(5), other.initialize(5);
  const batch b;
  EXPECT_EQ(values_of(model, b, b.targets), values_of(other, b, b.targets));
  EXPECT_EQ(gradient_of(model, b, 1), gradient_of(other, b, 1));
}

TEST(sampling_mask, a_mask_that_is_none_changes_no_bit) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, tiny());
  model.initialize(5);
  batch b;
  for (std::size_t i = 0; i < 2; ++i) {
    nn::targets without = b.targets, all = b.targets;
    without.sampling_mask = {}, all.sampling_mask = {};
    for (std::size_t k = 0; k < b.targets.row.size(); ++k) {
      std::vector<std::int32_t> every;
      for (int id = 0; id < vocabulary && i == 1; ++id) every.push_back(id);
      all.sampling_mask.push_back(every);
    }
    EXPECT_EQ(values_of(model, b, without), values_of(model, b, all));
  }
}

TEST(sampling_mask, what_is_no_mask_is_refused) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, tiny());
  const batch b;
  const auto refused = [&](const std::vector<std::int32_t>& first, const std::string& why) {
    nn::targets wanted = b.targets;
    wanted.sampling_mask = {};
    wanted.sampling_mask.push_back(first);
    for (std::size_t i = 1; i < wanted.row.size() && !first.empty(); ++i) wanted.sampling_mask.push_back({});
    try {
      values_of(model, b, wanted);
      FAIL() << why;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  const std::int32_t token = b.targets.token[0];
  refused({}, "tokens and 1 rows of a sampling mask");
  refused({token + 1, token + 2}, "the sampling mask of target 0 lacks its token " + std::to_string(token));
  refused({token, token}, "the sampling mask of target 0 does not ascend");
  refused({token, vocabulary}, "token of the sampling mask 1 is " + std::to_string(vocabulary));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
