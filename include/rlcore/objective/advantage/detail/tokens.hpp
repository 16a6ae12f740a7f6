// Loops over tokens, forward by blocks and backward by rows.
//
// Blocks of 64 tokens of a row, in double, with one mask bit per token.
//
// All arithmetic of advantages goes over whole blocks whose first token is a multiple of 64 of the row, so its bits
// depend on the row alone: not on strides, on the element type of the mask, on padding or on neighbouring rows.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/simd/pack.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

inline void check_shape(const char* name, const extents<2>& is, const char* model, const extents<2>& expected) {
  if (is != expected)
    throw std::invalid_argument("rlcore: " + std::string(name) + " are " + to_string(is) + ", " + model + " are " +
                                to_string(expected));
}
inline void check_mask_shape(const token_mask& mask, const char* model, const extents<2>& expected) {
  if (mask.present() && (!mask.matrix || mask.shape != expected))
    throw std::invalid_argument("rlcore: the mask is " +
                                (mask.matrix ? to_string(mask.shape) : to_string<1>({mask.shape[0]})) + ", " + model +
                                " are " + to_string(expected));
}
inline void check_per_row(const char* name, extent_t is, const char* model, const extents<2>& matrix) {
  if (is != matrix[0])
    throw std::invalid_argument("rlcore: " + std::string(name) + " are " + to_string<1>({is}) + ", " + model + " are " +
                                to_string(matrix));
}

}  // namespace detail
namespace token_block {

inline constexpr std::size_t tokens = 64;
inline constexpr std::uint64_t all_live = ~std::uint64_t{0};

/// Eight doubles, added in the same order on every machine.
struct eight {
  static constexpr std::size_t lanes = pack<double>::lanes, parts = 8 / lanes;
  pack<double> part[parts];

  RLCORE_FN static eight load(const double* from) noexcept {
    eight e;
    for (std::size_t i = 0; i < parts; ++i) e.part[i] = rlcore::load(from + i * lanes);
    return e;
  }
  RLCORE_FN static eight of(double x) noexcept {
    eight e;
    for (std::size_t i = 0; i < parts; ++i) e.part[i] = pack<double>(x);
    return e;
  }
  RLCORE_FN void store(double* to) const noexcept {
    for (std::size_t i = 0; i < parts; ++i) rlcore::store(to + i * lanes, part[i]);
  }
  RLCORE_FN double total() const noexcept {
    double lane[8];
    store(lane);
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
};

/// f(e...) part by part.
template <class F, class... Eight>
RLCORE_FN eight each(F f, const Eight&... e) noexcept {
  eight result;
  for (std::size_t i = 0; i < eight::parts; ++i) result.part[i] = f(e.part[i]...);
  return result;
}

/// Bit k: element k of the mask is not zero (`sign` is the bit that -0.0 may have).
template <class Word>
std::uint64_t bits_of(const std::byte* first, extent_t stride, std::size_t count, Word value_bits) noexcept {
  const auto at = [&](std::size_t k) {
    Word w;
    std::memcpy(&w, first + static_cast<extent_t>(k) * stride * static_cast<extent_t>(sizeof(Word)), sizeof(Word));
    return static_cast<Word>(w & value_bits);
  };
  if (count == tokens && stride == 1) {
    Word block[tokens];
    std::memcpy(block, first, sizeof(block));
    Word live = 0;
    for (std::size_t k = 0; k < tokens; ++k)
      live = static_cast<Word>(live + static_cast<Word>((block[k] & value_bits) != 0));
    if (live == tokens) return all_live;
    if (live == 0) return 0;
  }
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < count; ++k) bits |= std::uint64_t{at(k) != 0} << k;
  return bits;
}

/// The live tokens among [first, first + count) of a row, bit 0 for the first.
inline std::uint64_t live_bits(const token_mask& mask, extent_t row, extent_t first, std::size_t count) noexcept {
  if (!mask.present()) return count == tokens ? all_live : (std::uint64_t{1} << count) - 1;
  const std::byte* at = mask.data + (row * mask.stride[0] + first * mask.stride[1]) * static_cast<extent_t>(mask.bytes);
  const extent_t stride = mask.stride[1];
  switch (mask.bytes) {
    case 1:
      return bits_of<std::uint8_t>(at, stride, count, 0xff);
    case 2:
      return bits_of<std::uint16_t>(at, stride, count, 0xffff);
    case 4:
      return bits_of<std::uint32_t>(at, stride, count, mask.floating ? 0x7fffffffu : 0xffffffffu);
    default:
      return bits_of<std::uint64_t>(at, stride, count, mask.floating ? all_live >> 1 : all_live);
  }
}

RLCORE_FN bool is_live(std::uint64_t bits, std::size_t k) noexcept { return (bits >> k & 1u) != 0; }

/// A block of one row of a matrix: pointer to its first token, and how many of the 64 exist.
template <class T>
struct block_of {
  T* data;
  extent_t stride;
  std::size_t count;

