// Numbers of a step in the memory of a device.
#include "rlcore/device/arrays.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "device/npu/emulated_npu.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

template <class D>
floats back(const tensor<float, 1, D>& x) {
  floats host(x.size());
  x.memory().download(host);
  return host;
}

template <class D>
void expect_chosen_on(D& d) {
  const auto x = to_device(d, floats{0, 1, 10, 11, 20, 21, 30, 31});
  EXPECT_EQ(back(x), (floats{0, 1, 10, 11, 20, 21, 30, 31}));
  const std::vector<std::uint32_t> rows{3, 0, 3};
  EXPECT_EQ(back(rows_at(d, x, std::span(rows), 2)), (floats{30, 31, 0, 1, 30, 31}));
  EXPECT_EQ(back(rows_at(d, x, std::span(rows))), (floats{11, 0, 11}));
  EXPECT_EQ(rows_at(d, x, std::span<const std::uint32_t>(), 2).size(), 0u);
  try {
    rows_at(d, x, std::span(rows), 4);
    ADD_FAILURE() << "row 3 of 2";
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string(e.what()), "rlcore: row 3 of 8 numbers in rows of 4, which are 2");
  }
}

TEST(device_arrays, rows_are_chosen_where_they_are) {
  cpu host(1);
  expect_chosen_on(host);
  emulated_npu on(compute::float32);
  expect_chosen_on(*on);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
