#include "rlcore/checkpoint/safetensors_reader.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::file_error;
using rlcore::format_error;
using rlcore::checkpoint::safetensors_reader;
using rlcore::checkpoint::stored_type;

const std::string golden = std::string(RLCORE_REFERENCE_DIR) + "/checkpoint_tensors.safetensors";

std::string file_with(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

TEST(safetensors_reader, reads_what_the_safetensors_library_wrote) {
  const safetensors_reader reader(golden);
  const auto expected =
      nlohmann::json::parse(scratch::read(std::string(RLCORE_REFERENCE_DIR) + "/checkpoint_tensors.json"));
  ASSERT_EQ(reader.tensors().size(), expected.size());
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.metadata().at("made_by"), "safetensors");
  for (const auto& [name, tensor] : expected.items()) {
    const auto& info = reader.info(name);
    EXPECT_EQ(rlcore::checkpoint::name_of(info.dtype), tensor["dtype"]);
    EXPECT_EQ(info.shape, tensor["shape"].get<std::vector<std::int64_t>>());
    const auto values = tensor["values"].get<std::vector<nlohmann::json>>();
    ASSERT_EQ(info.size(), values.size());
    if (info.dtype == stored_type::f32 || info.dtype == stored_type::f16 || info.dtype == stored_type::bf16) {
      std::vector<float> read(values.size());
      reader.read_f32(name, read);
      for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], values[i].get<double>()) << name << i;
    }
  }
  std::vector<std::int64_t> integers(2);
  reader.read_bytes("d.i64", std::as_writable_bytes(std::span(integers)));
  EXPECT_EQ(integers, (std::vector<std::int64_t>{-1, std::int64_t{1} << 40}));
  float one = 0;
  reader.read_f32("a.f32", {&one, 1}, 1);
  EXPECT_EQ(one, -2.25f);
}

// The values of the formats by their definition: sign, exponent and mantissa put together in double.
double by_definition(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(static_cast<double>(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

TEST(safetensors_reader, converts_all_patterns_of_16_bits) {
  const scratch::folder place;
  for (const bool half : {true, false}) {
    std::string data;
    for (unsigned bits = 0; bits < 65536; ++bits) (data += static_cast<char>(bits)) += static_cast<char>(bits >> 8);
    scratch::write(place / "all", file_with(std::string(R"({"x":{"dtype":")") + (half ? "F16" : "BF16") +
                                                R"(","shape":[65536],"data_offsets":[0,131072]}})",
                                            data));
    std::vector<float> values(65536);
    safetensors_reader(place / "all").read_f32("x", values);
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const double expected = half ? by_definition(bits, 5, 10) : by_definition(bits, 8, 7);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[bits])) << bits;
      } else {
        ASSERT_EQ(values[bits], expected) << bits;
        ASSERT_EQ(std::signbit(values[bits]), std::signbit(expected)) << bits;
      }
    }
  }
}

TEST(safetensors_reader, names_what_is_wrong_with_a_request) {
  const safetensors_reader reader(golden);
  scratch::error_of<format_error>([&] { reader.info("a.f23"); }, {golden, "'a.f23'", "did you mean 'a.f32'?"});
  std::vector<float> two(2), five(5);
  scratch::error_of<format_error>([&] { reader.read_f32("d.i64", two); }, {"'d.i64'", "I64", "F32, F16 or BF16"});
  scratch::error_of<format_error>([&] { reader.read_f32("a.f32", five); }, {"'a.f32' has shape [2, 3]", "expected 5"});
  scratch::error_of<std::invalid_argument>([&] { reader.read_f32("a.f32", five, 2); }, {"'a.f32' [2, 3]", "5", "6"});
  scratch::error_of<file_error>([] { safetensors_reader("/nonexistent/x"); }, {"/nonexistent/x", "No such file"});
  scratch::error_of<file_error>([] { safetensors_reader("/tmp"); }, {"/tmp", "Is a directory"});
}

