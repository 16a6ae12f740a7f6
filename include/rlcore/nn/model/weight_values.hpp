// How a model stores its weights, and where their values come from: a reader, or random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// Storage of a model's weights.
enum class weights_in : unsigned char {
  memory,  ///< as floats, and packed for matrix products
  units,   ///< none before allocate_weights(); training gathers them from units()
  packed   ///< matrices only packed: for inference, after fill()
};

/// The initial values of parameter `number` of the model: matrices normal(0, deviation), biases 0, other vectors 1.
inline std::vector<float> drawn_values(const parameter& p, std::size_t number, std::uint64_t seed, double deviation) {
  const random_key key = random_key{seed}.child(0x696e6974u);
  std::vector<float> values(p.size, p.name.ends_with(".bias") ? 0.0f : 1.0f);
  if (p.shape.size() >= 2)
    p.for_runs([&](std::size_t at, std::uint64_t i, std::size_t count) {
      for (const std::size_t end = at + count; at < end; ++at, ++i)
        values[at] = static_cast<float>(deviation * key.normal(static_cast<std::uint32_t>(i),
                                                               static_cast<std::uint32_t>(i >> 32),
                                                               static_cast<std::uint32_t>(number)));
    });
  return values;
}

/// causal_lm::fill(): vectors become the floats of `vectors`, in their order, matrices `packed`. The embedding, the
/// first parameter and the last of `matrices`, of which the first `products` are multiplied, becomes floats unless its
/// packed copy is exact.
template <class Device, class Read>
void fill_packed(Device& device, std::span<const parameter> parameters, float* vectors, packed_weights<Device>& packed,
                 buffer<float, Device>& embedding, std::span<const matrix> matrices, std::size_t products,
                 weight_format format, bf16_weights rounded, Read&& read) {
  constexpr bool receives = requires { read.prepare(std::size_t{}, std::size_t{}); };  // the values are in memory then
  const rlcore::threads readers(receives ? 1 : 0);
  std::size_t at = 0;
  for (const parameter& p : parameters)
    if (p.shape.size() == 1)
      read_weights(device, vectors + std::exchange(at, at + p.size), p.offset, p.size, read, readers);
  const bool exact =
      format == weight_format::float32 || (format == weight_format::bfloat16 && rounded != bf16_weights::none);
  if (format == weight_format::float32 && rounded == bf16_weights::all && has_bfloat16_exact(device))
    format = weight_format::bfloat16_exact;
  embedding = {};
  const bool rows = !(exact && reads_packed_rows(device));
  if (rows) {
    embedding = buffer<float, Device>(device, parameters.front().size);
    read_weights(device, embedding.data(), 0, embedding.size(), read, readers);
  }
  if (packed.format() != format) packed = packed_weights<Device>(format);
  packed.fill(device, matrices.first(rows ? products : matrices.size()), read, readers);
}

}  // namespace nn
RLCORE_END