  block_of(const matrix_view<T>& v, extent_t row, extent_t first) noexcept
      : data(v.row(row) + first * v.stride[1]),
        stride(v.stride[1]),
        count(v.shape[1] - first < static_cast<extent_t>(tokens) ? static_cast<std::size_t>(v.shape[1] - first)
                                                                 : tokens) {}

  RLCORE_FN T& operator[](std::size_t k) const noexcept { return data[static_cast<extent_t>(k) * stride]; }

  /// All 64 tokens, all of them live.
  RLCORE_FN void read_all(double* to) const noexcept {
    if (stride == 1)
      for (std::size_t k = 0; k < tokens; ++k) to[k] = static_cast<double>(data[k]);
    else
      for (std::size_t k = 0; k < tokens; ++k) to[k] = static_cast<double>((*this)[k]);
  }
  /// Writes the live tokens without gaps and returns their number.
  std::size_t read_live(std::uint64_t bits, double* to) const noexcept {
    std::size_t n = 0;
    for (; bits != 0; bits &= bits - 1)
      to[n++] = static_cast<double>((*this)[static_cast<std::size_t>(std::countr_zero(bits))]);
    return n;
  }
  RLCORE_FN void write_all(const double* from) const noexcept {
    if (stride == 1)
      for (std::size_t k = 0; k < tokens; ++k) data[k] = static_cast<T>(from[k]);
    else
      for (std::size_t k = 0; k < tokens; ++k) (*this)[k] = static_cast<T>(from[k]);
  }
  void write_zeros() const noexcept {
    for (std::size_t k = 0; k < count; ++k) (*this)[k] = T(0);
  }
};

}  // namespace token_block

