// Where one named parameter lives inside a model's single array of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// `name` is Hugging Face's, e.g. "model.layers.0.self_attn.q_proj.weight"; row-major, `size` floats from `offset`.
struct parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;
};

}  // namespace nn
RLCORE_END
