// expected: rlcore: this device lacks an operation
// expected: op::copy_rows
#include <concepts>
#include <cstddef>
#include <string_view>

#include "rlcore/device/device.hpp"

namespace RLCORE_TEST_ID {

struct mine {
  static constexpr bool host_readable = true;
  void* allocate(std::size_t) { return nullptr; }
  void release(void*) noexcept {}
  void upload(void*, const void*, std::size_t) {}
  void download(void*, const void*, std::size_t) {}
  void fill_zero(void*, std::size_t) {}
  void wait() {}
  std::string_view name() const { return "mine"; }

  bool batch_invariant() const { return true; }
  bool gradients_in_order() const { return true; }
  rlcore::weight_format compute_format() const { return rlcore::weight_format::float32; }
  std::size_t packed_bytes(rlcore::weight_format, rlcore::extent_t, rlcore::extent_t) const { return 0; }
  std::size_t kv_page_bytes(const rlcore::attention_shape&) const { return 0; }
  rlcore::logit_limits logit_tile() const { return {}; }

  template <class Operation>
#ifdef RLCORE_SHOULD_FAIL
    requires(!std::same_as<Operation, rlcore::op::copy_rows>)
#endif
  rlcore::operation_result<Operation> run(const Operation&) {
    return rlcore::operation_result<Operation>();
  }
};
static_assert(rlcore::check_device<mine>());

}  // namespace RLCORE_TEST_ID
