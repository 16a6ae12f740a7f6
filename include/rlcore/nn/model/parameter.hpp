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
/// Under tensor parallelism these are the rectangle of `shape` from `start` on of a tensor of `global_shape`; both are
/// empty where every rank has the whole tensor.
struct parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;
  std::vector<std::int64_t> global_shape = {}, start = {};

  /// Does another rank hold the rest? If not, all ranks hold the same values, which a global norm counts once.
  bool split() const noexcept { return !global_shape.empty(); }
  const std::vector<std::int64_t>& whole_shape() const noexcept { return split() ? global_shape : shape; }

  /// Calls f(first of the parameter, first of the whole tensor, count) for runs of elements that lie side by side in
  /// both, in order; both positions count elements.
  template <class F>
  void for_runs(F&& f) const {
    if (!split()) return f(std::size_t{0}, std::uint64_t{0}, size);
    const std::size_t dimensions = shape.size();
    std::size_t inner = dimensions, run = 1;  // dimensions from `inner` on form one run
    while (inner > 0) {
      --inner;
      run *= static_cast<std::size_t>(shape[inner]);
      if (shape[inner] != global_shape[inner]) break;
    }
    for (std::size_t at = 0; at < size; at += run) {
      std::size_t rest = at / run;
      std::uint64_t place = 0, stride = 1;
      for (std::size_t d = dimensions; d-- > 0;) {
        std::uint64_t index = static_cast<std::uint64_t>(start[d]);
        if (d < inner) {
          index += rest % static_cast<std::size_t>(shape[d]);
          rest /= static_cast<std::size_t>(shape[d]);
        }
        place += stride * index;
        stride *= static_cast<std::uint64_t>(global_shape[d]);
      }
      f(at, place, run);
    }
  }
};

}  // namespace nn
RLCORE_END
