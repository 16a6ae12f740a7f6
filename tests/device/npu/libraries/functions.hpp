// What the functions of the libraries for the tests of the loader return.
#pragma once

#include <cstring>

#include "rlcore/device/npu/abi/types.hpp"

#pragma GCC diagnostic ignored "-Wunused-parameter"

using namespace rlcore::ascend;

template <class Result>
Result answer(const char* name) {
  if constexpr (requires { Result{"text"}; })
    return std::strcmp(name, "aclrtGetSocName") == 0 ? "Ascend910B3" : nullptr;
  else
    return Result{};
}
