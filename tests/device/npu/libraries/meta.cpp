// libnnopbase.so as the tests of the loader want them: all functions, none of which does anything.
#include "functions.hpp"

#define RLCORE_NPU_CALL(name, need, result, parameters) \
  extern "C" result name parameters { return answer<result>(#name); }
#include "rlcore/device/npu/abi/meta.inc"
