// Arguments of an operator, and the registry of live objects (tensors, scalars, lists), which detects double destroys,
// uses after destroy and, at aclFinalize, leaks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/tensor.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// All live objects of the process. A destroyed object keeps its memory until 1024 later ones are destroyed, so that no
/// new object gets the address of a stale pointer.
class object_registry {
 public:
  /// Registers a new object.
  void add(const void* object, host_object kind) {
    const std::lock_guard lock(guard_);
    kinds_.emplace(object, kind);
    born(kind);
  }
  /// Whether `object` is a live object of this kind.
  bool alive(const void* object, host_object kind) const {
    const std::lock_guard lock(guard_);
    const auto found = kinds_.find(object);
    return found != kinds_.end() && found->second == kind;
  }
  /// False if `object` is not a live `T` of this kind.
  template <class T>
  bool destroy(const T* object, host_object kind) {
    std::pair<void*, void (*)(void*)> oldest{nullptr, nullptr};
    {
      const std::lock_guard lock(guard_);
      const auto found = kinds_.find(object);
      if (found == kinds_.end() || found->second != kind) return false;
      kinds_.erase(found);
      died(kind);
      dead_.emplace_back(const_cast<T*>(object), [](void* p) { delete static_cast<T*>(p); });
      if (dead_.size() > quarantine) {
        oldest = dead_.front();
        dead_.pop_front();
      }
    }
    if (oldest.first) oldest.second(oldest.first);
    return true;
  }

 private:
  static constexpr std::size_t quarantine = 1024;
  mutable std::mutex guard_;
  std::unordered_map<const void*, host_object> kinds_;
  std::deque<std::pair<void*, void (*)(void*)>> dead_;
};

/// Never destroyed, since destructors at exit may still use it.
inline object_registry& objects() {
  static object_registry& registry = *new object_registry;
  return registry;
}

}  // namespace ascend::emulated

