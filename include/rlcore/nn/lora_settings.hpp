// What to adapt, and how strongly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// W' = W + (alpha / rank) B A, A [rank, inputs], B [outputs, rank] (Hu et al. 2021). `modules` are the last part of
/// the projections' names, e.g. q_proj; "all-linear" stands for all but the head.
struct lora_settings {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> modules{"all-linear"};
  std::uint64_t seed = 1;  ///< of A; B begins as 0
};

}  // namespace nn
RLCORE_END
