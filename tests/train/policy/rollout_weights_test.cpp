// Importance weights of a step's responses.
#include "rlcore/train/policy/rollout_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/policy/update.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using train::rollout_weight_settings;
using train::trajectory;

/// Responses whose tokens have these log ratios of the step's policy over the sampling one.
std::vector<trajectory> responses(const std::vector<std::vector<float>>& log_ratios) {
  std::vector<trajectory> batch;
  for (const std::vector<float>& row : log_ratios) {
    trajectory& t = batch.emplace_back();
    t.tokens.assign(2 + row.size(), 1);
    t.prompt_length = 2, t.advantage = -3;
    for (const float u : row) t.old_logp.push_back(-1.0f), t.rollout_logp.push_back(-1.0f - u);
  }
  return batch;
}
auto near(double x) { return FloatNear(static_cast<float>(x), 1e-6f); }

TEST(rollout_weights, are_the_ratios_up_to_the_threshold) {
  std::vector<trajectory> batch = responses({{0.5f, -1.0f}, {1.0f}});
  train::metrics numbers;
  train::set_rollout_weights(batch, {.enabled = true, .high = 2}, numbers);
  EXPECT_THAT(batch[0].weight, ElementsAre(near(std::exp(0.5)), near(std::exp(-1.0))));
  EXPECT_THAT(batch[1].weight, ElementsAre(2.0f));
  const double mean = (std::exp(0.5) + std::exp(-1.0) + 2) / 3;
  EXPECT_NEAR(numbers.get("rollout_corr/rollout_is_mean"), mean, 1e-6);
  EXPECT_NEAR(numbers.get("rollout_corr/rollout_is_ratio_fraction_high"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(numbers.get("rollout_corr/kl"), -(0.5 - 1 + 1) / 3, 1e-6);
  const double squares = std::exp(1.0) + std::exp(-2.0) + 4;
  EXPECT_NEAR(numbers.get("rollout_corr/rollout_is_eff_sample_size"), 9 * mean * mean / (3 * squares), 1e-6);
}

TEST(rollout_weights, outside_of_a_band_are_0) {
  std::vector<trajectory> batch = responses({{0.5f, -1.0f}, {2.0f}});
  train::metrics numbers;
  train::set_rollout_weights(batch, {.enabled = true, .high = 5, .low = 0.5}, numbers);
  EXPECT_THAT(batch[0].weight, ElementsAre(near(std::exp(0.5)), 0.0f));
  EXPECT_THAT(batch[1].weight, ElementsAre(0.0f));
}

TEST(rollout_weights, of_a_sequence_are_its_product_and_may_be_normalised) {
  std::vector<trajectory> batch = responses({{0.5f, -1.0f}, {0.25f, 0.125f, 0.125f}});
  train::metrics numbers;
  train::set_rollout_weights(batch, {.enabled = true, .per_sequence = true, .normalize = true}, numbers);
  const double first = std::exp(-0.5), second = std::exp(0.5), mean = (first + second) / 2;  // over the sequences
  EXPECT_THAT(batch[0].weight, ElementsAre(near(first / mean), near(first / mean)));
  EXPECT_THAT(batch[1].weight, testing::Each(near(second / mean)));
}

TEST(rollout_weights, scale_the_advantages_that_a_loss_reads) {
  std::vector<trajectory> batch = responses({{0.5f, -1.0f}, {2.0f}});
  batch[1].token_advantage = {7};
  train::metrics numbers;
  train::set_rollout_weights(batch, {.enabled = true}, numbers);
  std::vector<const trajectory*> rows{&batch[0], &batch[1]};
  const std::uint32_t order[] = {0, 1};
  train::micro_fields fields;
  fields.assign(rows, order, nullptr, nullptr);
  EXPECT_THAT(fields.advantages(), ElementsAre(near(-3 * std::exp(0.5)), near(-3 * std::exp(-1.0)), near(14)));
  EXPECT_EQ(batch[0].advantage, -3);
}

TEST(rollout_weights, need_the_log_probs_of_the_policy_that_sampled) {
  std::vector<trajectory> batch = responses({{0.5f}});
  batch[0].rollout_logp.clear(), batch[0].row = 6;
  train::metrics numbers;
  EXPECT_THAT(thrown_by([&] { train::set_rollout_weights(batch, {.enabled = true}, numbers); }),
              HasSubstr("a response to row 6 has no log-probs of the policy that sampled it"));
}

TEST(rollout_weights, are_read_as_verl_writes_them) {
  const std::string group = "algorithm.rollout_correction.";
  const auto read = [&](std::vector<std::string> words) {
    return train::read_rollout_weights(train::options::parse(words, train::grpo_trainer_registry()));
  };
  EXPECT_FALSE(read({}).enabled);
  const rollout_weight_settings token = read({group + "rollout_is=token"});
  EXPECT_TRUE(token.enabled && !token.per_sequence && token.high == 2 && !token.low && !token.normalize);
  const rollout_weight_settings sequence = read(
      {group + "rollout_is=sequence", group + "rollout_is_threshold=3", group + "rollout_is_batch_normalize=True"});
  EXPECT_TRUE(sequence.per_sequence && sequence.high == 3 && sequence.normalize);
  const rollout_weight_settings band = read({group + "rollout_is=token", group + "rollout_is_threshold='0.5_5.0'"});
  EXPECT_TRUE(band.low == 0.5 && band.high == 5);
  for (const char* wrong : {"-1", "0", "x", "'5_0.5'", "'0_2'", "[1]"})
    EXPECT_THAT(thrown_by([&] { read({group + "rollout_is=token", group + "rollout_is_threshold=" + wrong}); }),
                HasSubstr("expected a positive number, or two as 0.5_5.0"))
        << wrong;
  EXPECT_THAT(thrown_by([&] { read({group + "rollout_is=token", group + "bypass_mode=True"}); }),
              HasSubstr("the ratio of the loss corrects"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
