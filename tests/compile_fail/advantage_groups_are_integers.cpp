// Groups named by floating-point numbers; a fractional group size.
// expected: rlcore: groups is the size of a group, or a vector of integers
// expected: rlcore: the size of a group is an integer; write 8, not 8.0
#include <vector>

#include "rlcore/objective/advantage/group_relative.hpp"

namespace RLCORE_TEST_ID {

void advantages() {
  std::vector<float> rewards(8), advantages(8);
#ifdef RLCORE_SHOULD_FAIL
  rlcore::group_relative{}(rewards, std::vector<float>(8), advantages);
  rlcore::group_relative{}(rewards, 2.0, advantages);
#else
  rlcore::group_relative{}(rewards, std::vector<int>(8), advantages);
  rlcore::group_relative{}(rewards, 2, advantages);
#endif
}

}  // namespace RLCORE_TEST_ID
