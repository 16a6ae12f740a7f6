// Blocks of GGUF files against the Python package gguf, to the bit (golden file of tests/reference/gguf_files.py).
#include "rlcore/checkpoint/gguf_blocks.hpp"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using checkpoint::gguf_block_of;

template <class T>
std::vector<T> from_hex(const std::string& digits) {
  std::vector<T> values(digits.size() / 2 / sizeof(T));
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<unsigned char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

nlohmann::json golden() {
  return nlohmann::json::parse(scratch::read(std::string(RLCORE_REFERENCE_DIR) + "/gguf_blocks.json"));
}

TEST(gguf_blocks, are_read_as_the_package_reads_them) {
  std::size_t types = 0;
  const nlohmann::json all = golden()["read"];
  for (const auto& [name, g] : all.items()) {
    const auto blocks = from_hex<std::byte>(g["blocks"]);
    const auto expected = from_hex<float>(g["floats"]);
    std::vector<float> values(expected.size());
    checkpoint::read_gguf_blocks(gguf_block_of(name), blocks, values);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << name;
    ++types;
  }
  EXPECT_EQ(types, 8U);
}

TEST(gguf_blocks, are_written_as_the_package_writes_them_and_read_back) {
  const nlohmann::json g = golden()["write"];
  const auto floats = from_hex<float>(g["floats"]);
  for (const char* name : {"F32", "F16", "BF16", "Q8_0"}) {
    const auto expected = from_hex<std::byte>(g[name]);
    std::vector<std::byte> blocks(expected.size());
    checkpoint::write_gguf_blocks(gguf_block_of(name), floats, blocks);
    EXPECT_EQ(blocks, expected) << name;
    std::vector<float> again(floats.size());
    checkpoint::read_gguf_blocks(gguf_block_of(name), blocks, again);
    const float accuracy = std::string(name) == "F32" ? 0 : std::string(name) == "F16" ? 0x1p-11F : 0x1p-8F;
    for (std::size_t i = 96; i < floats.size(); ++i) {  // behind what F16 cannot hold
      float largest = 0;
      for (std::size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) largest = std::max(largest, std::abs(floats[k]));
      EXPECT_LE(std::abs(again[i] - floats[i]), accuracy * largest + 0x1p-24F * (accuracy > 0 ? 127 : 0)) << name;
    }
  }
}

TEST(gguf_blocks, sizes_have_to_fit_and_types_to_be_known) {
  std::vector<float> values(32);
  std::vector<std::byte> blocks(34);
  EXPECT_THROW(checkpoint::read_gguf_blocks(gguf_block_of("Q4_0"), blocks, values), std::invalid_argument);
  EXPECT_THROW(checkpoint::write_gguf_blocks(gguf_block_of("Q4_0"), values, std::span(blocks).first(18)),
               std::invalid_argument);
  EXPECT_THROW(gguf_block_of("Q9"), std::invalid_argument);
  blocks.resize(36);
  scratch::error_of<format_error>([&] { checkpoint::read_gguf_blocks(gguf_block_of("Q8_1"), blocks, values); },
                                  {"Q8_1"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
