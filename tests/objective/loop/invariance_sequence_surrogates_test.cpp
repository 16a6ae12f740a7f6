// Every surrogate that gathers over its row through the loop: see invariance.hpp.
#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/combine/against_rollout.hpp"
#include "rlcore/objective/piece/combine/weighted.hpp"
#include "rlcore/objective/piece/surrogate/at_sequence_level.hpp"
#include "rlcore/objective/piece/surrogate/cispo.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"
#include "rlcore/objective/piece/surrogate/geometric_mean_ratio.hpp"
#include "rlcore/objective/piece/surrogate/one_per_sequence.hpp"
#include "rlcore/objective/piece/surrogate/sapo.hpp"
#include "rlcore/objective/piece/surrogate/vespo.hpp"

using namespace rlcore_test;

TEST(split_invariance, gspo) {
  check_invariance(one_per_sequence{at_sequence_level{clipped_ratio{.low = 0.01, .high = 0.01}}});
}
TEST(split_invariance, gspo_token) { check_invariance(at_sequence_level{clipped_ratio{.low = 0.01, .high = 0.01}}); }
TEST(split_invariance, weighted_gspo) { check_invariance(weighted{at_sequence_level{clipped_ratio{}}}); }
TEST(split_invariance, gspo_against_the_rollout) {
  check_invariance(against_rollout{at_sequence_level{clipped_ratio{}}});
}
TEST(split_invariance, sequence_cispo) { check_invariance(at_sequence_level{cispo{}}); }
TEST(split_invariance, sequence_sapo) { check_invariance(at_sequence_level{sapo{}}); }
TEST(split_invariance, geometric_mean_ratio) { check_invariance(geometric_mean_ratio{}); }
TEST(split_invariance, geometric_mean_ratio_of_verl) {
  check_invariance(geometric_mean_ratio{.low = 0.2, .high = 0.2});
}
TEST(split_invariance, vespo) { check_invariance(vespo{}, 1e-5, 0.01); }
