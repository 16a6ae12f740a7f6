// Rejected tokens of a step's responses, against verl's own masks and metrics.
#include "rlcore/train/policy/rollout_rejection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/train/policy/update.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::ElementsAre;
using testing::HasSubstr;
using train::rejection_rule;
using train::trajectory;

const std::string group = "algorithm.rollout_correction.";

std::vector<rejection_rule> read(std::vector<std::string> words) {
  return train::read_rollout_rejection(train::options::parse(words, train::grpo_trainer_registry()));
}

/// The rows of verl's example: what its mask leaves out is context. Token k of a row is called k.
struct example {
  nlohmann::json golden;
  std::vector<trajectory> batch;

  example() {
    std::ifstream(std::string(RLCORE_REFERENCE_DIR) + "/correction.json") >> golden;
    for (std::size_t i = 0; i < golden["mask"].size(); ++i) {
      const auto mask = golden["mask"][i].get<std::vector<int>>();
      trajectory& t = batch.emplace_back();
      t.tokens = {0, 0}, t.prompt_length = 2;
      std::int32_t length = 0;
      for (std::int32_t k = 0; k < std::ssize(mask); ++k)
        if (mask[static_cast<std::size_t>(k)] != 0) length = k + 1;
      for (std::int32_t k = 0; k < length; ++k) {
        const auto at = static_cast<std::size_t>(k);
        t.tokens.push_back(k);
        if (mask[at] == 0) {
          t.context.push_back({k, 1});
          continue;
        }
        t.old_logp.push_back(golden["old_logp"][i][at].get<float>());
        t.rollout_logp.push_back(golden["rollout_logp"][i][at].get<float>());
        t.entropy.push_back(static_cast<float>(k));
      }
    }
  }
};

/// The names of the tokens that training sees.
std::vector<std::int32_t> trained(const trajectory& t) {
  train::packed_trajectories packed;
  packed.push_back(t);
  return packed.targets.token;
}

TEST(rollout_rejection, has_the_masks_and_metrics_of_verl) {
  const std::map<std::string, std::vector<std::string>> cases = {{"token_k1", {"token_k1", "'0.6_1.5'"}},
                                                                 {"token_k2", {"token_k2", "0.1"}},
                                                                 {"token_k3", {"token_k3", "0.1"}},
                                                                 {"sequence_sum_k1", {"seq_sum_k1", "'0.5_3.0'"}},
                                                                 {"sequence_sum_k2", {"seq_sum_k2", "1"}},
                                                                 {"sequence_sum_k3", {"seq_sum_k3", "1.0"}},
                                                                 {"sequence_mean_k1", {"seq_mean_k1", "'0.5_1.04'"}},
                                                                 {"sequence_mean_k2", {"seq_mean_k2", "0.05"}},
                                                                 {"sequence_mean_k3", {"seq_mean_k3", "0.05"}},
                                                                 {"sequence_max_k2", {"seq_max_k2", "0.5"}},
                                                                 {"sequence_max_k3", {"seq_max_k3", "0.5"}},
                                                                 {"two", {"'token_k3,seq_mean_k1'", "'0.1, 0.5_1.1'"}}};
  for (const auto& [name, words] : cases) {
    SCOPED_TRACE(name);
    example e;
    train::metrics numbers;
    train::reject_tokens(e.batch, read({group + "rollout_rs=" + words[0], group + "rollout_rs_threshold=" + words[1]}),
                         numbers);
    const nlohmann::json& want = e.golden["cases"]["verl_rejections"][name];
    for (std::size_t i = 0; i < e.batch.size(); ++i) {
      const trajectory& t = e.batch[i];
      std::vector<std::int32_t> kept;
      for (std::int32_t k = 0; k < std::ssize(want["mask"][i]); ++k)
        if (want["mask"][i][static_cast<std::size_t>(k)].get<double>() != 0) kept.push_back(k);
      EXPECT_EQ(trained(t), kept) << i;
      EXPECT_EQ(t.policy_length(), std::ssize(kept)) << i;
      EXPECT_EQ(std::vector<std::int32_t>(t.entropy.begin(), t.entropy.end()), kept) << i;
      EXPECT_EQ(t.old_logp.size(), kept.size()) << i;
      EXPECT_EQ(std::ssize(t.rollout_logp), t.written_length()) << i;
    }
    for (const auto& [metric, value] : want["metrics"].items()) {
      const std::string full = "rollout_corr/" + metric;
      if (!numbers.contains(full)) continue;
      EXPECT_NEAR(numbers.get(full), value.get<double>(), 1e-6 * std::max(1.0, std::abs(value.get<double>()))) << full;
    }
    EXPECT_TRUE(numbers.contains("rollout_corr/rollout_rs_masked_fraction"));
    EXPECT_TRUE(numbers.contains("rollout_corr/kl"));
  }
}

