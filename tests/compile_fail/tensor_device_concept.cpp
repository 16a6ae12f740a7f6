// expected: rlcore: the device of a buffer needs static constexpr bool host_readable
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "rlcore/tensor/buffer.hpp"

namespace RLCORE_TEST_ID {

struct device_memory {
  static constexpr bool host_readable = true;
  void* allocate(std::size_t bytes) { return std::malloc(bytes); }
#ifndef RLCORE_SHOULD_FAIL
  void release(void* p) { std::free(p); }
#endif
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void fill_zero(void* p, std::size_t bytes) { std::memset(p, 0, bytes); }
  void wait() {}
};

int main() {
  device_memory device;
  const rlcore::buffer<float, device_memory> x(device, 4);
  return static_cast<int>(x.size()) - 4;
}

}  // namespace RLCORE_TEST_ID
