// Products in three orientations: against double, and to the bit over rows, threads and splits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"

namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;

struct shape {
  extent_t rows, outputs, inputs;
};

class gemm : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<shape> shapes() {
    return {{1, 1, 1}, {1, 33, 7}, {3, 16, 64}, {13, 50, 24}, {37, 65, 130}, {250, 40, 33}, {5, 31, 1100}};
  }
};

std::size_t size(extent_t n) { return static_cast<std::size_t>(n); }

/// |x - exact| <= 2 (depth + 2) eps sum of |products|: what any order of summation keeps.
void expect_close(float x, double exact, double magnitude, extent_t depth) {
  ASSERT_LE(std::abs(static_cast<double>(x) - exact),
            2 * static_cast<double>(depth + 2) * std::numeric_limits<float>::epsilon() * magnitude + 1e-30);
}

TEST_P(gemm, forward) {
  cpu device(1, GetParam());
  for (const auto& s : shapes()) {
    const floats x = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2),
                 b = normal(size(s.outputs), 3);
    floats y(size(s.rows * s.outputs));
    device.linear_forward(y.data(), x.data(), w.data(), b.data(), s.rows, s.outputs, s.inputs);
    for (extent_t t = 0; t < s.rows; ++t)
      for (extent_t o = 0; o < s.outputs; ++o) {
        double sum = b[size(o)], magnitude = std::abs(sum);
        for (extent_t i = 0; i < s.inputs; ++i) {
          const double product =
              static_cast<double>(x[size(t * s.inputs + i)]) * static_cast<double>(w[size(o * s.inputs + i)]);
          sum += product;
          magnitude += std::abs(product);
        }
        expect_close(y[size(t * s.outputs + o)], sum, magnitude, s.inputs);
      }
  }
}

TEST_P(gemm, forward_of_a_row_does_not_depend_on_the_others) {
  cpu device(1, GetParam()), three(3, GetParam());
  for (const auto& s : shapes()) {
    const floats x = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2),
                 b = normal(size(s.outputs), 3);
    floats all(size(s.rows * s.outputs)), threaded = all, one(size(s.outputs));
    device.linear_forward(all.data(), x.data(), w.data(), b.data(), s.rows, s.outputs, s.inputs);
    three.linear_forward(threaded.data(), x.data(), w.data(), b.data(), s.rows, s.outputs, s.inputs);
    EXPECT_EQ(all, threaded);
    for (extent_t t = 0; t < s.rows; ++t) {
      device.linear_forward(one.data(), x.data() + t * s.inputs, w.data(), b.data(), 1, s.outputs, s.inputs);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + t * s.outputs)) << s.rows << " rows, row " << t;
    }
  }
}

TEST_P(gemm, input_gradient) {
  cpu device(1, GetParam());
  for (const auto& s : shapes()) {
    const floats dy = normal(size(s.rows * s.outputs), 4), w = normal(size(s.outputs * s.inputs), 2);
    floats dx(size(s.rows * s.inputs), 0.5f), one(size(s.inputs));
    device.linear_backward_input(dx.data(), dy.data(), w.data(), s.rows, s.outputs, s.inputs, true);
    for (extent_t t = 0; t < s.rows; ++t)
      for (extent_t i = 0; i < s.inputs; ++i) {
        double sum = 0.5, magnitude = 0.5;
        for (extent_t o = 0; o < s.outputs; ++o) {
          const double product =
              static_cast<double>(dy[size(t * s.outputs + o)]) * static_cast<double>(w[size(o * s.inputs + i)]);
          sum += product;
          magnitude += std::abs(product);
        }
        expect_close(dx[size(t * s.inputs + i)], sum, magnitude, s.outputs);
      }
    device.linear_backward_input(dx.data(), dy.data(), w.data(), s.rows, s.outputs, s.inputs, false);
    for (extent_t t = 0; t < s.rows; ++t) {
      device.linear_backward_input(one.data(), dy.data() + t * s.outputs, w.data(), 1, s.outputs, s.inputs, false);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), dx.begin() + t * s.inputs)) << s.rows << " rows, row " << t;
    }
  }
}

TEST_P(gemm, weight_gradient_is_one_chain_over_rows) {
  cpu device(1, GetParam()), three(3, GetParam());
  for (const auto& s : shapes()) {
    const floats dy = normal(size(s.rows * s.outputs), 4), x = normal(size(s.rows * s.inputs), 1);
    floats once(size(s.outputs * s.inputs), 0.25f), split = once, threaded = once;
    device.linear_backward_weight(once.data(), dy.data(), x.data(), s.rows, s.outputs, s.inputs);
    three.linear_backward_weight(threaded.data(), dy.data(), x.data(), s.rows, s.outputs, s.inputs);
    for (extent_t at = 0, step = 1; at < s.rows; at += step, ++step) {
      const extent_t n = std::min(step, s.rows - at);
      device.linear_backward_weight(split.data(), dy.data() + at * s.outputs, x.data() + at * s.inputs, n, s.outputs,
                                    s.inputs);
    }
    EXPECT_EQ(once, split);
    EXPECT_EQ(once, threaded);
    for (extent_t o = 0; o < s.outputs; ++o)
      for (extent_t i = 0; i < s.inputs; ++i) {
        double sum = 0.25, magnitude = 0.25;
        for (extent_t t = 0; t < s.rows; ++t) {
          const double product =
              static_cast<double>(dy[size(t * s.outputs + o)]) * static_cast<double>(x[size(t * s.inputs + i)]);
          sum += product;
          magnitude += std::abs(product);
        }
        expect_close(once[size(o * s.inputs + i)], sum, magnitude, s.rows);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(sets, gemm, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
