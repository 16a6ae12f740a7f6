// Operator arguments: RAII owners of aclTensor, aclScalar, aclIntArray and aclTensorList.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/device/npu/errors.hpp"

RLCORE_BEGIN
namespace ascend {

/// The aclDataType of T: float, bf16, f16, the integers, bool.
template <class T>
inline constexpr data_type type_of = data_type::undefined;
template <>
inline constexpr data_type type_of<float> = data_type::float32;
template <>
inline constexpr data_type type_of<double> = data_type::float64;
template <>
inline constexpr data_type type_of<bf16> = data_type::bfloat16;
template <>
inline constexpr data_type type_of<f16> = data_type::float16;
template <>
inline constexpr data_type type_of<std::int8_t> = data_type::int8;
template <>
inline constexpr data_type type_of<std::uint8_t> = data_type::uint8;
template <>
inline constexpr data_type type_of<std::int32_t> = data_type::int32;
template <>
inline constexpr data_type type_of<std::int64_t> = data_type::int64;
template <>
inline constexpr data_type type_of<bool> = data_type::boolean;

/// Up to 8 extents or strides; written {t, w} in a call.
class dimensions {
 public:
  constexpr dimensions() = default;
  /// Throws std::invalid_argument for more than 8 numbers.
  constexpr dimensions(std::initializer_list<std::int64_t> values) : dimensions(values.begin(), values.size()) {}
  constexpr dimensions(std::span<const std::int64_t> values) : dimensions(values.data(), values.size()) {}

  constexpr const std::int64_t* data() const noexcept { return values_.data(); }
  constexpr std::size_t size() const noexcept { return size_; }
  /// Number i; i must be below size().
  constexpr std::int64_t operator[](std::size_t i) const noexcept { return values_[i]; }
  constexpr std::int64_t& operator[](std::size_t i) noexcept { return values_[i]; }
  /// Product of all; 1 for rank 0.
  constexpr std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < size_; ++i) n *= values_[i];
    return n;
  }
  /// Strides of a row-major tensor of this shape.
  constexpr dimensions row_major() const noexcept {
    dimensions strides = *this;
    std::int64_t step = 1;
    for (std::size_t i = size_; i-- > 0; step *= std::max<std::int64_t>(values_[i], 1)) strides[i] = step;
    return strides;
  }
  std::string written() const {
    std::string out = "[";
    for (std::size_t i = 0; i < size_; ++i) out += (i == 0 ? "" : ",") + std::to_string(values_[i]);
    return out + "]";
  }

 private:
  constexpr dimensions(const std::int64_t* values, std::size_t n) : size_(n) {
    if (n > values_.size()) throw std::invalid_argument("rlcore: a tensor of more than 8 dimensions");
    for (std::size_t i = 0; i < n; ++i) values_[i] = values[i];
  }
  std::array<std::int64_t, 8> values_{};
  std::size_t size_ = 0;
};

/// Owns an object of libnnopbase, destroyed by the member `Destroy` of meta_calls; converts to the pointer that
/// operators take. The session of `calls` must outlive it: it lives as long as the call of an operator.
template <class Object, aclnnStatus (*meta_calls::*Destroy)(const Object*)>
class argument {
 public:
  /// Owns the object that the function `maker` returned. Throws npu_error 561103 if it is null.
  argument(const calls& table, Object* object, const char* maker) : table_(&table), object_(object) {
    if (object_ == nullptr)
      throw npu_error(failure_text(table, domain::operators, 561103, maker), domain::operators, 561103, maker);
  }
  argument(argument&& other) noexcept : table_(other.table_), object_(std::exchange(other.object_, nullptr)) {}
  argument& operator=(argument&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~argument() {
    if (object_ != nullptr) ignore(*table_, (table_->nn.*Destroy)(object_));
  }
  operator Object*() const noexcept { return object_; }
  /// Releases ownership of the object.
  Object* take() noexcept { return std::exchange(object_, nullptr); }

 private:
  const calls* table_;
  Object* object_;
};

using ints_argument = argument<aclIntArray, &meta_calls::aclDestroyIntArray>;      ///< of aclCreateIntArray
using scalar_argument = argument<aclScalar, &meta_calls::aclDestroyScalar>;        ///< of aclCreateScalar
using list_argument = argument<aclTensorList, &meta_calls::aclDestroyTensorList>;  ///< of aclCreateTensorList

/// A tensor in device memory: its first element is data + offset, strides count elements. Ascend requires the storage
/// to start at a multiple of 32 bytes, so the description starts at the preceding multiple, and the offset compensates.
class tensor_argument : public argument<aclTensor, &meta_calls::aclDestroyTensor> {
 public:
  /// Without strides the tensor is row-major. Throws std::invalid_argument if the numbers of extents and strides differ
  /// or the address is no multiple of an element, and npu_error if aclCreateTensor fails.
  template <class T>
  tensor_argument(const calls& table, const T* data, const dimensions& shape, const dimensions& strides = {},
                  std::int64_t offset = 0)
      : tensor_argument(table, data, type_of<T>, sizeof(T), shape, strides, offset) {
    static_assert(type_of<T> != data_type::undefined, "rlcore: no aclDataType for elements of this type");
  }
  data_type type() const noexcept { return type_; }
  const dimensions& shape() const noexcept { return shape_; }
  /// The extent of the contiguous dimension: the last, or the first of a transposed matrix.
  std::int64_t innermost() const noexcept { return shape_[transposed_ ? shape_.size() - 2 : shape_.size() - 1]; }