TEST(rollout_rejection, takes_the_tokens_out_of_losses_and_denominators) {
  std::vector<trajectory> batch(2);
  for (trajectory& t : batch) {
    t.tokens = {9, 9, 1, 2, 3}, t.prompt_length = 2, t.advantage = 1;
    t.old_logp = {-1, -1, -1}, t.rollout_logp = {-1, -3, -1}, t.weight = {1, 2, 1};
  }
  batch[1].rollout_logp = {-3, -3, -3};
  train::metrics numbers;
  train::reject_tokens(batch, std::vector<rejection_rule>{{"token_k1", 0.5, 2}}, numbers);
  EXPECT_EQ(numbers.get("rollout_corr/rollout_rs_masked_fraction"), 4.0 / 6);
  EXPECT_EQ(numbers.get("rollout_corr/rollout_rs_seq_masked_fraction"), 1);
  EXPECT_EQ(numbers.get("rollout_corr/rollout_rs_token_k1_min"), -2);
  const std::vector<const trajectory*> rows{&batch[0], &batch[1]};
  const std::uint32_t order[] = {0, 1};
  train::micro_fields fields;
  fields.assign(rows, order, nullptr, nullptr);
  EXPECT_THAT(fields.packed.targets.token, ElementsAre(1, 3));
  EXPECT_THAT(fields.packed.offsets, ElementsAre(0, 2, 2));
  EXPECT_THAT(fields.advantages(), ElementsAre(1, 1));
  EXPECT_EQ(batch[1].policy_length(), 0);
  EXPECT_EQ(batch[1].written_length(), 3);
}

TEST(rollout_rejection, keeps_what_has_the_same_log_probs) {
  std::vector<trajectory> batch(1);
  batch[0].tokens = {9, 1, 2}, batch[0].prompt_length = 1;
  batch[0].old_logp = batch[0].rollout_logp = {-0.5f, -2};
  train::metrics numbers;
  train::reject_tokens(batch, std::vector<rejection_rule>{{"seq_mean_k1", 0.999, 1.001}, {"token_k3", 0, 0.01}},
                       numbers);
  EXPECT_TRUE(batch[0].untrained.empty());
  EXPECT_EQ(numbers.get("rollout_corr/rollout_rs_masked_fraction"), 0);
}

TEST(rollout_rejection, needs_the_log_probs_of_the_policy_that_sampled) {
  std::vector<trajectory> batch(1);
  batch[0].old_logp = {-1}, batch[0].row = 4;
  train::metrics numbers;
  EXPECT_THAT(thrown_by([&] { train::reject_tokens(batch, std::vector<rejection_rule>{{"token_k3", 0, 1}}, numbers); }),
              HasSubstr("a response to row 4 has no log-probs of the policy that sampled it"));
}

TEST(rollout_rejection, is_read_as_verl_writes_it) {
  EXPECT_TRUE(read({}).empty());
  const auto one = read({group + "rollout_rs=token_k1", group + "rollout_rs_threshold=4"});
  EXPECT_TRUE(one.size() == 1 && one[0].low == 0.25 && one[0].high == 4);
  const auto shared = read({group + "rollout_rs='token_k3, seq_max_k2,token_k3'", group + "rollout_rs_threshold=0.5"});
  EXPECT_TRUE(shared.size() == 2 && shared[1].name == "seq_max_k2" && shared[1].high == 0.5);
  const auto refused = [&](const std::string& rule, const std::string& threshold) {
    return thrown_by([&] { read({group + "rollout_rs=" + rule, group + "rollout_rs_threshold=" + threshold}); });
  };
  EXPECT_THAT(refused("seq_mean_k4", "1"), HasSubstr("did you mean 'seq_mean_k1'"));
  EXPECT_THAT(refused("seq_max_k1", "1"), HasSubstr("no statistic seq_max_k1"));
  for (const char* wrong : {"null", "0", "-1", "'0.5_2.0'", "'1,2'", "x"})
    EXPECT_THAT(refused("token_k3", wrong), HasSubstr("rollout_rs_threshold=")) << wrong;
  EXPECT_THAT(refused("token_k1", "0.5"), HasSubstr("the bounds of a ratio as 0.5_2.0, or a number >= 1"));
  EXPECT_THAT(thrown_by([&] {
                read({group + "rollout_rs=token_k3", group + "rollout_rs_threshold=1", group + "bypass_mode=True"});
              }),
              HasSubstr("the ratio of the loss corrects"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
