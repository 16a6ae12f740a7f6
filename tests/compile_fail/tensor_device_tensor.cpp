// expected: rlcore: the host cannot read the memory of this device
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "rlcore/tensor/tensor.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
constexpr bool readable = false;
#else
constexpr bool readable = true;
#endif

struct device_memory {
  static constexpr bool host_readable = readable;
  void* allocate(std::size_t bytes) { return std::malloc(bytes); }
  void release(void* p) { std::free(p); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void fill_zero(void* p, std::size_t bytes) { std::memset(p, 0, bytes); }
  void wait() {}
};

int main() {
  device_memory device;
  rlcore::tensor<float, 2, device_memory> x(device, {2, 2});
  x.memory().fill_zero();
  return rlcore::as_view(x)(1, 1) == 0 ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