namespace ascend {

/// A tensor: a copy of its description, and the address of its storage.
struct aclTensor {
  emulated::tensor view;
  bool owned = false;  // by a list
};
/// A number: its type and its bytes.
struct aclScalar {
  data_type type = data_type::undefined;
  std::array<std::byte, 8> bytes{};
};
/// A list of integers.
struct aclIntArray {
  std::vector<std::int64_t> values;
};
/// A list of tensors, which it owns; entries may be null.
struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

namespace emulated {

inline constexpr aclnnStatus null_pointer = 161001, invalid_parameter = 161002, tiling_failed = 561002,
                             no_kernel = 561003, null_inside = 561103;

namespace meta {

/// A tensor from its description; row-major without strides. Null for a rank above 16 or a negative extent.
aclTensor* aclCreateTensor(const std::int64_t* shape, std::uint64_t rank, data_type type, const std::int64_t* strides,
                           std::int64_t offset, format, const std::int64_t* storage_shape, std::uint64_t storage_rank,
                           void* data);

/// Destroys an object; null is allowed. Returns 161002 if it is not a living object of the kind.
template <class T>
aclnnStatus destroy(const T* object, host_object kind, const char* name) {
  if (!object || objects().destroy(object, kind)) return 0;
  return fail(invalid_parameter, std::string(name) + ": not a living object of this kind (destroyed twice?)");
}

/// Destroys a tensor, unless a list owns it; null is allowed.
inline aclnnStatus aclDestroyTensor(const aclTensor* object) {
  if (object && objects().alive(object, host_object::tensor) && object->owned)
    return fail(invalid_parameter, "aclDestroyTensor: a list owns this tensor and destroys it");
  return destroy(object, host_object::tensor, "aclDestroyTensor");
}

/// A number of any known type, copied; null for an unknown type.
aclScalar* aclCreateScalar(void* value, data_type type);
/// Destroys a number; null is allowed.
inline aclnnStatus aclDestroyScalar(const aclScalar* object) {
  return destroy(object, host_object::scalar, "aclDestroyScalar");
}

/// A copy of integers.
aclIntArray* aclCreateIntArray(const std::int64_t* values, std::uint64_t size);
/// Destroys a list of integers; null is allowed.
inline aclnnStatus aclDestroyIntArray(const aclIntArray* object) {
  return destroy(object, host_object::array, "aclDestroyIntArray");
}

/// Creates a list, which takes ownership of its tensors; entries may be null.
aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, std::uint64_t size);
/// Destroys a list together with its tensors; null is allowed.
aclnnStatus aclDestroyTensorList(const aclTensorList* object);

/// Changes the address of a tensor; planned executors keep the old one.
aclnnStatus aclSetRawTensorAddr(aclTensor* object, void* data);
/// *data = the address of a tensor's storage.
aclnnStatus aclGetRawTensorAddr(const aclTensor* object, void** data);

/// Has nothing to do here; returns 0.
inline aclnnStatus aclnnInit(const char*) { return 0; }
/// Has nothing to do here; returns 0.
inline aclnnStatus aclnnFinalize() { return 0; }

}  // namespace meta

/// The value of a scalar, exactly.
template <class T>
T scalar_value(const aclScalar& s) {
  const auto as = [&]<class Stored>(Stored stored) {
    std::memcpy(&stored, s.bytes.data(), sizeof stored);
    if constexpr (requires { static_cast<T>(stored); })
      return static_cast<T>(stored);
    else
      return static_cast<T>(static_cast<float>(stored));
  };
  switch (s.type) {
    case data_type::float32:
      return as(float{});
    case data_type::float64:
      return as(double{});
    case data_type::float16:
      return static_cast<T>(as(f16{}));
    case data_type::bfloat16:
      return static_cast<T>(as(bf16{}));
    case data_type::int8:
      return as(std::int8_t{});
    case data_type::int16:
      return as(std::int16_t{});
    case data_type::int32:
      return as(std::int32_t{});
    case data_type::int64:
      return as(std::int64_t{});
    case data_type::uint8:
      return as(std::uint8_t{});
    case data_type::uint16:
      return as(std::uint16_t{});
    case data_type::uint32:
      return as(std::uint32_t{});
    case data_type::uint64:
      return as(std::uint64_t{});
    default:
      return static_cast<T>(static_cast<unsigned char>(s.bytes[0]) != 0);
  }
}

}  // namespace emulated

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::meta {

RLCORE_INLINE aclTensor* aclCreateTensor(const std::int64_t* shape, std::uint64_t rank, data_type type,
                                         const std::int64_t* strides, std::int64_t offset, format,
                                         const std::int64_t* storage_shape, std::uint64_t storage_rank, void* data) {
  if (rank > 0 && !shape) return fail(null_pointer, "aclCreateTensor: null shape of rank > 0"), nullptr;
  if (rank > extents::most) return fail(invalid_parameter, "aclCreateTensor: too many dimensions"), nullptr;
  auto made = std::make_unique<aclTensor>();
  tensor& view = made->view;
  view.type = type;
  if (rank > 0) view.shape.assign(shape, shape + rank);
  for (const auto d : view.shape)
    if (d < 0) return fail(invalid_parameter, "aclCreateTensor: negative extent in " + printed(view.shape)), nullptr;
  if (strides && rank > 0)
    view.strides.assign(strides, strides + rank);
  else
    view.strides = row_major(view.shape);
  view.offset = offset;
  if (storage_shape) {
    view.storage = 1;
    for (std::uint64_t i = 0; i < storage_rank; ++i) view.storage *= storage_shape[i];
  }
  view.data = data;
  objects().add(made.get(), host_object::tensor);
  return made.release();
}

RLCORE_INLINE aclScalar* aclCreateScalar(void* value, data_type type) {
  if (!value) return fail(null_pointer, "aclCreateScalar: null value"), nullptr;
  if (bytes_of(type) == 0) return fail(invalid_parameter, "aclCreateScalar: unknown type"), nullptr;
  auto made = std::make_unique<aclScalar>();
  made->type = type;
  std::memcpy(made->bytes.data(), value, bytes_of(type));
  objects().add(made.get(), host_object::scalar);
  return made.release();
}

RLCORE_INLINE aclIntArray* aclCreateIntArray(const std::int64_t* values, std::uint64_t size) {
  if (!values && size > 0) return fail(null_pointer, "aclCreateIntArray: null values"), nullptr;
  auto made = std::make_unique<aclIntArray>();
  if (size > 0) made->values.assign(values, values + size);
  objects().add(made.get(), host_object::array);
  return made.release();
}

RLCORE_INLINE aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, std::uint64_t size) {
  if (!tensors && size > 0) return fail(null_pointer, "aclCreateTensorList: null tensors"), nullptr;
  for (std::uint64_t i = 0; i < size; ++i)
    if (tensors[i] && (!objects().alive(tensors[i], host_object::tensor) || tensors[i]->owned))
      return fail(invalid_parameter,
                  "aclCreateTensorList: entry " + std::to_string(i) + " is destroyed or belongs to a list"),
             nullptr;
  auto made = std::make_unique<aclTensorList>();
  for (std::uint64_t i = 0; i < size; ++i) {
    made->tensors.push_back(tensors[i]);
    if (tensors[i]) const_cast<aclTensor*>(tensors[i])->owned = true;
  }
  objects().add(made.get(), host_object::list);
  return made.release();
}

RLCORE_INLINE aclnnStatus aclDestroyTensorList(const aclTensorList* object) {
  if (object && objects().alive(object, host_object::list))
    for (const auto* t : object->tensors)
      if (t) objects().destroy(t, host_object::tensor);
  return destroy(object, host_object::list, "aclDestroyTensorList");
}

RLCORE_INLINE aclnnStatus aclSetRawTensorAddr(aclTensor* object, void* data) {
  if (!object) return fail(null_pointer, "aclSetRawTensorAddr: null tensor");
  if (!objects().alive(object, host_object::tensor))
    return fail(invalid_parameter, "aclSetRawTensorAddr: not a living tensor");
  object->view.data = data;
  return 0;
}

RLCORE_INLINE aclnnStatus aclGetRawTensorAddr(const aclTensor* object, void** data) {
  if (!object || !data) return fail(null_pointer, "aclGetRawTensorAddr: null argument");
  if (!objects().alive(object, host_object::tensor))
    return fail(invalid_parameter, "aclGetRawTensorAddr: not a living tensor");
  *data = object->view.data;
  return 0;
}

}  // namespace ascend::emulated::meta
RLCORE_END
#endif
