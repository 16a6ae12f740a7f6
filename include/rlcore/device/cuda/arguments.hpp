// The arguments of the CUDA kernels, as the host fills them.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nvidia {

#define RLCORE_CUDA_TEXT(...) __VA_ARGS__
#include "rlcore/device/cuda/text/arguments.inc"
#include "rlcore/device/cuda/text/loss_arguments.inc"
#undef RLCORE_CUDA_TEXT

/// The kernels, numbered; the arguments of a kernel have its name.
enum class kernel : int {
#define RLCORE_CUDA_KERNEL(name) name,
#include "rlcore/device/cuda/text/kernels.inc"
#undef RLCORE_CUDA_KERNEL
  count
};
/// The name of a kernel in the text.
constexpr const char* name_of(kernel k) {
  constexpr const char* names[] = {
#define RLCORE_CUDA_KERNEL(name) #name,
#include "rlcore/device/cuda/text/kernels.inc"
#undef RLCORE_CUDA_KERNEL
  };
  return names[static_cast<int>(k)];
}
#define RLCORE_CUDA_KERNEL(name) \
  constexpr kernel kernel_of(const arguments::name&) { return kernel::name; }
#include "rlcore/device/cuda/text/kernels.inc"
#undef RLCORE_CUDA_KERNEL

}  // namespace nvidia
RLCORE_END