 private:
  tensor_argument(const calls& table, const void* data, data_type type, std::size_t element, const dimensions& shape,
                  const dimensions& strides, std::int64_t offset)
      : argument(table, make(table, data, type, element, shape, strides, offset), "aclCreateTensor"),
        type_(type),
        shape_(shape),
        transposed_(shape.size() >= 2 && strides.size() == shape.size() && strides[shape.size() - 1] != 1 &&
                    strides[shape.size() - 2] == 1) {}
  static aclTensor* make(const calls& table, const void* data, data_type type, std::size_t element,
                         const dimensions& shape, dimensions strides, std::int64_t offset);

  data_type type_;
  dimensions shape_;
  bool transposed_;
};

/// A number: floating types become float32, integers int64, bool boolean.
template <class T>
  requires std::integral<T> || std::floating_point<T>
scalar_argument make_scalar(const calls& table, T value) {
  using stored =
      std::conditional_t<std::same_as<T, bool>, bool, std::conditional_t<std::floating_point<T>, float, std::int64_t>>;
  stored copy = static_cast<stored>(value);
  return {table, table.nn.aclCreateScalar(&copy, type_of<stored>), "aclCreateScalar"};
}
/// Numbers by aclCreateIntArray; throws npu_error if that fails.
inline ints_argument make_ints(const calls& table, std::span<const std::int64_t> values) {
  return {table, table.nn.aclCreateIntArray(values.data(), values.size()), "aclCreateIntArray"};
}
/// Creates a list that takes ownership of the tensors.
list_argument make_list(const calls& table, std::span<tensor_argument> tensors);

/// How an argument is written in an error message.
inline std::string argument_text(const tensor_argument& t) {
  return std::string(name_of(t.type())) + t.shape().written();
}
inline std::string argument_text(const scalar_argument&) { return "scalar"; }
inline std::string argument_text(const ints_argument&) { return "ints"; }
inline std::string argument_text(const list_argument&) { return "list"; }
inline std::string argument_text(std::nullptr_t) { return "none"; }
template <class T>
std::string argument_text(const T* object) {
  return object == nullptr ? "none" : "given";
}
inline std::string argument_text(const char* characters) { return "'" + std::string(characters) + "'"; }
inline std::string argument_text(bool value) { return value ? "true" : "false"; }
inline std::string argument_text(data_type t) { return std::string(name_of(t)); }
inline std::string argument_text(cube_math m) { return std::to_string(static_cast<int>(m)); }
template <class T>
  requires std::integral<T> || std::floating_point<T>
std::string argument_text(T value) {
  return std::to_string(value);
}

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE aclTensor* tensor_argument::make(const calls& table, const void* data, data_type type,
                                               std::size_t element, const dimensions& shape, dimensions strides,
                                               std::int64_t offset) {
  if (strides.size() == 0) strides = shape.row_major();
  if (strides.size() != shape.size())
    throw std::invalid_argument("rlcore: a tensor of shape " + shape.written() + " with strides " + strides.written());
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t before = address % 32;
  if (before % element != 0)
    throw std::invalid_argument("rlcore: a tensor of " + std::string(name_of(type)) + " at an address that is no " +
                                "multiple of " + std::to_string(element));
  offset += static_cast<std::int64_t>(before / element);
  std::int64_t storage = shape.elements() == 0 ? 0 : offset + 1;
  for (std::size_t i = 0; storage > 0 && i < shape.size(); ++i) storage += (shape[i] - 1) * strides[i];
  return table.nn.aclCreateTensor(shape.data(), shape.size(), type, strides.data(), offset, format::nd, &storage, 1,
                                  reinterpret_cast<void*>(address - before));
}

RLCORE_INLINE list_argument make_list(const calls& table, std::span<tensor_argument> tensors) {
  std::vector<const aclTensor*> pointers;
  pointers.reserve(tensors.size());
  for (tensor_argument& t : tensors) pointers.push_back(t);
  list_argument list(table, table.nn.aclCreateTensorList(pointers.data(), pointers.size()), "aclCreateTensorList");
  for (tensor_argument& t : tensors) (void)t.take();
  return list;
}

}  // namespace ascend
RLCORE_END
#endif
