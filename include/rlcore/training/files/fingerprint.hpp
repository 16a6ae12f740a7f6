// Whether two models have the same weights, in 16 hexadecimal digits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"

RLCORE_BEGIN
namespace trainer {

/// A 64-bit hash of all weights in order, but for the head of a score model. Guards against mistakes, not against
/// forgery.
template <class Device>
std::string weights_fingerprint(const nn::causal_lm<Device>& model) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
  };
  std::vector<float> values;
  for (const nn::parameter& p : model.parameters()) {
    if (p.name.starts_with("score.")) continue;
    add(p.size);
    for (std::size_t begin = 0; begin < p.size; begin += piece) {
      const std::size_t n = std::min(piece, p.size - begin);
      values.assign(n + n % 2, 0.0f);
      model.device().download(values.data(), model.weights().data() + p.offset + begin, n * sizeof(float));
      for (std::size_t i = 0; i < values.size(); i += 2) {
        std::uint64_t word;
        std::memcpy(&word, values.data() + i, sizeof word);
        add(word);
      }
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace trainer
RLCORE_END
