// The head in tiles of the vocabulary: the bits of whole rows with any memory, the gradient against double, rows and
// sequences without gradient, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;

constexpr int vocabulary = 3 * 1024 + 5;

TEST(logit_tile, fills_the_memory_with_whole_blocks) {
  const auto tile = [](extent_t rows, extent_t v, std::size_t bytes) {
    const nn::logit_tile t = nn::logit_tile::of(rows, v, {.bytes = bytes});
    return std::pair(t.rows, t.columns);
  };
  using shape = std::pair<extent_t, extent_t>;
  EXPECT_EQ(tile(512, 151936, 8 << 20), shape(512, 4096));
  EXPECT_EQ(tile(5000, 151936, 8 << 20), shape(1024, 2048));
  EXPECT_EQ(tile(1, 151936, 8 << 20), shape(1, 151936));
  EXPECT_EQ(tile(3, 151936, 1 << 20), shape(3, 87040));
  EXPECT_EQ(tile(512, 151936, 1 << 20), shape(256, 1024));
  EXPECT_EQ(tile(512, 151936, 1), shape(1, 1024));
  EXPECT_EQ(tile(512, 75, 1), shape(1, 75));
  EXPECT_EQ(tile(512, 75, 1 << 20), shape(512, 75));
}

/// One head with its weights, and n rows with targets and slopes.
struct rig {
  static constexpr extent_t width = 40;
  cpu device;
  nn::workspace<cpu> space{device};
  nn::head top;
  floats weight = normal(vocabulary * width, 1, 0.3), normed, dlogp, dentropy;
  std::vector<std::int32_t> tokens;
  buffer<std::byte, cpu> packed;
  std::size_t offset = 0;

  rig(const std::string& set, int threads, compute type, extent_t rows)
      : device(threads, set, type),
        normed(normal(static_cast<std::size_t>(rows * width), 2)),
        dlogp(normal(static_cast<std::size_t>(rows), 3)),
        dentropy(normal(static_cast<std::size_t>(rows), 4)),
        packed(device, device.packed_bytes(device.compute_format(), vocabulary, width)) {
    top.output = {0, nn::no_parameter, vocabulary, width, 0};
    for (extent_t i = 0; i < rows; ++i) tokens.push_back(static_cast<std::int32_t>(i * 997 % vocabulary));
    device.run(op::pack_weight{.packed = packed.data(),
                               .format = device.compute_format(),
                               .weight = weight.data(),
                               .outputs = vocabulary,
                               .inputs = width});
  }

  struct result {
    floats logp, entropy, dnormed, dweight;
  };
  /// Rows [first, first + n) with `bytes` of logits.
  result run(extent_t first, extent_t n, std::size_t bytes, bool keep) {
    const auto count = static_cast<std::size_t>(n);
    result r{floats(count), floats(count), floats(count * width), floats(weight.size(), -1.0f)};
    floats statistics(2 * count);
    space.reset();
    const nn::pass<cpu> p{device,           space, weight.data(), {device.compute_format(), packed.data(), &offset},
                          r.dweight.data(), n,     nullptr,       true};
    const nn::head_rows<cpu> scores(p, top, 0.9f, n, bytes, keep);
    const float* x = normed.data() + first * width;
    const std::int32_t* token = tokens.data() + first;
    scores.forward(p, x, token, n, r.logp.data(), r.entropy.data(), statistics.data());
    scores.backward(p,
                    {n, scores.kept(), x, token, dlogp.data() + first, dentropy.data() + first, r.entropy.data(),
                     statistics.data()},
                    r.dnormed.data());
    return r;
  }
};

class head_rows : public testing::TestWithParam<std::string> {};

TEST_P(head_rows, any_memory_and_threads_give_the_bits_of_whole_rows) {
  constexpr extent_t n = 70;
  constexpr std::size_t row = vocabulary * sizeof(float), tile = logit_limits().bytes;
  for (const compute type : {compute::float32, compute::bfloat16}) {
    rig one(GetParam(), 1, type, n), two(GetParam(), 2, type, n);
    const auto whole = one.run(0, n, n * row, true);
    const auto expect = [&](const rig::result& r, const char* what) {
      EXPECT_EQ(whole.logp, r.logp) << what;
      EXPECT_EQ(whole.entropy, r.entropy) << what;
      EXPECT_EQ(whole.dnormed, r.dnormed) << what;
      EXPECT_EQ(whole.dweight, r.dweight) << what;
    };
    expect(two.run(0, n, n * row, true), "two threads");
    expect(one.run(0, n, 1, true), "one row of 1024 logits at a time");
    expect(two.run(0, n, 7 * 1024 * 4, true), "seven rows of 1024");
    expect(two.run(0, n, 64 * 2048 * 4, false), "64 rows of 2048");
    expect(one.run(0, n, tile, false), "one tile, made again");
    for (const extent_t i : {extent_t{0}, extent_t{33}, n - 1}) {
      const auto alone = two.run(i, 1, tile, true);
      EXPECT_EQ(whole.logp[static_cast<std::size_t>(i)], alone.logp[0]);
      EXPECT_EQ(whole.entropy[static_cast<std::size_t>(i)], alone.entropy[0]);
      EXPECT_TRUE(std::equal(alone.dnormed.begin(), alone.dnormed.end(), whole.dnormed.begin() + i * rig::width));
    }
  }
}

