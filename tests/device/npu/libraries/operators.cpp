// libopapi.so and its parts as the tests of the loader want them; the loader only asks for addresses.
#include "functions.hpp"

#define RLCORE_NPU_OPERATOR(name, need, ...)                    \
  extern "C" aclnnStatus name##GetWorkspaceSize() { return 0; } \
  extern "C" aclnnStatus name() { return 0; }
#include "rlcore/device/npu/abi/operators.inc"
