// Every surrogate that gathers over its row through the loop: see invariance.hpp.
#include "objective/loop/invariance.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore_test;

TEST(split_invariance, gspo) { check_invariance(one_per_sequence{sequence_is{ppo_clip{.low = 0.01, .high = 0.01}}}); }
TEST(split_invariance, gspo_token) { check_invariance(sequence_is{ppo_clip{.low = 0.01, .high = 0.01}}); }
TEST(split_invariance, weighted_gspo) { check_invariance(weighted{sequence_is{ppo_clip{}}}); }
TEST(split_invariance, gspo_against_the_rollout) { check_invariance(rollout_is{sequence_is{ppo_clip{}}}); }
TEST(split_invariance, sequence_cispo) { check_invariance(sequence_is{cispo{}}); }
TEST(split_invariance, sequence_sapo) { check_invariance(sequence_is{sapo{}}); }
TEST(split_invariance, geometric_mean_ratio) { check_invariance(geometric_mean_ratio{}); }
TEST(split_invariance, geometric_mean_ratio_of_verl) {
  check_invariance(geometric_mean_ratio{.low = 0.2, .high = 0.2});
}
TEST(split_invariance, vespo) { check_invariance(vespo{}, 1e-5, 0.01); }

}  // namespace RLCORE_TEST_ID
