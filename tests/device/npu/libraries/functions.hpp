// What the functions of the libraries for the tests of the loader return.
#pragma once

#include <cstring>

#include "rlcore/device/npu/abi/types.hpp"

#ifndef RLCORE_SAMPLE_SOC
#define RLCORE_SAMPLE_SOC "Ascend910B3"
#endif

#pragma GCC diagnostic ignored "-Wunused-parameter"

using namespace rlcore::ascend;

template <class Result>
Result answer(const char* name) {
  if constexpr (requires { Result{"text"}; })
    return std::strcmp(name, "aclrtGetSocName") == 0 ? RLCORE_SAMPLE_SOC : nullptr;
  else
    return Result{};
}
