// Which rows of a packed batch predict which tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// Row `row[i]` of the packed batch (sequences one after the other, without padding) predicts `token[i]`. Rows ascend
/// when gradients shall not depend on how sequences are split into batches.
struct targets {
  std::vector<std::int32_t> row, token;
};

}  // namespace nn
RLCORE_END
