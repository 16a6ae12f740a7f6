// Safetensors header entry of one tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Element types of the safetensors format that fill whole bytes.
enum class stored_type { boolean, u8, i8, f8_e4m3, f8_e5m2, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

/// The name of an element type in the format, and its size in bytes.
struct stored_type_name {
  std::string_view name;
  std::size_t bytes;
};

/// Spelling and size of each stored_type, in its order.
inline constexpr std::array<stored_type_name, 15> stored_type_names{{{"BOOL", 1},
                                                                     {"U8", 1},
                                                                     {"I8", 1},
                                                                     {"F8_E4M3", 1},
                                                                     {"F8_E5M2", 1},
                                                                     {"U16", 2},
                                                                     {"I16", 2},
                                                                     {"F16", 2},
                                                                     {"BF16", 2},
                                                                     {"U32", 4},
                                                                     {"I32", 4},
                                                                     {"F32", 4},
                                                                     {"U64", 8},
                                                                     {"I64", 8},
                                                                     {"F64", 8}}};

/// The spelling in headers, e.g. "BF16".
constexpr std::string_view name_of(stored_type type) noexcept {
  return stored_type_names[static_cast<std::size_t>(type)].name;
}
/// The bytes of one element.
constexpr std::size_t bytes_of(stored_type type) noexcept {
  return stored_type_names[static_cast<std::size_t>(type)].bytes;
}

/// Name, type, shape and place of one tensor.
struct tensor_info {
  std::string name;
  stored_type dtype = stored_type::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< byte range within the data part of the file

  std::uint64_t bytes() const noexcept { return end - begin; }
  std::uint64_t size() const noexcept { return bytes() / bytes_of(dtype); }
};

/// "[4, 7]"
inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace checkpoint
RLCORE_END
