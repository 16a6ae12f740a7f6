// Serializes values to bytes for transfer between ranks of the same build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// Appends values that may be copied as bytes, and texts, lists and optional values of such.
class byte_writer {
 public:
  std::vector<std::byte> bytes;

  /// Appends the bytes of x.
  template <class T>
  void operator()(const T& x) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&x, sizeof x);
  }
  /// Appends the number of elements in 32 bits, then their bytes.
  template <class T>
  void operator()(const std::vector<T>& x) {
    (*this)(static_cast<std::uint32_t>(x.size()));
    append(x.data(), x.size() * sizeof(T));
  }
  /// Appends the number of characters in 32 bits, then the characters.
  void operator()(const std::string& x) {
    (*this)(static_cast<std::uint32_t>(x.size()));
    append(x.data(), x.size());
  }
  /// Appends one byte that says whether there is a value, then the value.
  template <class T>
  void operator()(const std::optional<T>& x) {
    (*this)(static_cast<unsigned char>(x.has_value()));
    if (x) (*this)(*x);
  }

 private:
  void append(const void* from, std::size_t n) {
    if (n == 0) return;
    const std::size_t at = bytes.size();
    bytes.resize(at + n);
    std::memcpy(bytes.data() + at, from, n);
  }
};

/// Takes them out again in the same order. Throws std::logic_error where the bytes end too early.
class byte_reader {
 public:
  /// The bytes must outlive this object.
  explicit byte_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool done() const noexcept { return bytes_.empty(); }

  /// Takes as many bytes as a T has.
  template <class T>
  void operator()(T& x) {
    static_assert(std::is_trivially_copyable_v<T>);
    take(&x, sizeof x);
  }
  /// Takes the number of elements, then their bytes.
  template <class T>
  void operator()(std::vector<T>& x) {
    x.resize(size());
    take(x.data(), x.size() * sizeof(T));
  }
  /// Takes the number of characters, then the characters.
  void operator()(std::string& x) {
    x.resize(size());
    take(x.data(), x.size());
  }
  /// Takes the byte that says whether there is a value, then the value.
  template <class T>
  void operator()(std::optional<T>& x) {
    unsigned char there = 0;
    (*this)(there);
    if (there == 0) return x.reset();
    (*this)(x.emplace());
  }

 private:
  std::size_t size() {
    std::uint32_t n = 0;
    (*this)(n);
    return n;
  }
  void take(void* to, std::size_t n) {
    if (n > bytes_.size()) throw std::logic_error("rlcore: bytes of another build arrived");
    if (n > 0) std::memcpy(to, bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
  }

  std::span<const std::byte> bytes_;
};

}  // namespace train
RLCORE_END
