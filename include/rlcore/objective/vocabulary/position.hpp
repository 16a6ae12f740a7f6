// One position as a logits piece sees it (vectors over the vocabulary, read a pack at a time, and the gradient), and
// the alignment of labels and logits: the shift by one position is made only here.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/simd/math.hpp"
#include "rlcore/simd/pack.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A list of integers of 32 or 64 bits: the support of one position.
struct entry_list {
  const void* data = nullptr;
  extent_t size = 0, stride = 1;
  bool wide = false;
  /// The i-th entry; i is not checked.
  std::int64_t operator[](extent_t i) const noexcept {
    return wide ? static_cast<const std::int64_t*>(data)[i * stride]
                : static_cast<const std::int32_t*>(data)[i * stride];
  }
};

/// A strided list of values of one position.
template <class T>
struct value_list {
  const T* data = nullptr;
  extent_t size = 0, stride = 1;
  /// The i-th value; i is not checked.
  T operator[](extent_t i) const noexcept { return data[i * stride]; }
};

/// The lanes from element j on; lanes past the end are `pad`.
template <class T>
RLCORE_NOINLINE pack<T> load_some(const T* from, extent_t stride, extent_t count, T pad) noexcept {
  pack<T> p(pad);
  const extent_t lanes = detail::least<extent_t>(count, pack<T>::lanes);
  for (extent_t k = 0; k < lanes; ++k) p.v[k] = from[k * stride];
  return p;
}

/// Logits of one position, after the soft cap s tanh(x / s) (0: none) and divided by the temperature. A logit of -inf
/// means that the entry does not exist; it stays -inf.
template <class T>
struct logits_source {
  const T* data = nullptr;
  extent_t size = 0, stride = 1;
  T temperature = 1, softcap = 0;
  static constexpr extent_t lanes = pack<T>::lanes;

  /// Entries j, j + 1, ...; -inf beyond the vocabulary.
  RLCORE_FN pack<T> load(extent_t j) const noexcept {
    const pack<T> x = raw(j);
    return temperature == T(1) && softcap == T(0) ? x : scaled(x);
  }
  /// Entries j, j + 1, ... before soft cap and temperature; -inf beyond the vocabulary.
  RLCORE_FN pack<T> raw(extent_t j) const noexcept {
    return stride == 1 && j + lanes <= size
               ? rlcore::load(data + j)
               : load_some(data + j * stride, stride, size - j, -std::numeric_limits<T>::infinity());
  }
  /// One entry, with the bits it has in a pack; NaN for one that is none (of a label that the piece does not list).
  double operator[](extent_t j) const noexcept {
    if (j < 0 || j >= size) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(load(j).v[0]);
  }
  /// d z / d logit, up to the temperature: 1 - tanh^2.
  RLCORE_FN pack<T> cap_slope(extent_t j) const noexcept {
    const pack<T> t = tanh(raw(j) / pack<T>(softcap));
    return T(1) - t * t;
  }
  /// The same for the single entry j, in double.
  double cap_slope_at(extent_t j) const noexcept {
    const double t = elementary::tanh(static_cast<double>(data[j * stride]) / static_cast<double>(softcap));
    return 1 - t * t;
  }

 private:
  RLCORE_FN static pack<T> tanh(pack<T> x) noexcept {
    const pack<T> e = fast_math::expm1(fast_math::clamp(T(2) * x, pack<T>(T(-40)), pack<T>(T(40))));
    return e / (e + T(2));
  }
  RLCORE_FN pack<T> scaled(pack<T> x) const noexcept {
    if (softcap != T(0))
      x = fast_math::select(x == -std::numeric_limits<T>::infinity(), x, pack<T>(softcap) * tanh(x / pack<T>(softcap)));
    return x / pack<T>(temperature);
  }
};

/// log sum_j e^(z_j) = max + log_sum, the maximum taken out; sums are in double and in one fixed order. NaN if a logit
/// is NaN or +inf, or if all are -inf.
template <class T>
struct normalizer {
  T max = 0;
  double log_sum = 0;
  double value() const noexcept { return static_cast<double>(max) + log_sum; }
  /// log p of entries with these logits.
  RLCORE_FN pack<T> logp(pack<T> z) const noexcept { return (z - pack<T>(max)) - pack<T>(static_cast<T>(log_sum)); }
  /// log p of an entry with this logit, in double.
  double logp(double z) const noexcept { return (z - static_cast<double>(max)) - log_sum; }
};

/// The largest logit of the position; -inf if it has no entry.
template <class T>
T largest(const logits_source<T>& z) noexcept {
  pack<T> most(-std::numeric_limits<T>::infinity());
  for (extent_t j = 0; j < z.size; j += z.lanes) most = fast_math::max(most, z.load(j));
  T m = most.v[0];
  for (std::size_t k = 1; k < pack<T>::lanes; ++k) m = most.v[k] > m ? most.v[k] : m;
  return m;
}

/// The normalizer of the position's logits: one pass for the maximum, one for the sum.
template <class T>
normalizer<T> normalize(const logits_source<T>& z) noexcept {
  const T m = largest(z);
  wide_sum<T> sum;
  for (extent_t j = 0; j < z.size; j += z.lanes) sum.add(fast_math::exp(z.load(j) - pack<T>(m)));
  return {m, elementary::log(sum.total())};
}

