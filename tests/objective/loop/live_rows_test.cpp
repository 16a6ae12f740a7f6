// Rows as their live tokens, from and to any layout.
#include "rlcore/objective/loop/live_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

template <class Element>
void check_mask_of() {
  std::vector<double> x{1, 2, 3, NAN, 5, 6, NAN, NAN};
  const auto storage = std::make_unique<Element[]>(8);
  for (int k = 0; k < 8; ++k)
    storage[static_cast<std::size_t>(k)] = static_cast<Element>(!std::isnan(x[static_cast<std::size_t>(k)]));
  const matrix_view<Element> mask(storage.get(), {2, 4});
  const token_batch<double> batch{.logp = matrix(x.data(), 2, 4), .mask = mask};
  const live_rows<double> rows(batch, field::logp, "the test");
  live_row row;
  const mask_output out(mask);
  rows.read(0, row);
  EXPECT_EQ(std::vector<double>(row[field::logp].begin(), row[field::logp].end()), (std::vector<double>{1, 2, 3}));
  const std::vector<unsigned char> keep{0, 1, 1};
  rows.write(out, 0, row, keep);
  const Element one{1}, zero{0};
  EXPECT_EQ(mask(0, 0), zero);
  EXPECT_EQ(mask(0, 1), one);
  EXPECT_EQ(mask(0, 2), one);
  EXPECT_EQ(mask(0, 3), zero);
  EXPECT_EQ(mask(1, 0), one);
}

}  // namespace

TEST(live_rows, masks_of_every_type_are_edited_in_place) {
  check_mask_of<bool>();
  check_mask_of<std::uint8_t>();
  check_mask_of<std::int16_t>();
  check_mask_of<std::int32_t>();
  check_mask_of<std::int64_t>();
  check_mask_of<float>();
  check_mask_of<double>();
}

TEST(live_rows, packed_rows_and_values_per_row) {
  std::vector<float> logp{1, 2, 3, 4, 5}, advantage{7, 8, 9}, out(5, -1);
  const std::vector<std::int32_t> offsets{0, 3, 3, 5};
  const std::vector<std::uint8_t> mask{1, 0, 1, 1, 1};
  const token_batch<float> batch{.logp = logp, .advantage = per_row(advantage), .mask = mask, .offsets = offsets};
  const live_rows<float> rows(batch, field::logp | field::advantage, "the test");
  ASSERT_EQ(rows.size(), 3);
  const auto target = rows.target("weight", token_field<float>(out));
  live_row row;
  for (extent_t i = 0; i < 3; ++i) {
    rows.read(i, row);
    EXPECT_EQ(row.size(), i == 1 ? 0u : 2u);
    for (const double a : row[field::advantage]) EXPECT_EQ(a, 7.0 + static_cast<double>(i));
    rows.write(target, i, row, row[field::logp]);
  }
  EXPECT_EQ(out, (std::vector<float>{1, 0, 3, 4, 5}));
  rows.read(0, row);
  EXPECT_EQ(row.position()[1], 2);
}

TEST(live_rows, missing_fields_and_other_shapes_are_named) {
  std::vector<float> logp(6), other(4);
  const token_batch<float> batch{.logp = matrix(logp.data(), 2, 3)};
  try {
    live_rows<float>(batch, field::logp | field::entropy, "the reader");
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "rlcore: the reader reads entropy, but the batch has none; set token_batch::entropy");
  }
  const live_rows<float> rows(batch, field::logp, "the reader");
  EXPECT_THROW(rows.target("weight", token_field<float>(matrix(other.data(), 2, 2))), std::invalid_argument);
  EXPECT_THROW(rows.check(mask_output(matrix(other.data(), 2, 2))), std::invalid_argument);
}

}  // namespace RLCORE_TEST_ID
