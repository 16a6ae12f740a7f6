// expected: rlcore: std::vector<bool> packs eight elements into a byte
#include <cstdint>
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const std::vector<bool> mask(8);
#else
  const std::vector<std::uint8_t> mask(8);
#endif
  return static_cast<int>(rlcore::as_view(mask).shape[0]) - 8;
}

}  // namespace RLCORE_TEST_ID
