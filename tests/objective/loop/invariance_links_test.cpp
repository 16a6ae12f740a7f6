// Every preference and reward-model loss through the sequence loop: see invariance_links.hpp.
#include "objective/loop/invariance_links.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "rlcore/objective/piece/preference/weights.hpp"
#include "rlcore/objective/piece/reward_model.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore_test;

namespace {
template <class Advantage, class Gather, class Link, class Aggregation>
void check_algorithm(const algorithm<Advantage, sequence_objective<Gather, Link>, Aggregation>& a) {
  check_link(a.objective.gather, a.objective.link, a.aggregation);
}
}  // namespace

TEST(pair_invariance, dpo) { check_algorithm(paper::dpo()); }
TEST(pair_invariance, robust_dpo) { check_algorithm(paper::robust_dpo({.flips = 0.1})); }
TEST(pair_invariance, slic) { check_algorithm(paper::slic()); }
TEST(pair_invariance, ipo) { check_algorithm(paper::ipo()); }
TEST(pair_invariance, ipo_of_openrlhf) { check_algorithm(openrlhf::ipo()); }
TEST(pair_invariance, exo) { check_algorithm(paper::exo()); }
TEST(pair_invariance, nca) { check_algorithm(paper::nca()); }
TEST(pair_invariance, bco_pair) { check_algorithm(paper::bco_pair()); }
TEST(pair_invariance, sppo_hard) { check_algorithm(paper::sppo_hard()); }
TEST(pair_invariance, apo_zero) { check_algorithm(paper::apo_zero()); }
TEST(pair_invariance, apo_down) { check_algorithm(paper::apo_down()); }
TEST(pair_invariance, discopop) { check_algorithm(paper::discopop()); }
TEST(pair_invariance, simpo) { check_algorithm(paper::simpo()); }
TEST(pair_invariance, alpha_po) { check_algorithm(paper::alpha_po()); }
TEST(pair_invariance, cpo) { check_algorithm(paper::cpo().pair); }
TEST(pair_invariance, orpo) { check_algorithm(paper::orpo().pair); }
TEST(pair_invariance, f_dpo) {
  check_link(sum_of<log_ratio_to_reference>{}, transformed{jensen_shannon_reward{}, bradley_terry{}}, pair_mean{});
}
TEST(pair_invariance, wpo) {
  check_link(sum_of<log_ratio_to_reference>{}, weighted_pair{bradley_terry{}}, pair_mean{});
}
TEST(pair_invariance, rm) { check_algorithm(paper::rm()); }
TEST(pair_invariance, rm_with_margins) { check_algorithm(paper::rm_with_margins()); }
TEST(pair_invariance, centered_rm) { check_algorithm(paper::centered_rm()); }
TEST(row_invariance, kto) { check_algorithm(paper::kto({.kl = kto_baseline(0.3)})); }
TEST(row_invariance, bco) { check_algorithm(paper::bco(bco_link(0.2))); }
TEST(row_invariance, apo_zero_unpaired) { check_algorithm(paper::apo_zero_unpaired()); }
TEST(row_invariance, squared_error) { check_link(sum_of<head_score>{}, squared_error_link{}, sequence_mean{}); }
TEST(row_invariance, a2po) { check_algorithm(paper::a2po()); }
TEST(row_invariance, rloo_of_trl) { check_algorithm(trl::rloo()); }
TEST(batch_coupling, aot) { check_algorithm(paper::aot()); }
TEST(batch_coupling, aot_unpaired) { check_algorithm(paper::aot_unpaired()); }
TEST(batch_coupling, plackett_luce) {
  check_link(sum_of<head_score>{}, plackett_luce_link{.group_size = 4}, batch_total{});
}

}  // namespace RLCORE_TEST_ID