TEST(safetensors_reader, refuses_malformed_headers) {
  const scratch::folder place;
  const auto refused = [&](const std::string& header, const std::string& data, std::vector<std::string> parts) {
    scratch::write(place / "bad", file_with(header, data));
    parts.push_back((place / "bad").string());
    scratch::error_of<format_error>([&] { safetensors_reader reader(place / "bad"); }, parts);
  };
  const std::string four(4, 'x'), eight(8, 'x');
  refused("", "", {"does not start with '{'"});
  refused("[]", "", {"does not start with '{'"});
  refused("{\"x\":", "", {"not valid JSON"});
  refused("{\"\xff\":1}", "", {"not valid JSON"});
  refused(R"({"x":3})", "", {"'x'", "lacks dtype"});
  refused(R"({"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x", {"'F4'", "expected F32"});
  refused(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four, {"'x'", "shape"});
  refused(R"({"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four, {"'x'", "shape"});
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four, {"'x'", "[2]", "8 bytes"});
  refused(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[4,0]}})", four, {"'x'", "data_offsets"});
  refused(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0]}})", four, {"'x'", "data_offsets"});
  refused(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}})", four, {"too large"});
  refused(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})", eight, {"'x'", "expected 0"});
  refused(
      R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
      four, {"expected 4"});
  refused(
      R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})",
      eight, {"'x'", "twice"});
  refused(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", eight, {"too long"});
  refused(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", four, {"truncated", "8", "4"});
  refused(R"({"__metadata__":{"a":1}})", "", {"__metadata__ 'a'"});
  refused(R"({"__metadata__":[]})", "", {"__metadata__"});
  refused(std::string(100000, '['), "", {"does not start with '{'"});
  refused("{\"x\":" + std::string(100000, '['), "", {"not a safetensors file: JSON nested deeper than 1000"});
  scratch::write(place / "bad", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  scratch::error_of<format_error>([&] { safetensors_reader reader(place / "bad"); }, {"at most 100000000"});
  refused("{}      ", "x", {"too long"});
  scratch::write(place / "good", file_with("{}      ", ""));
  EXPECT_TRUE(safetensors_reader(place / "good").tensors().empty());
}

// Whatever happens to the bytes: either a clear refusal, or a file whose tensors can all be read.
void read_everything(const std::filesystem::path& path) {
  try {
    const safetensors_reader reader(path);
    for (const auto& t : reader.tensors()) {
      std::vector<std::byte> bytes(t.bytes());
      reader.read_bytes(t.name, bytes);
    }
  } catch (const rlcore::error& e) {
    ASSERT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    ASSERT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
  }
}

TEST(safetensors_reader, survives_truncation_at_every_byte) {
  const scratch::folder place;
  const std::string bytes = scratch::read(golden);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    scratch::write(place / "cut", bytes.substr(0, length));
    scratch::error_of<format_error>([&] { safetensors_reader reader(place / "cut"); }, {(place / "cut").string()});
  }
}

TEST(safetensors_reader, survives_flipped_bytes_anywhere_in_the_header) {
  const scratch::folder place;
  const std::string bytes = scratch::read(golden);
  const std::size_t header_end = 8 + static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
  std::mt19937 random(1);
  for (std::size_t at = 0; at < header_end; ++at) {
    for (int k = 0; k < 4; ++k) {
      std::string changed = bytes;
      changed[at] = k < 2 ? static_cast<char>(changed[at] ^ (1 << random() % 8)) : static_cast<char>(random());
      if (k == 3) changed[random() % header_end] = static_cast<char>("0123456789,:{}[]\""[random() % 17]);
      scratch::write(place / "flipped", changed);
      ASSERT_NO_FATAL_FAILURE(read_everything(place / "flipped"));
    }
  }
}

TEST(safetensors_reader, a_file_that_shrinks_after_opening_is_an_error) {
  const scratch::folder place;
  scratch::write(place / "x", scratch::read(golden));
  const safetensors_reader reader(place / "x");
  std::filesystem::resize_file(place / "x", 100);
  std::vector<float> values(6);
  scratch::error_of<file_error>([&] { reader.read_f32("a.f32", values); }, {"ends unexpectedly"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
