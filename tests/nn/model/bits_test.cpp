// The same bits: in any batch, in any split, recomputed or kept, in training, prefill and one-token decode, with any
// number of threads, and for logits in one piece or in chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

nn::config tiny(nn::family family, bool tied) {
  nn::config c;
  c.model = family;
  c.vocab_size = 75;
  c.hidden_size = 48;
  c.intermediate_size = 70;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  c.head_dim = family == nn::family::qwen3 ? 20 : 8;
  c.tie_word_embeddings = tied;
  c.attention_bias = family == nn::family::qwen2;
  c.initializer_range = 0.2;
  return c;
}

/// Sequences of the given lengths, each a function of its number alone; every token but the first two of each is a
/// target.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  floats weight;

  void push_back(int number) {
    static constexpr int lengths[] = {5, 23, 1, 40, 17, 2, 31};
    const int length = lengths[number % 7], start = static_cast<int>(sequences.values.size());
    std::vector<std::int32_t> ids;
    for (int t = 0; t < length; ++t) ids.push_back((t * t + 13 * number + 3 * t) % 75);
    sequences.push_back(ids);
    for (int t = 2; t < length; ++t) {
      targets.row.push_back(start + t - 1);
      targets.token.push_back(ids[static_cast<std::size_t>(t)]);
      weight.push_back(static_cast<float>((number + t) % 5 - 2) * 0.3f);
    }
  }
  static batch of(std::initializer_list<int> numbers) {
    batch b;
    for (const int n : numbers) b.push_back(n);
    return b;
  }
};

struct result {
  floats logp, entropy, gradient;
};

struct rig {
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
  nn::gradients<cpu> gradients;

  rig(const nn::config& c, int threads, const std::string& set, compute type, std::size_t logits_bytes = 0)
      : device(threads, set, type), model(device, c), space(device, logits_bytes), gradients(model) {
    model.initialize(11);
  }

  void add(const batch& b, bool recompute, result& r) {
    nn::forward_backward(model, space, gradients, b.sequences, b.targets, 0.8f, recompute,
                         [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                           r.logp.insert(r.logp.end(), logp.begin(), logp.end());
                           r.entropy.insert(r.entropy.end(), entropy.begin(), entropy.end());
                           for (std::size_t i = 0; i < dlogp.size(); ++i)
                             dlogp[i] = b.weight[i] * logp[i], dentropy[i] = 0.01f;
                         });
  }
  result train(const std::vector<batch>& micro_batches, bool recompute = false) {
    gradients.zero();
    result r;
    for (const batch& b : micro_batches) add(b, recompute, r);
    r.gradient.assign(gradients.data(), gradients.data() + gradients.size());
    return r;
  }
};

void expect_equal(const result& a, const result& b, const std::string& what) {
  EXPECT_EQ(a.logp, b.logp) << what;
  EXPECT_EQ(a.entropy, b.entropy) << what;
  EXPECT_EQ(a.gradient, b.gradient) << what;
}

class bits : public testing::TestWithParam<std::tuple<std::string, bool, bool, compute>> {
 protected:
  std::string set() const { return std::get<0>(GetParam()); }
  compute type() const { return std::get<3>(GetParam()); }
  nn::config config() const {
    return tiny(std::get<1>(GetParam()) ? nn::family::qwen3 : nn::family::qwen2, std::get<2>(GetParam()));
  }
};

TEST_P(bits, splits_recomputation_threads_and_logit_chunks) {
  rig r(config(), 1, set(), type());
  const result whole = r.train({batch::of({0, 1, 2, 3, 4, 5, 6})});
  double norm = 0;
  for (const float g : whole.gradient) norm += std::abs(static_cast<double>(g));
  ASSERT_GT(norm, 1);
  expect_equal(whole, r.train({batch::of({0, 1, 2, 3, 4, 5, 6})}), "again");
  expect_equal(whole, r.train({batch::of({0, 1, 2, 3, 4, 5, 6})}, true), "recomputed");
  expect_equal(whole, r.train({batch::of({0, 1}), batch::of({2}), batch::of({3, 4, 5, 6})}), "three micro-batches");
  expect_equal(whole,
               r.train({batch::of({0}), batch::of({1}), batch::of({2}), batch::of({3}), batch::of({4}), batch::of({5}),
                        batch::of({6})},
                       true),
               "single sequences");
  rig threaded(config(), 3, set(), type()), chunked(config(), 1, set(), type(), 10 * 75 * 4);
  expect_equal(whole, threaded.train({batch::of({0, 1, 2, 3, 4, 5, 6})}), "three threads");
  expect_equal(whole, chunked.train({batch::of({0, 1, 2, 3, 4, 5, 6})}), "ten rows of logits at a time");

  const batch b = batch::of({0, 1, 2, 3, 4, 5, 6});
  floats logp(b.targets.row.size()), entropy(logp.size());
  nn::log_probs(chunked.model, chunked.space, b.sequences, b.targets, 0.8f, logp, entropy);
  EXPECT_EQ(logp, whole.logp);
  EXPECT_EQ(entropy, whole.entropy);
}

TEST_P(bits, a_sequence_does_not_see_its_batch) {
  rig r(config(), 1, set(), type());
  const result whole = r.train({batch::of({3, 0, 6, 1})});
  floats logp;
  for (const int number : {3, 0, 6, 1}) {
    const result one = r.train({batch::of({number})});
    logp.insert(logp.end(), one.logp.begin(), one.logp.end());
  }
  EXPECT_EQ(whole.logp, logp);
}

