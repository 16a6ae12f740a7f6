// Where the weights of a causal_lm come from: packed from a reader, or drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

template <rlcore::device Device>
template <class Read>
void causal_lm<Device>::fill(weight_format format, bf16_weights rounded, Read&& read) {
  if (!packed_alone()) throw std::logic_error("rlcore: fill() is for a model whose weights are packed alone");
  if (weights_.size() != kept_) allocate_weights();
  const rlcore::threads readers;
  std::size_t at = 0;
  for (const parameter& p : parameters_)
    if (p.shape.size() == 1)
      read_weights(*device_, weights_.data() + std::exchange(at, at + p.size), p.offset, p.size, read, readers);
  const bool exact =
      format == weight_format::float32 || (format == weight_format::bfloat16 && rounded != bf16_weights::none);
  if (format == weight_format::float32 && rounded == bf16_weights::all && has_bfloat16_exact(*device_))
    format = weight_format::bfloat16_exact;
  embedding_ = {};
  const bool rows = !(exact && reads_packed_rows(*device_));
  if (rows) {
    embedding_ = buffer<float, Device>(*device_, parameters_.front().size);
    read_weights(*device_, embedding_.data(), 0, embedding_.size(), read, readers);
  }
  if (packed_.front().format() != format) packed_.front() = packed_weights<Device>(format);
  packed_.front().fill(*device_, std::span<const matrix>(matrices_).first(rows ? products_ : matrices_.size()), read,
                       readers);
}

template <rlcore::device Device>
std::vector<float> causal_lm<Device>::initial_values(std::uint64_t seed, std::size_t k) const {
  const random_key key = random_key{seed}.child(0x696e6974u);
  const parameter& p = parameters_[k];
  const bool matrix = p.shape.size() >= 2, bias = p.name.ends_with(".bias");
  const double deviation =
      p.name == score_name ? 1 / static_cast<double>(settings_.hidden_size + 1) : settings_.initializer_range;
  std::vector<float> values(p.size, bias ? 0.0f : 1.0f);
  if (matrix)
    p.for_runs([&](std::size_t at, std::uint64_t i, std::size_t count) {
      for (const std::size_t end = at + count; at < end; ++at, ++i)
        values[at] = static_cast<float>(deviation * key.normal(static_cast<std::uint32_t>(i),
                                                               static_cast<std::uint32_t>(i >> 32),
                                                               static_cast<std::uint32_t>(numbers_[k])));
    });
  return values;
}

}  // namespace nn
RLCORE_END
