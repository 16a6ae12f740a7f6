// LoRA in the backward pass of linear layers.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// The adapters of the projections of one linear: A stacked [rank, inputs], B block-diagonal [outputs, rank]; `rank` is
/// the sum of their ranks, 0 without adapters. da and db accumulate the gradients of both before the factor alpha /
/// rank; db is undefined outside of the diagonal blocks.
struct adapted_linear {
  extent_t rank = 0;
  const std::byte* a = nullptr;  ///< packed
  const float* b = nullptr;
  float *da = nullptr, *db = nullptr;
};

/// One adapter per packed weight of the model, by index, and two buffers [tokens, rank].
struct adapter_pass {
  std::span<const adapted_linear> linears;
  float *u = nullptr, *du = nullptr;
};

}  // namespace nn
RLCORE_END