/// Log-probs of the targets of `b` by feeding the cache; in each pass every sequence receives up to step(pass,
/// sequence) tokens. A chunk ends at every target.
template <class Step>
floats generate(rig& r, const batch& b, Step step) {
  const std::size_t n = b.sequences.rows(), vocabulary = 75;
  constexpr std::size_t pages_each = 4;
  nn::kv_cache<cpu> cache(r.device, r.model.settings(), static_cast<std::int64_t>(pages_each * n));
  std::vector<std::int32_t> pages(pages_each * n);
  for (std::size_t p = 0; p < pages.size(); ++p)  // anywhere: 7 and the number of pages have no common factor
    pages[p] = static_cast<std::int32_t>((7 * p + 3) % pages.size());
  std::vector<std::size_t> fed(n, 0);
  std::vector<nn::decode_chunk> chunks;
  std::vector<std::int32_t> tokens;
  std::vector<std::size_t> which;
  floats result(b.targets.row.size());
  for (int pass = 0;; ++pass) {
    chunks.clear(), tokens.clear(), which.clear();
    for (std::size_t s = n; s-- > 0;) {  // not in the order of training
      std::size_t begin = fed[s];
      for (int k = 0; k < step(pass, s) && fed[s] < b.sequences.length(s); ++k) {
        const auto row = static_cast<std::int32_t>(b.sequences.begin(s) + fed[s]++);
        const bool wanted = std::count(b.targets.row.begin(), b.targets.row.end(), row) > 0;
        if (wanted) {
          const auto i = std::find(b.targets.row.begin(), b.targets.row.end(), row) - b.targets.row.begin();
          which.push_back(static_cast<std::size_t>(i));
          tokens.push_back(b.targets.token[which.back()]);
        }
        if (!wanted && k + 1 < step(pass, s) && fed[s] < b.sequences.length(s)) continue;
        chunks.push_back({b.sequences.row(s).subspan(begin, fed[s] - begin), static_cast<std::int64_t>(begin),
                          std::span(pages).subspan(s * pages_each, pages_each), wanted});
        begin = fed[s];
      }
    }
    if (chunks.empty()) {
      bool done = true;
      for (std::size_t s = 0; s < n; ++s) done = done && fed[s] == b.sequences.length(s);
      if (done) return result;
    }
    floats logits(which.size() * vocabulary), logp(which.size()), entropy(which.size());
    nn::decode(r.model, r.space, cache, chunks, logits.data());
    nn::log_prob_of(r.device, logits, tokens, 0.8f, logp, entropy);
    for (std::size_t i = 0; i < which.size(); ++i) result[which[i]] = logp[i];
  }
}

TEST_P(bits, rollout_equals_training) {
  rig r(config(), 2, set(), type());
  const batch b = batch::of({0, 3, 1, 2, 6});
  const floats training = r.train({b}).logp;
  EXPECT_EQ(training, generate(r, b, [](int, std::size_t) { return 100; })) << "one prefill";
  EXPECT_EQ(training, generate(r, b, [](int, std::size_t) { return 1; })) << "one token at a time";
  EXPECT_EQ(training,
            generate(r, b,
                     [](int pass, std::size_t s) {
                       return pass == 0 ? 7 + static_cast<int>(s) : pass % 3 == static_cast<int>(s) % 3 ? 4 : 1;
                     }))
      << "chunks and single tokens mixed";
}

/// Rounding inputs to 8 bits of mantissa moves log-probs and gradients a little, and nothing else.
class rounding : public bits {};
TEST_P(rounding, bfloat16_stays_near_float32) {
  const batch b = batch::of({0, 1, 2, 3, 4, 5, 6});
  const result exact = rig(config(), 1, set(), compute::float32).train({b}),
               rounded = rig(config(), 1, set(), compute::bfloat16).train({b});
  double largest = 0, scale = 0, difference = 0, norm = 0;
  for (std::size_t i = 0; i < exact.logp.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(exact.logp[i])));
    largest = std::max(largest, std::abs(static_cast<double>(exact.logp[i] - rounded.logp[i])));
  }
  for (std::size_t i = 0; i < exact.gradient.size(); ++i) {
    difference += std::pow(static_cast<double>(exact.gradient[i] - rounded.gradient[i]), 2);
    norm += std::pow(static_cast<double>(exact.gradient[i]), 2);
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0x1p-6 * scale);  // a few units of 2^-8
  EXPECT_LT(std::sqrt(difference / norm), 0.02);
}

const auto name_of = [](const auto& each) {
  return std::get<0>(each.param) + (std::get<1>(each.param) ? "_qwen3" : "_qwen2") +
         (std::get<2>(each.param) ? "_tied" : "_untied") +
         (std::get<3>(each.param) == compute::float32 ? "_float32" : "_bfloat16");
};
INSTANTIATE_TEST_SUITE_P(models, bits,
                         testing::Combine(testing::ValuesIn(rlcore_test::instruction_sets()), testing::Bool(),
                                          testing::Bool(), testing::Values(compute::float32, compute::bfloat16)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(models, rounding,
                         testing::Combine(testing::ValuesIn(rlcore_test::instruction_sets()), testing::Bool(),
                                          testing::Bool(), testing::Values(compute::bfloat16)),
                         name_of);

}  // namespace
}  // namespace RLCORE_TEST_ID
