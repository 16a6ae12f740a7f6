// Sampling masks of drawn tokens: what top-k, top-p and min-p leave, and log-probs that are training's bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rollout/golden_sampling.hpp"
#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using session_scenario::fixture, session_scenario::words;

rollout::generation settings(const rollout::sampling& how) {
  return {.sampling = how, .max_new_tokens = 24, .eos_ids = {30}, .keep_sampling_mask = true};
}

std::vector<rollout::response> generate(fixture& f, const std::vector<std::vector<std::int32_t>>& prompts,
                                        const rollout::generation& how) {
  std::vector<rollout::request> asked;
  for (std::uint32_t i = 0; i < prompts.size(); ++i)
    for (std::uint32_t k = 0; k < 4; ++k) asked.push_back({prompts[i], i, k});
  return rollout::engine<cpu>().generate(f.model, f.space, asked, how, random_key{5}, rollout::no_progress());
}

/// The responses in one batch, with a target for each of their tokens, as training packs them.
struct packed {
  ragged<std::int32_t> rows;
  nn::targets targets;
  std::vector<float> logp, entropy;

  packed(const std::vector<std::vector<std::int32_t>>& prompts, std::span<const rollout::response> answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      std::vector<std::int32_t> row = prompts[i / 4];
      const auto start = static_cast<std::int32_t>(rows.size());
      const rollout::response& r = answers[i];
      for (std::size_t t = 0; t < r.tokens.size(); ++t) {
        targets.row.push_back(start + static_cast<std::int32_t>(row.size()) - 1);
        targets.token.push_back(r.tokens[t]);
        if (!r.sampling_mask.empty()) targets.sampling_mask.push_back(r.sampling_mask.row(t));
        row.push_back(r.tokens[t]);
      }
      rows.push_back(row);
      logp.insert(logp.end(), r.logp.begin(), r.logp.end());
      entropy.insert(entropy.end(), r.entropy.begin(), r.entropy.end());
    }
  }
};

const std::vector<std::vector<std::int32_t>> prompts{words(1, 3), words(2, 17), words(3, 40)};
const rollout::sampling kinds[] = {{.temperature = 0.8f, .top_k = 7},
                                   {.temperature = 1.2f, .top_p = 0.7f},
                                   {.temperature = 0.9f, .top_k = 20, .top_p = 0.9f, .min_p = 0.05f}};

TEST(sampling_mask, recorded_log_probs_and_entropies_are_the_bits_that_training_computes) {
  fixture f;
  for (const rollout::sampling& how : kinds)
    for (const std::int64_t sequences : {64, 3}) {
      rollout::generation g = settings(how);
      g.max_sequences = sequences;
      const packed b(prompts, generate(f, prompts, g));
      ASSERT_EQ(b.targets.sampling_mask.rows(), b.targets.token.size());
      std::vector<float> logp(b.logp.size()), entropy(logp.size());
      nn::log_probs(f.model, f.space, b.rows, b.targets, how.temperature, logp, entropy);
      EXPECT_EQ(logp, b.logp);
      EXPECT_EQ(entropy, b.entropy);
    }
}

TEST(sampling_mask, holds_the_tokens_that_the_settings_leave) {
  fixture f;
  for (const rollout::sampling& how : kinds) {
    const packed b(prompts, generate(f, prompts, settings(how)));
    nn::targets every;
    const std::int64_t v = f.model.settings().vocab_size;
    for (const std::int32_t row : b.targets.row)
      for (std::int32_t id = 0; id < v; ++id) every.row.push_back(row), every.token.push_back(id);
    std::vector<float> all(every.row.size());
    nn::log_probs(f.model, f.space, b.rows, every, how.temperature, all, {});
    bool shorter = false;
    for (std::size_t i = 0; i < b.targets.row.size(); ++i) {
      std::vector<std::pair<double, std::int32_t>> p;  // most likely first
      for (std::int32_t id = 0; id < v; ++id)
        p.push_back(
            {-std::exp(static_cast<double>(all[i * static_cast<std::size_t>(v) + static_cast<std::size_t>(id)])), id});
      std::ranges::sort(p);
      std::vector<std::int32_t> expected;
      double total = 0, reached = 0;
      auto candidates = static_cast<std::size_t>(std::ranges::count_if(
          p, [&](const auto& each) { return -each.first >= static_cast<double>(how.min_p) * -p[0].first; }));
      if (how.top_k > 0) candidates = std::min(candidates, static_cast<std::size_t>(how.top_k));
      for (std::size_t k = 0; k < candidates; ++k) total -= p[k].first;
      for (std::size_t k = 0; k < candidates && reached < total * static_cast<double>(how.top_p); ++k)
        expected.push_back(p[k].second), reached -= p[k].first;
      std::ranges::sort(expected);
      const auto kept = b.targets.sampling_mask.row(i);
      EXPECT_EQ(std::vector(kept.begin(), kept.end()), expected) << i;
      shorter = shorter || (how.top_k > 0 && std::ssize(expected) < how.top_k);
      double sum = 0;
      for (const std::int32_t id : kept)
        sum += std::exp(static_cast<double>(all[i * static_cast<std::size_t>(v) + static_cast<std::size_t>(id)]));
      const std::size_t own = i * static_cast<std::size_t>(v) + static_cast<std::size_t>(b.targets.token[i]);
      EXPECT_NEAR(static_cast<double>(b.logp[i]), static_cast<double>(all[own]) - std::log(sum), 3e-6);
    }
    EXPECT_TRUE(how.min_p == 0 || shorter);
  }
}