/// dW = sum over rows of slope x^T and dx = slope W with slope = (dlogp (1[y] - p) - dH p (log p + H)) / temperature.
TEST_P(head_rows, gradient_in_double) {
  constexpr extent_t n = 9;
  rig r(GetParam(), 2, compute::float32, n);
  const auto got = r.run(0, n, 4096 * 4, true);
  std::vector<double> dweight(r.weight.size()), z(vocabulary);
  const double temperature = 0.9f;
  for (std::size_t i = 0; i < n; ++i) {
    const float* x = r.normed.data() + i * rig::width;
    double top = -1e300, total = 0, entropy = 0;
    for (std::size_t j = 0; j < vocabulary; ++j) {
      z[j] = 0;
      for (std::size_t k = 0; k < rig::width; ++k)
        z[j] += static_cast<double>(x[k]) * static_cast<double>(r.weight[j * rig::width + k]) / temperature;
      top = std::max(top, z[j]);
    }
    for (const double v : z) total += std::exp(v - top);
    for (double& v : z) v -= top + std::log(total);
    for (const double v : z) entropy -= std::exp(v) * v;
    EXPECT_NEAR(static_cast<double>(got.logp[i]), z[static_cast<std::size_t>(r.tokens[i])], 1e-5);
    EXPECT_NEAR(static_cast<double>(got.entropy[i]), entropy, 1e-5);
    std::vector<double> dx(rig::width);
    for (std::size_t j = 0; j < vocabulary; ++j) {
      const double p = std::exp(z[j]), own = static_cast<std::int32_t>(j) == r.tokens[i] ? 1 : 0;
      const double slope =
          (static_cast<double>(r.dlogp[i]) * (own - p) - static_cast<double>(r.dentropy[i]) * p * (z[j] + entropy)) /
          temperature;
      for (std::size_t k = 0; k < rig::width; ++k) {
        dx[k] += slope * static_cast<double>(r.weight[j * rig::width + k]);
        dweight[j * rig::width + k] += slope * static_cast<double>(x[k]);
      }
    }
    for (std::size_t k = 0; k < rig::width; ++k)
      EXPECT_NEAR(static_cast<double>(got.dnormed[i * rig::width + k]), dx[k], 1e-5);
  }
  for (std::size_t k = 0; k < dweight.size(); ++k)
    ASSERT_NEAR(static_cast<double>(got.dweight[k]), dweight[k], 1e-5) << k;
}

// Whole models.

nn::config tiny(nn::family family, bool tied) {
  nn::config c;
  c.model = family;
  c.vocab_size = vocabulary;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.tie_word_embeddings = tied;
  c.attention_bias = family == nn::family::qwen2;
  c.initializer_range = 0.2;
  return c;
}

/// Sequence k has 3 + 5 k tokens; all but the first are targets. Slopes are a function of (sequence, position), and 0
/// wherever `zero` says so; such targets, or whole sequences, are also left out of the batch on request.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  floats dlogp;

  template <class Zero>
  static batch of(int count, Zero&& zero, bool without_zero_targets, bool without_zero_sequences) {
    batch b;
    for (int k = 0; k < count; ++k) {
      std::vector<std::int32_t> ids;
      int active = 0;
      for (int t = 0; t < 3 + 5 * k; ++t) ids.push_back((t * 311 + k * 97) % vocabulary);
      for (int t = 1; t < 3 + 5 * k; ++t) active += !zero(k, t);
      if (without_zero_sequences && active == 0) continue;
      const auto start = static_cast<int>(b.sequences.values.size());
      b.sequences.push_back(ids);
      for (int t = 1; t < 3 + 5 * k; ++t) {
        if (zero(k, t) && without_zero_targets) continue;
        b.targets.row.push_back(start + t - 1);
        b.targets.token.push_back(ids[static_cast<std::size_t>(t)]);
        b.dlogp.push_back(zero(k, t) ? (t % 2 ? 0.0f : -0.0f) : 0.1f * static_cast<float>(1 + (k + t) % 4));
      }
    }
    return b;
  }
};

