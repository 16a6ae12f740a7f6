// Operator execution (second phase): the interface of a kernel on the stream's thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/numerics/elements.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"
#include "rlcore/emulator/tensor.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Memory for the intermediate values of kernels. Each stream's thread has one; it grows to the size of the largest
/// kernel.
class kernel_memory {
 public:
  /// Uninitialised, aligned to 64, valid until reset().
  void* take(std::size_t bytes);
  void reset() {
    if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);  // the largest is the last
    used_ = 0;
  }

 private:
  struct aligned_delete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::vector<std::pair<std::unique_ptr<std::byte, aligned_delete>, std::size_t>> blocks_;
  std::size_t used_ = 0;
};

/// One run of an executor. Real is float, or double in the reference mode, or std::int64_t for integer tensors.
class execution {
 public:
  /// `addresses` are those of the tensors' slots, `room` is the workspace; `serial` is the number of the run in the
  /// process.
  execution(const settings& config, overflow_mode mode, std::span<void* const> addresses, std::span<std::byte> room,
            std::uint64_t serial)
      : machine(config),
        overflow(mode),
        workspace(room),
        addresses_(addresses),
        random_(config.seed ^ mix(serial + 1)) {}
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;
  ~execution() { memory().reset(); }

  const settings& machine;
  const overflow_mode overflow;
  const std::span<std::byte> workspace;

  /// The view's exact values in row-major order; without a copy if they are contiguous.
  template <class Real = float>
  RLCORE_NOINLINE std::span<const Real> read(const tensor& t) {
    const auto n = static_cast<std::size_t>(t.size());
    if (n == 0) return {};
    const std::byte* base = storage(t, access::read);
    if (stores<Real>(t)) {
      const auto* p = reinterpret_cast<const Real*>(base) + t.offset;
      reads_.emplace_back(reinterpret_cast<const std::byte*>(p), n * sizeof(Real));
      return {p, n};
    }
    Real* values = take<Real>(n);
    gather_elements(t, base, values);
    return {values, n};
  }
  /// Memory for an output's values, for store(); the output itself if possible. `elementwise`: the kernel writes value
  /// i after it has read value i of all inputs, so that an output may be an input.
  template <class Real = float>
  RLCORE_NOINLINE std::span<Real> result(const tensor& t, bool elementwise = false) {
    const auto n = static_cast<std::size_t>(t.size());
    if (n == 0) return {};
    if (stores<Real>(t)) {
      auto* p = reinterpret_cast<Real*>(storage(t, access::write)) + t.offset;
      if (elementwise || !overlaps(reinterpret_cast<const std::byte*>(p), n * sizeof(Real))) return {p, n};
    }
    return {take<Real>(n), n};
  }
  /// Stores values in row-major order in the view, with one rounding.
  template <class Real>
  RLCORE_NOINLINE void store(const tensor& t, std::span<Real> values, rounding mode = rounding::nearest_even) {
    using plain = std::remove_const_t<Real>;
    if (t.size() == 0) return;
    std::byte* base = storage(t, access::write);
    if (stores<plain>(t) && reinterpret_cast<const plain*>(base) + t.offset == values.data()) return;
    scatter_elements<plain>(t, base, values.data(), mode, overflow);
  }
  /// Copies bits between views of one type and size. Views may overlap.
  void move(const tensor& from, const tensor& to);
  /// Uninitialised memory until the end of the run.
  template <class Real>
  Real* take(std::size_t n) {
    return static_cast<Real*>(memory().take(n * sizeof(Real)));
  }
  /// The host address of element 0 of the storage. Only elements that the view reaches may be accessed. Throws
  /// 507015.
  std::byte* storage(const tensor& t, access mode);
  /// The device address of the tensor's storage: that of its slot in the executor, or its own.
  void* address_of(const tensor& t) const {
    return t.slot >= 0 ? addresses_[static_cast<std::size_t>(t.slot)] : t.data;
  }

  /// A copy of the view's values in row-major order.
  std::vector<float> load(const tensor& t) {
    const auto values = read<float>(t);
    return {values.begin(), values.end()};
  }
  /// Stores values in row-major order in the view, with one rounding.
  void store(const tensor& t, const std::vector<float>& values, rounding mode = rounding::nearest_even) {
    store(t, std::span<const float>(values), mode);
  }
  /// A copy of the integers of the view in row-major order.
  std::vector<std::int64_t> load_integers(const tensor& t) {
    const auto values = read<std::int64_t>(t);
    return {values.begin(), values.end()};
  }
  /// Stores integers in row-major order in the view.
  void store_integers(const tensor& t, std::span<const std::int64_t> values) { store(t, values); }

