// What the backward pass of linear layers needs of low-rank adapters.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// The adapters of the projections of one linear: their A one below the other [rank, inputs], their B along the
/// diagonal of one matrix [outputs, rank]; `rank` is the sum of theirs, 0 if there are none. da and db, the gradients
/// of both before the factor alpha / rank, are being added to; db outside of the diagonal means nothing.
struct adapted_linear {
  extent_t rank = 0;
  const std::byte* a = nullptr;  ///< packed
  const float* b = nullptr;
  float *da = nullptr, *db = nullptr;
};

/// One for each packed weight of the model, by its number, and memory for [tokens, rank] twice.
struct adapter_pass {
  std::span<const adapted_linear> linears;
  float *u = nullptr, *du = nullptr;
};

}  // namespace nn
RLCORE_END
