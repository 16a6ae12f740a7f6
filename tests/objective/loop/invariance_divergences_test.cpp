// Every divergence, entropy and value piece through the loop: see invariance.hpp.
#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/divergence/ratio_corrected.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/piece/value.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore_test;

TEST(split_invariance, k1) { check_invariance(accept_zero_gradient{k1{}}); }
TEST(split_invariance, k2) { check_invariance(k2{}); }
TEST(split_invariance, k3) { check_invariance(k3{}); }
TEST(split_invariance, abs_kl) { check_invariance(abs_kl{}); }
TEST(split_invariance, clamped_k3) { check_invariance(clamped_k3{}); }
TEST(split_invariance, token_entropy) { check_invariance(token_entropy{}); }
TEST(split_invariance, value_clamped) { check_invariance(value_clamped{k2{}}); }
TEST(split_invariance, with_kl_gradient) { check_invariance(with_kl_gradient(k3{})); }
TEST(split_invariance, ratio_corrected) { check_invariance(ratio_corrected{k3{}}); }
TEST(split_invariance, negative_log_likelihood) { check_invariance(negative_log_likelihood{}); }
TEST(split_invariance, dft) { check_invariance(dft{}); }
// verl-project/verl#6957, #7110: a critic's loss that grows with the number of micro-batches.
TEST(split_invariance, clipped_value) { check_invariance(clipped_value{}); }
TEST(split_invariance, squared_value) { check_invariance(squared_value{}); }
TEST(split_invariance, huber_value) { check_invariance(huber_value{}); }

}  // namespace RLCORE_TEST_ID
