// The corrections of verl, OpenRLHF and TRL by name, against what their own code makes of the same log-probs.
#include "rlcore/objective/correction/rollout_correction.hpp"

#include "objective/correction/correction_data.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using namespace correction_test;

namespace {

template <class Rule>
void check_verl(const std::string& name, const Rule& rule) {
  golden_data d;
  const auto& one = d.cases["verl_presets"][name];
  const auto corrected = d.run(rule);
  expect_mask(d.kept, corrected, one["mask"], name);
  constexpr bool weighs = !std::is_same_v<decltype(rule.weight), no_weight>;
  ASSERT_EQ(weighs, one.contains("weight")) << name;
  if (weighs) expect_equal(d.weight, one["weight"], name);
  EXPECT_EQ(Rule::train_policy::train == field::logp, name.starts_with("bypass")) << name;
}

template <class Rule>
void check_weight(const char* system, const std::string& name, const Rule& rule, double tolerance = 1e-13) {
  golden_data d;
  if (name.ends_with("unscored"))
    for (const auto& slot : d.json["unscored"])
      d.rollout_logp[slot[0].get<std::size_t>() * 12 + slot[1].get<std::size_t>()] = NAN;
  const auto corrected = d.run(rule);
  expect_equal(d.weight, d.cases[system][name]["weight"], name, tolerance);
  expect_mask(d.kept, corrected, d.json["mask"], name);  // weights of 0 leave the denominator alone
}

constexpr rollout_over_train wide{0.6, 1.5};

}  // namespace

TEST(rollout_correction_presets, verl) {
  check_verl("decoupled_token_is", verl::decoupled_token_is());
  check_verl("decoupled_seq_is", verl::decoupled_seq_is());
  check_verl("decoupled_token_icepop", verl::decoupled_token_icepop());
  check_verl("decoupled_seq_is_rs", verl::decoupled_seq_is_rs());
  check_verl("decoupled_geo_rs", verl::decoupled_geo_rs());
  check_verl("decoupled_geo_rs_wide", verl::decoupled_geo_rs(wide));
  check_verl("decoupled_geo_rs_seq_tis", verl::decoupled_geo_rs_seq_tis(2, wide));
  check_verl("decoupled_geo_rs_token_tis", verl::decoupled_geo_rs_token_tis(2, wide));
  check_verl("decoupled_k3_rs", verl::decoupled_k3_rs());
  check_verl("decoupled_k3_rs_seq_tis", verl::decoupled_k3_rs_seq_tis(2, 0.1));
  check_verl("decoupled_k3_rs_token_tis", verl::decoupled_k3_rs_token_tis(2, 0.1));
  check_verl("disabled", verl::disabled());
}

TEST(rollout_correction_presets, verl_without_a_proximal_policy) {
  check_verl("bypass_ppo_clip", verl::bypass_ppo_clip());
  check_verl("bypass_ppo_clip_geo_rs", verl::bypass_ppo_clip_geo_rs(wide));
  check_verl("bypass_ppo_clip_k3_rs", verl::bypass_ppo_clip_k3_rs(0.1));
  check_verl("bypass_pg_is", verl::bypass_pg_is());
  check_verl("bypass_pg_token_icepop", verl::bypass_pg_token_icepop());
  check_verl("bypass_pg_geo_rs", verl::bypass_pg_geo_rs(wide));
  check_verl("bypass_pg_geo_rs_seq_tis", verl::bypass_pg_geo_rs_seq_tis(2, wide));
  check_verl("bypass_pg_geo_rs_token_tis", verl::bypass_pg_geo_rs_token_tis(2, wide));
}

// OpenRLHF's seq-mask-tis truncates nothing: the preset is called what it does, and its weight has no bound.
TEST(rollout_correction_presets, open_rlhf) {
  check_weight("openrlhf", "tis", openrlhf::tis());
  check_weight("openrlhf", "icepop", openrlhf::icepop());
  check_weight("openrlhf", "sequence_mask", openrlhf::sequence_mask_untruncated());
  check_weight("openrlhf", "sequence_mask_narrow", openrlhf::sequence_mask_untruncated(0.97, 1.3));
  check_weight("openrlhf", "trust_region", openrlhf::trust_region(0.02));
  check_weight("openrlhf", "token_binary_kl", openrlhf::trust_region<sampled_binary_kl, token_level>(0.02));
  check_weight("openrlhf", "sequence_tv", openrlhf::trust_region<sampled_total_variation>(0.1));
}

// Train-inference mismatch: huggingface/trl#3867, #4493, #4530; modelscope/ms-swift#6678.
TEST(rollout_correction_presets, trl) {
  check_weight("trl", "token_truncate", trl::token_truncate());
  check_weight("trl", "token_mask", trl::token_mask());
  check_weight("trl", "sequence_truncate", trl::sequence_truncate());
  check_weight("trl", "sequence_mask", trl::sequence_mask());
  check_weight("trl", "token_truncate_two_sided", trl::token_truncate(1.5, 0.8));
  check_weight("trl", "sequence_mask_two_sided", trl::sequence_mask(1.5, 0.5));
  check_weight("trl", "sequence_mask_unscored", trl::sequence_mask());
  check_weight("trl", "token_mask_unscored", trl::token_mask());
}

}  // namespace RLCORE_TEST_ID
