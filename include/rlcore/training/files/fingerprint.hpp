// Fingerprints (16 hexadecimal digits) of weights and data, to compare models and runs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/nn/model/causal_lm.hpp"

RLCORE_BEGIN
namespace trainer {

/// A 64-bit hash of words in order. Guards against mistakes, not against forgery.
class fingerprint {
 public:
  /// The next word.
  void add(std::uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 0xd6e8feb86659fd93u;
    hash_ ^= hash_ >> 32;
  }
  /// The next text.
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) add(std::uint64_t{static_cast<unsigned char>(c)});
  }
  /// The next tokens.
  void add(std::span<const std::int32_t> tokens) {
    add(std::uint64_t{tokens.size()});
    for (const std::int32_t token : tokens) add(std::uint64_t{static_cast<std::uint32_t>(token)});
  }
  /// Its 16 digits.
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
    return digits;
  }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15u;
};

/// Fingerprint of all weights in order, except the head of a score model.
template <class Device>
std::string weights_fingerprint(const nn::causal_lm<Device>& model) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  fingerprint hash;
  std::vector<float> values;
  for (const nn::parameter& p : model.parameters()) {
    if (p.name.starts_with("score.")) continue;
    hash.add(std::uint64_t{p.size});
    for (std::size_t begin = 0; begin < p.size; begin += piece) {
      const std::size_t n = std::min(piece, p.size - begin);
      values.assign(n + n % 2, 0.0f);
      model.device().download(values.data(), model.weights().data() + p.offset + begin, n * sizeof(float));
      for (std::size_t i = 0; i < values.size(); i += 2) {
        std::uint64_t word;
        std::memcpy(&word, values.data() + i, sizeof word);
        hash.add(word);
      }
    }
  }
  return hash.text();
}

/// Fingerprint of the weights in a folder from a sample, fast for any size: names, sizes, and the first numbers of each
/// tensor. Throws format_error, file_error.
inline std::string sampled_fingerprint(const std::filesystem::path& folder) {
  constexpr std::size_t numbers = 256;
  const checkpoint::tensor_folder weights(folder);
  fingerprint hash;
  for (const std::string& name : weights.names()) {
    const std::size_t size = weights.info(name).size();
    std::vector<float> values(std::min(numbers, size));
    if (!values.empty()) weights.read_f32(name, values, 0);
    hash.add(name);
    hash.add(std::uint64_t{size});
    for (const float x : values) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(x)});
  }
  return hash.text();
}

}  // namespace trainer
RLCORE_END