/// Output of a piece: its gradient by the logits. `write` every pack of the vocabulary once, then `add_at` single
/// entries. Knows the factor of the position, the temperature and the soft cap; a piece writes d value / d z.
template <class T>
struct logits_gradient {
  T* data = nullptr;
  extent_t size = 0, stride = 1;
  T scale = 1;
  bool add = false;
  const logits_source<T>* capped = nullptr;  // logits whose soft cap has a slope
  static constexpr extent_t lanes = pack<T>::lanes;

  bool wanted() const noexcept { return data != nullptr; }
  /// Writes the slopes of entries j, j + 1, ..., or accumulates them; entries beyond the vocabulary are left out.
  RLCORE_FN void write(extent_t j, pack<T> slope) const noexcept {
    pack<T> g = slope * pack<T>(scale);
    if (capped) g = g * capped->cap_slope(j);
    if (stride == 1 && j + lanes <= size)
      store(data + j, add ? rlcore::load(data + j) + g : g);
    else
      write_some(j, g);
  }
  /// Adds to the gradient of entry j; nothing for a j that is none.
  void add_at(extent_t j, double slope) const noexcept {
    if (j < 0 || j >= size) return;  // no entry: the value is NaN already
    if (capped) slope *= capped->cap_slope_at(j);
    data[j * stride] += static_cast<T>(static_cast<double>(scale) * slope);
  }
  /// Writes the same slope to all entries, as write does.
  void fill(T value) const noexcept {
    for (extent_t j = 0; j < size; j += lanes) write(j, pack<T>(value));
  }

 private:
  RLCORE_NOINLINE void write_some(extent_t j, pack<T> g) const noexcept {
    for (extent_t k = 0; k < lanes && j + k < size; ++k) {
      T& to = data[(j + k) * stride];
      to = add ? to + g.v[k] : g.v[k];
    }
  }
};

/// All inputs of a piece; members that its `reads` does not name hold NaN, or an entry that does not exist.
template <class T>
struct logits_position {
  logits_source<T> logits, teacher;
  std::int64_t label = 0;
  entry_list support;
  value_list<T> support_logp, target;
  T weight = 1;
  std::span<std::byte> scratch;  // of the piece's scratch_bytes(), if it needs any
};

/// The label of a token belongs to the logits at its own position: heads that classify the tokens read so far (token
/// classification, process rewards).
struct at_position {};
/// The label of a token belongs to the logits one position earlier in the same sequence: language modelling. The first
/// token of a sequence is predicted by nothing and cannot be labelled.
struct predicts_next {};

/// Positions that have a label, sequence by sequence: what logits_batch takes as positions, labels and offsets.
/// Positions without a label are not listed; -100 is not used.
struct labelled_positions {
  std::vector<std::int64_t> positions, labels;
  std::vector<std::int64_t> offsets{0};

  std::size_t size() const noexcept { return positions.size(); }
  std::size_t rows() const noexcept { return offsets.size() - 1; }
};

namespace detail {
inline std::int64_t logits_of(at_position, std::int64_t token, std::int64_t) noexcept { return token; }
inline std::int64_t logits_of(predicts_next, std::int64_t token, std::int64_t first) noexcept {
  return token == first ? -1 : token - 1;
}
template <class Offsets>
void check_packed(const Offsets& offsets, std::size_t tokens, const char* caller) {
  if (offsets.empty() || offsets.front() != 0 || static_cast<std::size_t>(offsets.back()) != tokens)
    throw std::invalid_argument(
        std::string("rlcore: ") + caller + ": " + std::to_string(tokens) + " tokens, but the offsets " +
        (offsets.empty() ? std::string("are empty")
                         : "run from " + std::to_string(offsets.front()) + " to " + std::to_string(offsets.back())));
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      throw std::invalid_argument(std::string("rlcore: ") + caller + ": offsets[" + std::to_string(i) +
                                  "] = " + std::to_string(offsets[i]) + " follows " + std::to_string(offsets[i - 1]));
}
}  // namespace detail

/// The tokens of packed rows as labels: token t of a row with mask[t] non-zero labels the logits that `alignment` says.
/// The mask is about tokens (this token is learned), never about logits, and no label crosses from one row into the
/// next. With predicts_next a row's first token is left out whatever its mask. Throws std::invalid_argument if sizes do
/// not fit.
template <class Alignment, class Token, class Offset, class Mask>
labelled_positions label_tokens(Alignment alignment, std::span<const Token> tokens, std::span<const Offset> offsets,
                                std::span<const Mask> mask) {
  detail::check_packed(offsets, tokens.size(), "label_tokens");
  if (mask.size() != tokens.size())
    throw std::invalid_argument("rlcore: label_tokens: the mask is [" + std::to_string(mask.size()) +
                                "], the tokens are [" + std::to_string(tokens.size()) + "]");
  labelled_positions out;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto first = static_cast<std::int64_t>(offsets[i]), last = static_cast<std::int64_t>(offsets[i + 1]);
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t at = detail::logits_of(alignment, t, first);
      if (at < 0 || mask[static_cast<std::size_t>(t)] == Mask(0)) continue;
      out.positions.push_back(at);
      out.labels.push_back(static_cast<std::int64_t>(tokens[static_cast<std::size_t>(t)]));
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.positions.size()));
  }
  return out;
}

RLCORE_ALGORITHM_END
RLCORE_END