  /// e^x of the vector unit: exact in reference mode, else off by up to settings::exp_ulp units in the last place. The
  /// error is a function of x and the seed.
  float exp(float x) const { return machine.exp_ulp > 0 ? perturbed(std::exp(x), x) : std::exp(x); }
  double exp(double x) const { return std::exp(x); }
  /// The natural logarithm, likewise.
  float log(float x) const { return machine.exp_ulp > 0 ? perturbed(std::log(x), x) : std::log(x); }
  double log(double x) const { return std::log(x); }

  /// 64 random bits, a function of the machine's seed and the number of operators run before.
  std::uint64_t random() { return random_ = mix(random_); }
  /// 0..n-1 in the order of the atomic additions.
  std::span<const std::uint32_t> arrival_order(std::size_t n);
  /// Shuffles the numbers (Fisher and Yates).
  void shuffle(std::span<std::uint32_t> order) {
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random() % i)]);
  }

 private:
  static kernel_memory& memory() {
    thread_local kernel_memory of_this_thread;
    return of_this_thread;
  }
  /// splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  template <class Word>
  void move_words(const tensor& from, const tensor& to) {
    const auto n = static_cast<std::size_t>(to.size());
    if (n == 0) return;
    const std::byte* source = storage(from, access::read);
    std::byte* target = storage(to, access::write);
    if (from.contiguous() && to.contiguous()) {
      std::memmove(target + to.offset * std::int64_t{sizeof(Word)}, source + from.offset * std::int64_t{sizeof(Word)},
                   n * sizeof(Word));
      return;
    }
    Word* words = take<Word>(n);
    gather_as<Word>(from, source, words);
    scatter_as<Word>(to, target, words, rounding::nearest_even, overflow);
  }
  template <class Real>
  static bool stores(const tensor& t) {
    constexpr data_type stored_type = std::is_same_v<Real, float>    ? data_type::float32
                                      : std::is_same_v<Real, double> ? data_type::float64
                                                                     : data_type::int64;
    return t.type == stored_type && t.contiguous();
  }
  bool overlaps(const std::byte* p, std::size_t bytes) const {
    return std::any_of(reads_.begin(), reads_.end(),
                       [&](const auto& r) { return p < r.first + r.second && r.first < p + bytes; });
  }
  float perturbed(float y, float x) const;

  std::span<void* const> addresses_;
  std::vector<std::pair<const std::byte*, std::size_t>> reads_;
  std::uint64_t random_;
};

/// A planned operator. It runs on the stream's thread.
using kernel = std::function<void(execution&)>;

/// A kernel whose body takes the working type as second argument: double in the reference mode, else float.
template <class Body>
kernel in_working_precision(const settings& machine, Body body) {
  if (machine.reference) return [body = std::move(body)](execution& e) { body(e, double{}); };
  return [body = std::move(body)](execution& e) { body(e, float{}); };
}

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE void* kernel_memory::take(std::size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (blocks_.empty() || used_ + bytes > blocks_.back().second) {
    const std::size_t size = std::max({bytes, std::size_t{1} << 16, blocks_.empty() ? 0 : 2 * blocks_.back().second});
    blocks_.emplace_back(static_cast<std::byte*>(::operator new[](size, std::align_val_t{64})), size);
    used_ = 0;
  }
  void* p = blocks_.back().first.get() + used_;
  used_ += bytes;
  return p;
}

RLCORE_INLINE void execution::move(const tensor& from, const tensor& to) {
  switch (bytes_of(from.type)) {
    case 1:
      return move_words<std::uint8_t>(from, to);
    case 2:
      return move_words<std::uint16_t>(from, to);
    case 4:
      return move_words<std::uint32_t>(from, to);
    default:
      return move_words<std::uint64_t>(from, to);
  }
}

RLCORE_INLINE std::byte* execution::storage(const tensor& t, access mode) {
  const auto [first, last] = t.reach();
  const auto size = static_cast<std::int64_t>(bytes_of(t.type));
  const auto address = reinterpret_cast<std::uintptr_t>(address_of(t));  // the caller may pass any address, also null
  auto* begin = reinterpret_cast<std::byte*>(address + static_cast<std::uintptr_t>(first * size));
  return shadow(begin, static_cast<std::size_t>((last - first + 1) * size), mode) - first * size;
}

RLCORE_INLINE std::span<const std::uint32_t> execution::arrival_order(std::size_t n) {
  auto* order = take<std::uint32_t>(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
  shuffle({order, n});
  return {order, n};
}

RLCORE_INLINE float execution::perturbed(float y, float x) const {
  if (!(std::abs(y) > 1e-37f) || std::isinf(y) || x == 0.0f || x == 1.0f) return y;
  const auto range = static_cast<std::uint64_t>(2 * machine.exp_ulp + 1);
  const auto shift = static_cast<std::int32_t>(mix(std::bit_cast<std::uint32_t>(x) ^ mix(machine.seed)) % range);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + static_cast<std::uint32_t>(shift - machine.exp_ulp));
}

}  // namespace ascend::emulated
RLCORE_END
#endif
