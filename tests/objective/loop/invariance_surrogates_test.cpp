// Every surrogate through the loop: see invariance.hpp.
#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore_test;

TEST(split_invariance, ppo_clip) { check_invariance(ppo_clip{}); }
TEST(split_invariance, dual_clip) { check_invariance(dual_clip{}); }
TEST(split_invariance, two_sided_clip) { check_invariance(two_sided_clip{}); }
TEST(split_invariance, policy_gradient) { check_invariance(policy_gradient{}); }
TEST(split_invariance, importance_ratio) { check_invariance(importance_ratio{}); }
TEST(split_invariance, sapo) { check_invariance(sapo{}); }
TEST(split_invariance, cispo) { check_invariance(cispo{}); }
TEST(split_invariance, dppo_tv) { check_invariance(dppo_tv{}); }
TEST(split_invariance, dppo_kl) { check_invariance(dppo_kl{}, 1e-4); }
TEST(split_invariance, dro_penalty) { check_invariance(against_old{k2{}}); }
TEST(split_invariance, limited_log_ratio) { check_invariance(limited_log_ratio{ppo_clip{}, -0.5, 0.5}); }
TEST(split_invariance, token_filter) { check_invariance(token_filter{ppo_clip{}}); }
TEST(split_invariance, except_selected) { check_invariance(except_selected{ppo_clip{}}); }
TEST(split_invariance, weighted) { check_invariance(weighted{ppo_clip{}}); }

}  // namespace RLCORE_TEST_ID
