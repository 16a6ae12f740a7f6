#include "rlcore/checkpoint/weight_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::checkpoint;

/// One tensor in memory.
template <class T>
class in_memory final : public weight_source {
 public:
  in_memory(stored_type type, std::vector<T> values) : values_(std::move(values)) {
    weights_.push_back({"a", type, {static_cast<std::int64_t>(values_.size())}});
  }
  void read_bytes(const weight&, std::uint64_t first, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), values_.data() + first, bytes.size());
  }

 private:
  std::vector<T> values_;
};

template <class T>
std::vector<float> last_two(stored_type type, std::vector<T> values) {
  in_memory<T> from(type, std::move(values));
  std::vector<float> read(2);
  from.read_f32(*from.find("a"), 1, read);
  return read;
}

TEST(weight_source, reads_every_floating_type_from_any_element_on) {
  const std::vector<float> expected{1.5f, -2.0f};  // bits by IEEE 754
  EXPECT_EQ(last_two<float>(stored_type::f32, {9, 1.5f, -2.0f}), expected);
  EXPECT_EQ(last_two<double>(stored_type::f64, {9, 1.5, -2.0}), expected);
  EXPECT_EQ(last_two<std::uint16_t>(stored_type::f16, {0, 0x3e00, 0xc000}), expected);
  EXPECT_EQ(last_two<std::uint16_t>(stored_type::bf16, {0, 0x3fc0, 0xc000}), expected);
}

TEST(weight_source, refuses_integers_by_name) {
  try {
    last_two<std::int64_t>(stored_type::i64, {1, 2, 3});
    FAIL() << "integers are no weights";
  } catch (const format_error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("'a'"), testing::HasSubstr("expected a floating type")));
  }
}

TEST(weight_source, finds_names_that_are_there) {
  in_memory<float> from(stored_type::f32, {1});
  EXPECT_EQ(from.find("a")->size(), 1u);
  EXPECT_EQ(from.find("b"), nullptr);
  EXPECT_EQ((weight{"w", stored_type::f32, {2, 3, 4}}.size()), 24u);
  EXPECT_EQ((weight{"scalar", stored_type::f32, {}}.size()), 1u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
