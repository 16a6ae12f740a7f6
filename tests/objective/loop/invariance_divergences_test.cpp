// Every divergence, entropy and value piece through the loop: see invariance.hpp.
#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/divergence/kl_kind.hpp"
#include "rlcore/objective/piece/entropy/token_entropy.hpp"

using namespace rlcore_test;

TEST(split_invariance, k1) { check_invariance(accept_zero_gradient{k1{}}); }
TEST(split_invariance, k2) { check_invariance(k2{}); }
TEST(split_invariance, k3) { check_invariance(k3{}); }
TEST(split_invariance, absolute) { check_invariance(absolute{}); }
TEST(split_invariance, clamped_k3) { check_invariance(clamped_k3{}); }
TEST(split_invariance, token_entropy) { check_invariance(token_entropy{}); }
