// Every named algorithm of paper, verl, openrlhf and trl, with the defaults that docs/algorithms.md lists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rlcore/objective/algorithms.hpp"

namespace rlcore_test {

using namespace rlcore;
using defaults = std::vector<std::pair<std::string, double>>;

template <class Clip>
defaults clips(const Clip& s) {
  return {{"clip_low", s.clip_low}, {"clip_high", s.clip_high}};
}

/// add(name without paper::, algorithm), with a third argument where there are defaults to list.
template <class Add>
void each_of_papers(const Add& add) {
  add("grpo", paper::grpo(),
      {{"clip_low", paper::grpo_settings{}.clip_low},
       {"clip_high", paper::grpo_settings{}.clip_high},
       {"kl", paper::grpo_settings{}.kl}});
  add("dr_grpo", paper::dr_grpo(),
      {{"clip_low", paper::dr_grpo_settings{}.clip_low},
       {"clip_high", paper::dr_grpo_settings{}.clip_high},
       {"length", paper::dr_grpo_settings{}.length}});
  add("dapo", paper::dapo(), clips(paper::dapo_settings{}));
  add("gspo", paper::gspo(), clips(paper::gspo_settings{}));
  add("gspo_token", paper::gspo_token(), clips(paper::gspo_settings{}));
  add("luspo", paper::luspo(), clips(paper::gspo_settings{}));
  add("gmpo", paper::gmpo(), clips(paper::gmpo_settings{}));
  add("cispo", paper::cispo(), {{"high", paper::cispo_settings{}.surrogate.highest_ratio()}});
  add("sapo", paper::sapo(),
      {{"temperature_positive", paper::sapo_settings{}.temperature_positive},
       {"temperature_negative", paper::sapo_settings{}.temperature_negative}});
  add("vespo", paper::vespo(),
      {{"k_positive", paper::vespo_settings{}.k_positive},
       {"lambda_positive", paper::vespo_settings{}.lambda_positive},
       {"k_negative", paper::vespo_settings{}.k_negative},
       {"lambda_negative", paper::vespo_settings{}.lambda_negative}});
  add("gdpo", paper::gdpo(), clips(paper::gdpo_settings{}));
  add("ppo", paper::ppo(),
      {{"clip_low", paper::ppo_settings{}.clip_low},
       {"clip_high", paper::ppo_settings{}.clip_high},
       {"gamma", paper::ppo_settings{}.gamma},
       {"lambda", paper::ppo_settings{}.lambda}});
  add("ppo_critic", paper::ppo_critic(), {{"range", paper::ppo_critic_settings{}.range}});
  add("reinforce_plus_plus", paper::reinforce_plus_plus(), clips(paper::reinforce_plus_plus_settings{}));
  add("reinforce_plus_plus_baseline", paper::reinforce_plus_plus_baseline(),
      {{"kl", paper::reinforce_plus_plus_baseline_settings{}.kl}});
  add("rloo", paper::rloo());
  add("remax", paper::remax());
  add("opo", paper::opo());
  add("gpg", paper::gpg());
  add("dppo_tv", paper::dppo_tv(),
      {{"low", rlcore::dppo_tv{}.low}, {"high", rlcore::dppo_tv{}.high}, {"bound", rlcore::dppo_tv{}.bound}});
  add("dppo_kl", paper::dppo_kl(),
      {{"low", rlcore::dppo_kl{}.low}, {"high", rlcore::dppo_kl{}.high}, {"bound", rlcore::dppo_kl{}.bound}});
  add("dro", paper::dro(), {{"beta", paper::dro_settings{}.beta}});
  add("clip_cov", paper::clip_cov(), clips(paper::clip_cov_settings{}));
  add("kl_cov", paper::kl_cov(), {{"kappa", paper::kl_cov_settings{}.kappa}});
  add("a2po", paper::a2po(), {{"beta", paper::a2po().objective.link.beta}});
  add("sppo", paper::sppo(), {{"eta", squared_residual{}.eta}});
  add("gvpo", paper::gvpo(rlcore::gvpo{}), {{"beta", rlcore::gvpo{}.beta}});
  add("flow_rl", paper::flow_rl(), {{"beta", trajectory_balance{}.beta}, {"bound", trajectory_balance{}.bound}});

  add("dpo", paper::dpo(),
      {{"beta", paper::dpo_settings{}.beta}, {"label_smoothing", paper::dpo_settings{}.label_smoothing}});
  add("robust_dpo", paper::robust_dpo(), {{"beta", robust_link{}.beta}, {"flips", robust_link{}.flips.value}});
  add("slic", paper::slic(), {{"beta", hinge_link{}.beta}});
  add("ipo", paper::ipo(), {{"beta", ipo_link{}.beta}});
  add("exo", paper::exo(), {{"beta", exo_pair_link{}.beta}, {"doubt", exo_pair_link{}.doubt.value}});
  add("nca", paper::nca(), {{"beta", nca_pair_link{}.beta}});
  add("bco_pair", paper::bco_pair(), {{"beta", bco_pair_link{}.beta}});
  add("sppo_hard", paper::sppo_hard(), {{"beta", sppo_hard_link{}.beta}});
  add("apo_zero", paper::apo_zero(), {{"beta", apo_zero_link{}.beta}});
  add("apo_down", paper::apo_down(), {{"beta", apo_down_link{}.beta}});
  add("discopop", paper::discopop(), {{"beta", discopop_link{}.beta}, {"temperature", discopop_link{}.temperature}});
  add("aot", paper::aot(), {{"beta", aot_link{}.beta}});
  add("aot_unpaired", paper::aot_unpaired(), {{"beta", aot_unpaired_link{}.beta}});
  const kto_link kto{.kl = kto_baseline(0)};
  add("kto", paper::kto(kto),
      {{"beta", kto.beta}, {"desirable_weight", kto.desirable_weight}, {"undesirable_weight", kto.undesirable_weight}});
  add("bco", paper::bco(bco_link(0)), {{"beta", bco_link(0).beta}});
  add("apo_zero_unpaired", paper::apo_zero_unpaired(), {{"beta", apo_zero_unpaired_link{}.beta}});
  add("cpo", paper::cpo(), {{"beta", paper::cpo_settings{}.beta}, {"likelihood", paper::cpo_settings{}.likelihood}});
  add("simpo", paper::simpo(), {{"beta", paper::simpo_settings{}.beta}, {"margin", paper::simpo_settings{}.margin}});
  add("alpha_po", paper::alpha_po(),
      {{"alpha", alpha_po_link{}.alpha}, {"beta", alpha_po_link{}.beta}, {"margin", alpha_po_link{}.margin}});
  add("orpo", paper::orpo(), {{"beta", orpo_link{}.beta}});

  add("sft", paper::sft());
  add("dft", paper::dft());
  add("rm", paper::rm(), {{"margin", paper::rm_settings{}.margin}});
  add("rm_with_margins", paper::rm_with_margins());
  add("centered_rm", paper::centered_rm(), {{"coefficient", paper::centered_rm_settings{}.coefficient}});
  add("prm", paper::prm());
  add("kd", paper::kd());
  add("reverse_kd", paper::reverse_kd());
  add("gkd", paper::gkd(), {{"beta", generalised_jsd{}.beta}});
}

/// add(name, algorithm), with a third argument where there are defaults to list.
template <class Add>
void each_of_systems(const Add& add) {
  const verl::clip_settings v;
  add("verl::grpo", verl::grpo(), {{"clip_low", v.clip_low}, {"clip_high", v.clip_high}, {"clip_c", v.clip_c}});
  add("verl::ppo", verl::ppo());
  add("verl::ppo_critic", verl::ppo_critic(), {{"range", clipped_value{}.range}});
  add("verl::dr_grpo", verl::dr_grpo(1024));
  add("verl::dapo", verl::dapo(),
      {{"clip_high", verl::dapo().objective.high}, {"clip_c", verl::dapo().objective.bound}});
  add("verl::pass_at_k", verl::pass_at_k());
  add("verl::rloo", verl::rloo());
  add("verl::reinforce_plus_plus", verl::reinforce_plus_plus());
  add("verl::reinforce_plus_plus_baseline", verl::reinforce_plus_plus_baseline());
  add("verl::remax", verl::remax());
  add("verl::opo", verl::opo());
  add("verl::gpg", verl::gpg());
  add("verl::gspo", verl::gspo());
  add("verl::gmpo", verl::gmpo());
  add("verl::sapo", verl::sapo());
  add("verl::cispo", verl::cispo());
  add("verl::clip_cov", verl::clip_cov());
  add("verl::kl_cov", verl::kl_cov(), {{"kappa", verl::kl_cov().objective.rest.first.scale}});
  add("verl::dppo_tv", verl::dppo_tv());
  add("verl::dppo_kl", verl::dppo_kl());
  add("verl::dro", verl::dro(1));
  add("openrlhf::ppo", openrlhf::ppo(),
      {{"clip_low", openrlhf::clip_settings{}.clip_low},
       {"clip_high", openrlhf::clip_settings{}.clip_high},
       {"dual_clip", openrlhf::clip_settings{}.dual_clip}});
  add("openrlhf::ppo_critic", openrlhf::ppo_critic(), {{"range", openrlhf::ppo_critic().objective.range}});
  add("openrlhf::grpo", openrlhf::grpo());
  add("openrlhf::dr_grpo", openrlhf::dr_grpo());
  add("openrlhf::rloo", openrlhf::rloo());
  add("openrlhf::reinforce_plus_plus", openrlhf::reinforce_plus_plus());
  add("openrlhf::gspo", openrlhf::gspo());
  add("openrlhf::dpo", openrlhf::dpo());
  add("openrlhf::ipo", openrlhf::ipo());
  add("trl::grpo", trl::grpo(), clips(trl::clip_settings{}));
  add("trl::dapo", trl::dapo());
  add("trl::dr_grpo", trl::dr_grpo(256));
  add("trl::two_sided_dapo", trl::two_sided_dapo(), {{"bound", two_sided_clip{}.bound}});
  add("trl::gspo", trl::gspo());
  add("trl::gspo_token", trl::gspo_token());
  add("trl::luspo", trl::luspo());
  add("trl::cispo", trl::cispo(), {{"high", trl::cispo().objective.highest_ratio()}});
  add("trl::sapo", trl::sapo());
  add("trl::vespo", trl::vespo());
  add("trl::gmpo", trl::gmpo(), {{"low", trl::gmpo().objective.low}, {"high", trl::gmpo().objective.high}});
  add("trl::rloo", trl::rloo());
  add("trl::ppo", trl::ppo(), {{"lambda", trl::ppo().advantage.lambda}});
  add("trl::ppo_critic", trl::ppo_critic(),
      {{"range", trl::ppo_critic().objective.node.range}, {"vf_coef", trl::ppo_critic().objective.scale}});
  add("trl::simpo", trl::simpo(),
      {{"beta", trl::simpo().objective.link.beta}, {"margin", trl::simpo().objective.link.margin}});
}

}  // namespace rlcore_test