TEST(sampling_mask, rules_are_applied_before_it_and_log_probs_ignore_them) {
  fixture f;
  rollout::generation g = settings(kinds[1]);
  g.rules.repetition_penalty = 1.5f;
  g.rules.min_tokens = 6;
  const packed b(prompts, generate(f, prompts, g));
  std::vector<float> logp(b.logp.size()), entropy(logp.size());
  nn::log_probs(f.model, f.space, b.rows, b.targets, kinds[1].temperature, logp, entropy);
  EXPECT_EQ(logp, b.logp);
  const packed free(prompts, generate(f, prompts, settings(kinds[1])));
  EXPECT_NE(free.targets.token, b.targets.token);
}

TEST(sampling_mask, is_absent_where_nothing_is_cut_off) {
  fixture f;
  for (const rollout::sampling& how : {rollout::sampling{.temperature = 0.8f}, rollout::sampling{.temperature = 0}}) {
    const auto with = generate(f, prompts, settings(how));
    rollout::generation plain = settings(how);
    plain.keep_sampling_mask = false;
    const auto without = generate(f, prompts, plain);
    for (std::size_t i = 0; i < with.size(); ++i) {
      EXPECT_TRUE(with[i].sampling_mask.empty());
      EXPECT_EQ(with[i].tokens, without[i].tokens);
      EXPECT_EQ(with[i].logp, without[i].logp);
    }
  }
}

/// Draws from given logits, whole and as if the host could not read them; every number of a row is the same.
TEST(sampling_mask, draws_have_the_frequencies_of_the_renormalised_distribution) {
  constexpr extent_t v = 300, rows = 4000;
  std::vector<float> one(v), logits;
  for (std::size_t j = 0; j < v; ++j) one[j] = std::sin(0.7f * static_cast<float>(j)) * 3;
  for (extent_t r = 0; r < rows; ++r) logits.insert(logits.end(), one.begin(), one.end());
  std::vector<double> uniform;
  for (std::uint32_t r = 0; r < rows; ++r) uniform.push_back((r + 0.5) / rows);
  const rollout::sampling how{.temperature = 1.1f, .top_p = 0.6f};
  const auto draw = [&]<class Device>(Device&& device, std::vector<std::int32_t>& tokens, std::vector<float>& logp,
                                      ragged<std::int32_t>& masks) {
    std::vector<float> entropy(rows);
    tokens.resize(rows), logp.resize(rows);
    rollout::sampler<std::remove_reference_t<Device>> sample;
    sample(device, how, {.vocabulary = v}, logits.data(), v, uniform, tokens, logp, entropy, {}, {}, &masks);
  };
  std::vector<std::int32_t> tokens, other_tokens;
  std::vector<float> logp, other_logp;
  ragged<std::int32_t> masks, other_masks;
  cpu device(1);
  any_device_of<cpu> apart(1);
  draw(device, tokens, logp, masks);
  draw(static_cast<any_device&>(apart), other_tokens, other_logp, other_masks);
  EXPECT_EQ(tokens, other_tokens);
  EXPECT_EQ(logp, other_logp);
  EXPECT_EQ(masks.values, other_masks.values);
  for (const std::int32_t id : masks.row(0)) {
    const auto drawn = std::ranges::find(tokens, id);
    const double share = static_cast<double>(std::ranges::count(tokens, id)) / rows;
    if (drawn == tokens.end()) continue;
    EXPECT_NEAR(share, std::exp(static_cast<double>(logp[static_cast<std::size_t>(drawn - tokens.begin())])),
                1.1 / rows)
        << id;
  }
  for (const std::int32_t token : tokens) ASSERT_TRUE(std::ranges::binary_search(masks.row(0), token));
  EXPECT_LT(masks.length(0), 150u);
}

TEST(sampling_mask, a_row_that_is_not_finite_still_has_a_problem) {
  fixture f;
  f.model.weights().data()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(generate(f, prompts, settings(kinds[1])), rollout::not_finite_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