floats gradient_of(nn::causal_lm<cpu>& model, const batch& b, std::size_t logits_bytes, bool recompute) {
  nn::workspace<cpu> space(model.device(), logits_bytes);
  nn::gradients<cpu> gradients(model);
  for (int call = 0; call < 2; ++call)  // the second adds to what is there
    nn::forward_backward(
        model, space, gradients, b.sequences, b.targets, 0.8f, recompute,
        [&](auto, auto, auto dlogp, auto) { std::copy(b.dlogp.begin(), b.dlogp.end(), dlogp.begin()); });
  return {gradients.data(), gradients.data() + gradients.size()};
}

TEST_P(head_rows, what_has_no_gradient_is_as_if_it_were_not_there) {
  cpu device(2, GetParam());
  const auto some = [](int k, int t) { return (k * 5 + t) % 3 == 0; };
  const auto groups = [](int k, int t) { return k == 0 || k == 2 || k == 3 || k == 6 || t % 4 == 0; };
  for (const auto family : {nn::family::qwen2, nn::family::qwen3}) {
    nn::causal_lm<cpu> model(device, tiny(family, family == nn::family::qwen2));
    model.initialize(5);
    const auto check = [&](auto zero) {
      const floats all = gradient_of(model, batch::of(7, zero, false, false), 0, false);
      double norm = 0;
      for (const float g : all) norm += std::abs(static_cast<double>(g));
      ASSERT_GT(norm, 1);
      EXPECT_EQ(all, gradient_of(model, batch::of(7, zero, true, false), 0, false)) << "targets left out";
      EXPECT_EQ(all, gradient_of(model, batch::of(7, zero, true, true), 0, false)) << "sequences left out";
      EXPECT_EQ(all, gradient_of(model, batch::of(7, zero, false, false), 0, true)) << "recomputed";
      EXPECT_EQ(all, gradient_of(model, batch::of(7, zero, false, false), 1, false)) << "little memory";
      EXPECT_EQ(all, gradient_of(model, batch::of(7, zero, false, false), (8 << 20) + 40 * vocabulary * 4, false))
          << "some rows of logits kept";
    };
    check(some);
    check(groups);
    const floats none = gradient_of(model, batch::of(7, [](int, int) { return true; }, false, false), 0, false);
    EXPECT_EQ(none, floats(none.size(), 0.0f));
  }
}

TEST_P(head_rows, not_a_number_is_not_left_out) {
  cpu device(1, GetParam());
  nn::causal_lm<cpu> model(device, tiny(nn::family::qwen2, true));
  model.initialize(5);
  batch b = batch::of(3, [](int, int) { return true; }, false, false);
  b.dlogp[4] = std::numeric_limits<float>::quiet_NaN();
  const floats gradient = gradient_of(model, b, 0, false);
  EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float g) { return std::isnan(g); }));
}

TEST(head_memory, memory_is_the_limit_or_a_tile) {
  cpu device(1);
  auto c = tiny(nn::family::qwen2, true);
  c.vocab_size = 40000;
  nn::causal_lm<cpu> model(device, c);
  model.initialize(5);
  const batch b = batch::of(12, [](int, int) { return false; }, false, false);  // 354 targets: 57 MB of logits
  const auto bytes = [&](std::size_t limit, bool score) {
    nn::workspace<cpu> space(device, limit);
    for (int call = 0; call < 2; ++call) {  // the first finds out how much it takes
      if (score) {
        floats logp(b.targets.row.size());
        nn::log_probs(model, space, b.sequences, b.targets, 1, logp, {});
      } else {
        nn::gradients<cpu> gradients(model);
        nn::forward_backward(model, space, gradients, b.sequences, b.targets, 1, false,
                             [&](auto, auto, auto dlogp, auto) { std::fill(dlogp.begin(), dlogp.end(), 1.0f); });
      }
    }
    return space.bytes();
  };
  constexpr std::size_t mib = 1 << 20, rest = 2 * mib;
  EXPECT_LT(bytes(0, true), 8 * mib + rest);
  EXPECT_LT(bytes(mib, true), mib + rest);
  EXPECT_LT(bytes(mib, false), mib + rest);
  EXPECT_LT(bytes(8 * mib, false), 8 * mib + rest);
  EXPECT_GT(bytes(0, false), 54 * mib);
}

INSTANTIATE_TEST_SUITE_P(sets, head_rows, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