namespace detail {

/// Stands for values that are 0 and for unwanted outputs.
struct no_matrix {};
template <class M>
inline constexpr bool is_matrix = !std::is_same_v<M, no_matrix>;

struct backward_settings {
  double gamma = 1, decay = 1, critic_decay = 1;  // the decays are gamma lambda
  turn_policy turns = turn_policy::skip;
};

}  // namespace detail
namespace backward_recursion {

using detail::backward_settings;
using detail::is_matrix;
using token_block::eight;
using token_block::tokens;

/// x[t] += c x[t + 1], backwards through the block: in windows of 2, 4 and 8 tokens, then from window to window, so
/// that the chain of dependent operations is 8 times shorter than written token by token. x[64] ... x[71] must be 0.
inline void accumulate(double* x, double c) noexcept {
  double power = c;
  for (std::size_t width = 1; width < 8; width *= 2, power *= power)
    for (std::size_t k = 0; k < tokens; k += 8) {
      const pack<double> factor(power);
      each([factor](auto next, auto here) { return multiply_add(factor, next, here); }, eight::load(x + k + width),
           eight::load(x + k))
          .store(x + k);
    }
  eight later = eight::of(0.0);
  const pack<double> factor(power);
  for (std::size_t k = tokens; k > 0; k -= 8) {
    later = each([factor](auto next, auto here) { return multiply_add(factor, next, here); }, later,
                 eight::load(x + k - 8));
    later.store(x + k - 8);
  }
}

/// State carried from later to earlier tokens.
struct carried {
  double value = 0, advantage = 0, critic_advantage = 0;
};

/// One masked slot.
inline void pass_gap(const backward_settings& s, carried& c) noexcept {
  if (s.turns == turn_policy::skip) return;
  if (s.turns == turn_policy::reset) {
    c = {};
    return;
  }
  const double delta = s.gamma * c.value;
  c = {0.0, delta + s.decay * c.advantage, delta + s.critic_decay * c.critic_advantage};
}

/// Memory for a block of a row, eight tokens longer than it.
struct block_memory {
  alignas(64) double delta[tokens + 8], critic[tokens + 8], value[tokens + 8];
};

/// A block whose slots all count. Values may be no_matrix (zero), Returns may be (not wanted).
template <class Rewards, class Values, class Advantages, class Returns>
void whole_block(const backward_settings& s, const Rewards& reward, const Values& value_of, const Advantages& advantage,
                 const Returns& return_of, block_memory& memory, carried& c) {
  auto& [delta, critic, value] = memory;
  const bool two_decays = is_matrix<Returns> && s.critic_decay != s.decay;
  reward.read_all(delta);
  if constexpr (is_matrix<Values>) {
    value_of.read_all(value);
    value[tokens] = c.value;
    const pack<double> gamma(s.gamma);
    for (std::size_t k = 0; k < tokens; k += 8)
      each([gamma](auto r, auto next, auto v) { return multiply_add(gamma, next, r) - v; }, eight::load(delta + k),
           eight::load(value + k + 1), eight::load(value + k))
          .store(delta + k);
    c.value = value[0];
  }
  for (std::size_t k = tokens; k < tokens + 8; ++k) delta[k] = critic[k] = 0;
  if (two_decays) {
    std::memcpy(critic, delta, sizeof(double) * tokens);
    critic[tokens - 1] += s.critic_decay * c.critic_advantage;
    accumulate(critic, s.critic_decay);
  }
  delta[tokens - 1] += s.decay * c.advantage;
  accumulate(delta, s.decay);
  advantage.write_all(delta);
  c.advantage = delta[0];
  c.critic_advantage = two_decays ? critic[0] : delta[0];
  if constexpr (is_matrix<Returns>) {
    const double* from = two_decays ? critic : delta;
    if constexpr (is_matrix<Values>) {
      for (std::size_t k = 0; k < tokens; k += 8)
        each([](auto a, auto v) { return a + v; }, eight::load(from + k), eight::load(value + k)).store(value + k);
      from = value;
    }
    return_of.write_all(from);
  }
}

/// A block with masked slots, or at the end of a row, token by token; the live ones are those of `bits`.
template <class Rewards, class Values, class Advantages, class Returns>
void gapped_block(const backward_settings& s, const Rewards& reward, const Values& value_of,
                  const Advantages& advantage, const Returns& return_of, std::uint64_t bits, carried& c) {
  using advantage_type = std::remove_cvref_t<decltype(advantage[0])>;
  for (std::size_t k = reward.count; k-- > 0;) {
    const bool live = token_block::is_live(bits, k);
    double v = 0;
    if (live) {
      if constexpr (is_matrix<Values>) v = static_cast<double>(value_of[k]);
      const double step = static_cast<double>(reward[k]) + s.gamma * c.value - v;
      c = {v, step + s.decay * c.advantage, step + s.critic_decay * c.critic_advantage};
    } else {
      pass_gap(s, c);
    }
    advantage[k] = live ? static_cast<advantage_type>(c.advantage) : advantage_type(0);
    if constexpr (is_matrix<Returns>) {
      using return_type = std::remove_cvref_t<decltype(return_of[0])>;
      return_of[k] = live ? static_cast<return_type>(c.critic_advantage + v) : return_type(0);
    }
  }
}

/// Rewards -> advantages and returns of one row. `values` may be no_matrix (zero), `returns` may be (not wanted).
template <class Rewards, class Values, class Advantages, class Returns>
void one_row(const backward_settings& s, const Rewards& rewards, const Values& values, const token_mask& mask,
             const Advantages& advantages, const Returns& returns, extent_t row) {
  carried c;
  block_memory memory;
  const extent_t blocks = (rewards.shape[1] + static_cast<extent_t>(tokens) - 1) / static_cast<extent_t>(tokens);
  for (extent_t block = blocks; block-- > 0;) {
    const extent_t first = block * static_cast<extent_t>(tokens);
    const auto block_in = [&](const auto& m) {
      if constexpr (is_matrix<std::remove_cvref_t<decltype(m)>>)
        return token_block::block_of(m, row, first);
      else
        return m;
    };
    const auto reward = block_in(rewards);
    const auto value_of = block_in(values);
    const auto advantage = block_in(advantages);
    const auto return_of = block_in(returns);
    const std::uint64_t bits = token_block::live_bits(mask, row, first, reward.count);
    if (bits == token_block::all_live)
      whole_block(s, reward, value_of, advantage, return_of, memory, c);
    else
      gapped_block(s, reward, value_of, advantage, return_of, bits, c);
  }
}

/// All rows, each independently, so no bit depends on the executor.
template <class Executor, class Rewards, class Values, class Advantages, class Returns>
void all_rows(const Executor& exec, const backward_settings& s, const Rewards& rewards, const Values& values,
              const token_mask& mask, const Advantages& advantages, const Returns& returns) {
  detail::check_mask_shape(mask, "rewards", rewards.shape);
  detail::check_shape("advantages", advantages.shape, "rewards", rewards.shape);
  if constexpr (is_matrix<Values>) detail::check_shape("values", values.shape, "rewards", rewards.shape);
  if constexpr (is_matrix<Returns>) detail::check_shape("returns", returns.shape, "rewards", rewards.shape);
  exec.for_each(static_cast<std::size_t>(rewards.shape[0]), [&](std::size_t row) {
    one_row(s, rewards, values, mask, advantages, returns, static_cast<extent_t>(row));
  });
}

}  // namespace backward_recursion

RLCORE_ALGORITHM_END
RLCORE_END
