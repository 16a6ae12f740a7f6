// Shard of a tensor on one rank, for sharded checkpoints and weight synchronisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// A rectangle of a tensor (tensor and expert parallelism), restricted to a range of its elements in row-major order
/// (data parallelism with sharded weights). Placement is explicit, never inferred from values or sizes. A scalar has no
/// dimensions and one element.
struct shard_piece {
  std::string tensor;
  std::vector<std::int64_t> shape;          ///< of the whole tensor
  std::vector<std::int64_t> start, extent;  ///< the rectangle, one entry per dimension
  std::size_t first = 0, last = 0;          ///< elements of the rectangle

  std::size_t size() const noexcept { return last - first; }
  bool operator==(const shard_piece&) const = default;
};

/// The number of elements of a tensor or rectangle.
inline std::size_t elements_of(const std::vector<std::int64_t>& extents) noexcept {
  std::size_t n = 1;
  for (const std::int64_t e : extents) n *= static_cast<std::size_t>(e);
  return n;
}

/// The piece that covers a whole tensor.
inline shard_piece whole_tensor(std::string name, std::vector<std::int64_t> shape) {
  const std::size_t size = elements_of(shape);
  std::vector<std::int64_t> start(shape.size());
  std::vector<std::int64_t> extent = shape;
  return {std::move(name), std::move(shape), std::move(start), std::move(extent), 0, size};
}

/// "model.norm.weight [4, 6]: 3 .. 9 of the rectangle [2, 6] at [1, 0]"
inline std::string text_of(const shard_piece& p) {
  const auto list = [](const std::vector<std::int64_t>& v) {
    std::string text = "[";
    for (std::size_t i = 0; i < v.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(v[i]);
    return text + "]";
  };
  std::string text =
      p.tensor + " " + list(p.shape) + ": elements " + std::to_string(p.first) + " .. " + std::to_string(p.last);
  if (p.extent != p.shape) text += " of the rectangle " + list(p.extent) + " at " + list(p.start);
  return text;
}

/// The error of an invalid piece; empty if the piece is valid.
inline std::string fault_of(const shard_piece& p) {
  if (p.start.size() != p.shape.size() || p.extent.size() != p.shape.size())
    return "a rectangle with another number of dimensions than the tensor";
  std::size_t n = 1;
  for (std::size_t d = 0; d < p.shape.size(); ++d) {
    if (p.start[d] < 0 || p.extent[d] < 0 || p.shape[d] < 0 || p.extent[d] > p.shape[d] ||
        p.start[d] > p.shape[d] - p.extent[d])
      return "a rectangle that reaches past the tensor";
    const auto e = static_cast<std::size_t>(p.shape[d]);
    if (e != 0 && n > (std::size_t{1} << 60) / e) return "a tensor that is too large";
    if (e != 0) n *= e;
  }
  if (p.first > p.last || p.last > elements_of(p.extent)) return "elements past its rectangle";
  return "";
}

/// Throws std::invalid_argument naming the piece if it is invalid.
inline void check_piece(const shard_piece& p) {
  if (const std::string fault = fault_of(p); !fault.empty())
    throw std::invalid_argument("rlcore: piece " + text_of(p) + " has " + fault);
}

}  // namespace parallel
RLCORE_END
