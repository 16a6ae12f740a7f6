#include "rlcore/checkpoint/safetensors_writer.hpp"

#include <bit>
#include <cmath>
#include <random>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::checkpoint::safetensors_reader;
using rlcore::checkpoint::safetensors_writer;
using rlcore::checkpoint::stored_type;
using rlcore::checkpoint::tensor_source;
using rlcore::checkpoint::write_safetensors;

std::vector<float> noise(std::size_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

TEST(safetensors_writer, float_survives_to_the_bit_and_files_are_reproducible) {
  const scratch::folder place;
  std::vector<float> a = noise(300000), b{std::nanf("0x123"), -0.0f, HUGE_VALF, 1e-45f}, none;
  const std::vector<tensor_source> tensors{{"b", {2, 2}, b}, {"a", {300000}, a}, {"none", {0, 4}, none}};
  write_safetensors(place / "one", tensors);
  const std::vector<tensor_source> turned{tensors[2], tensors[0], tensors[1]};
  write_safetensors(place / "two", turned);
  EXPECT_EQ(scratch::read(place / "one"), scratch::read(place / "two"));
  const safetensors_reader reader(place / "one");
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.tensors().front().name, "a");
  for (const tensor_source& t : tensors) {
    std::vector<float> read(t.values.size());
    reader.read_f32(t.name, read);
    for (std::size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(read[i]), std::bit_cast<std::uint32_t>(t.values[i])) << t.name << i;
  }
}

// Rounding by its definition: of the two neighbours the nearer one, of two equally near ones the even one.
TEST(safetensors_writer, rounds_to_nearest_even_in_16_bits) {
  for (const stored_type type : {stored_type::f16, stored_type::bf16}) {
    const scratch::folder place;
    const auto value_of = [&](unsigned bits) -> double {
      if (type == stored_type::bf16) return std::bit_cast<float>(bits << 16);
      const unsigned e = bits >> 10, m = bits & 1023;
      return e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, static_cast<int>(e) - 25);
    };
    const unsigned infinity = type == stored_type::f16 ? 0x7c00 : 0x7f80;
    std::vector<float> values;
    std::vector<std::uint16_t> expected;
    for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
      const auto middle = static_cast<float>((value_of(bits) + value_of(bits + 1)) / 2);
      for (const auto& [x, y] : {std::pair{static_cast<float>(value_of(bits)), bits},
                                 {std::nextafterf(middle, 0.0f), bits},
                                 {middle, bits + (bits & 1)},
                                 {std::nextafterf(middle, HUGE_VALF), bits + 1}}) {
        for (const bool negative : {false, true}) {
          values.push_back(negative ? -x : x);
          expected.push_back(static_cast<std::uint16_t>(y | (negative ? 0x8000u : 0u)));
        }
      }
    }
    const tensor_source tensor{"x", {std::ssize(values)}, values};
    write_safetensors(place / "x", {&tensor, 1}, type);
    std::vector<std::uint16_t> stored(values.size());
    const safetensors_reader reader(place / "x");
    reader.read_bytes("x", std::as_writable_bytes(std::span(stored)));
    EXPECT_EQ(stored, expected);
  }
}

TEST(safetensors_writer, streams_pieces_of_any_size) {
  const scratch::folder place;
  const std::vector<float> values = noise(10);
  safetensors_writer writer(place / "x", {{"a", stored_type::bf16, {2, 3}, 0, 0}, {"b", stored_type::f32, {4}, 0, 0}});
  writer.append(std::span(values).first(1));
  writer.append(std::span(values).subspan(1, 5));
  writer.append(std::span(values).subspan(6, 3));
  EXPECT_THROW(writer.finish(), std::invalid_argument);
  EXPECT_THROW(writer.append(values), std::invalid_argument);
  writer.append(std::span(values).last(1));
  writer.finish();
  std::vector<float> b(4);
  safetensors_reader(place / "x").read_f32("b", b);
  EXPECT_TRUE(std::equal(b.begin(), b.end(), values.begin() + 6));
}

TEST(safetensors_writer, refuses_what_does_not_fit) {
  const scratch::folder place;
  const std::vector<float> values(3);
  const std::vector<tensor_source> wrong{{"x", {2, 2}, values}}, twice{{"x", {3}, values}, {"x", {3}, values}};
  scratch::error_of<std::invalid_argument>([&] { write_safetensors(place / "x", wrong); },
                                           {"'x'", "[2, 2]", "3 values"});
  scratch::error_of<rlcore::format_error>([&] { write_safetensors(place / "x", twice); }, {"'x'", "taken"});
  scratch::error_of<rlcore::file_error>([&] { write_safetensors(place / "no" / "x", {}); }, {"No such file"});
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

TEST(safetensors_writer, the_safetensors_library_reads_it) {
  const std::string python = scratch::python_with("safetensors.torch");
  if (python.empty()) GTEST_SKIP() << "needs Python with safetensors and torch";
  const scratch::folder place;
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7.0f - 50.0f;
  const tensor_source tensor{"x.weight", {10, 100}, values};
  for (const stored_type type : {stored_type::f32, stored_type::f16, stored_type::bf16})
    write_safetensors(place / std::string(name_of(type)), {&tensor, 1}, type);
  const auto result = scratch::run_python(python, R"(
import sys, torch
from safetensors.torch import load_file
from safetensors import safe_open
x = (torch.arange(1000, dtype=torch.float32) / 7 - 50).reshape(10, 100)
for name, dtype in ("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16):
    path = sys.argv[1] + "/" + name
    y = load_file(path)["x.weight"]
    assert y.dtype == dtype and torch.equal(y, x.to(dtype)), name
    assert safe_open(path, "pt").metadata() == {"format": "pt"}
)",
                                          place.path().string());
  EXPECT_EQ(result.code, 0) << result.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
