// expected: rlcore: a field of token_batch<T, Device> is a tensor
#include <cstddef>
#include <vector>

#include "rlcore/objective/loop/device_batch.hpp"

namespace RLCORE_TEST_ID {

struct device_memory {
  static constexpr bool host_readable = false;
  void* allocate(std::size_t) { return nullptr; }
  void release(void*) {}
  void upload(void*, const void*, std::size_t) {}
  void download(void*, const void*, std::size_t) {}
  void fill_zero(void*, std::size_t) {}
  void wait() {}
};

bool present(device_memory& device) {
#ifdef RLCORE_SHOULD_FAIL
  const std::vector<float> logp(6);  // of the host: upload() it
#else
  const rlcore::tensor<float, 2, device_memory> logp(device, {2, 3});
#endif
  (void)device;
  const rlcore::token_batch<float, device_memory> batch{.logp = logp};
  return batch.logp.present();
}

}  // namespace RLCORE_TEST_ID
