// The types of GGUF files: of metadata values, and of the elements of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Types of metadata values, by their numbers in the file.
enum class gguf_type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// An element type of tensors: `elements` numbers fill a block of `bytes`.
struct gguf_block {
  std::uint32_t type;
  std::string_view name;
  std::uint64_t elements, bytes;
  bool readable;  ///< checkpoint::read_gguf_blocks() knows it
};

/// The element types of ggml that files have, by their numbers.
inline constexpr gguf_block gguf_blocks[] = {
    {0, "F32", 1, 4, true},          {1, "F16", 1, 2, true},          {2, "Q4_0", 32, 18, true},
    {3, "Q4_1", 32, 20, true},       {6, "Q5_0", 32, 22, true},       {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},       {9, "Q8_1", 32, 36, false},      {10, "Q2_K", 256, 84, false},
    {11, "Q3_K", 256, 110, false},   {12, "Q4_K", 256, 144, true},    {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},    {15, "Q8_K", 256, 292, false},   {16, "IQ2_XXS", 256, 66, false},
    {17, "IQ2_XS", 256, 74, false},  {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, false},   {21, "IQ3_S", 256, 110, false},  {22, "IQ2_S", 256, 82, false},
    {23, "IQ4_XS", 256, 136, false}, {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},        {28, "F64", 1, 8, false},
    {29, "IQ1_M", 256, 56, false},   {30, "BF16", 1, 2, true},        {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, false},
};

/// The bytes of a metadata value; 0 for texts and lists.
constexpr std::uint64_t bytes_of(gguf_type type) noexcept {
  constexpr std::array<std::uint8_t, 13> bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[static_cast<std::size_t>(type)];
}

}  // namespace text
RLCORE_END
