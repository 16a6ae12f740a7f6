// Products in three orientations and four weight formats: against double, against the chains of fused multiply-adds
// whose sum every element is, and to the bit over rows, threads and splits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/core/dtype.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rlcore_test::normal;
using floats = std::vector<float>;

std::size_t size(extent_t n) { return static_cast<std::size_t>(n); }

struct shape {
  extent_t rows, outputs, inputs;
};

/// Odd sizes on both sides of a tile, a panel and a block of the depth (1024), and 300 rows: two blocks of A.
const shape shapes[] = {{1, 1, 1},     {1, 33, 7},    {3, 16, 64},    {13, 50, 24},   {37, 65, 131},
                        {250, 40, 33}, {5, 31, 1100}, {26, 96, 1100}, {300, 40, 1030}};

struct packed {
  weight_format format;
  std::vector<std::byte> bytes;

  packed(cpu& device, weight_format f, const floats& w, extent_t o, extent_t i)
      : format(f), bytes(device.packed_bytes(f, o, i)) {
    device.run(op::pack_weight{.packed = bytes.data(), .format = f, .weight = w.data(), .outputs = o, .inputs = i});
  }
};

class gemm : public testing::TestWithParam<std::tuple<std::string, compute>> {
 protected:
  static std::string set() { return std::get<0>(GetParam()); }
  static compute type() { return std::get<1>(GetParam()); }
  cpu device{1, set(), type()}, three{3, set(), type()};

  /// What a product sees of an input.
  static floats seen(floats x) {
    if (type() == compute::bfloat16)
      for (float& v : x) v = bf16(v);
    return x;
  }
  /// start + sum of a[p] b[p] in index order, each product fused: as chains of 256 products, or as one from `start`.
  template <class A, class B>
  static void expect_sum(float x, float start, float bias, extent_t depth, A&& a, B&& b, bool one_chain = false) {
    float sum = start, chain = one_chain ? start : 0;
    double exact = static_cast<double>(start) + static_cast<double>(bias), magnitude = std::abs(exact);
    for (extent_t p = 0; p < depth; ++p) {
      chain = std::fma(a(p), b(p), chain);
      if (one_chain ? p + 1 == depth : (p + 1) % 256 == 0 || p + 1 == depth)
        sum = one_chain ? chain : sum + std::exchange(chain, 0.0f);
      exact += static_cast<double>(a(p)) * static_cast<double>(b(p));
      magnitude += std::abs(static_cast<double>(a(p)) * static_cast<double>(b(p)));
    }
    ASSERT_EQ(x, sum + bias);
    ASSERT_LE(std::abs(static_cast<double>(x) - exact),
              2 * static_cast<double>(depth + 2) * std::numeric_limits<float>::epsilon() * magnitude + 1e-30);
  }
};

TEST_P(gemm, exact_bfloat16_weights_have_the_bits_of_floats) {
  if (type() != compute::float32) return;
  for (const auto& s : shapes) {
    floats x = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2);
    for (float& v : w) v = bf16(v);
    const packed whole(device, weight_format::float32, w, s.outputs, s.inputs),
        half(device, weight_format::bfloat16_exact, w, s.outputs, s.inputs);
    EXPECT_LE(half.bytes.size(), whole.bytes.size() / 2 + 64 * size(s.outputs + 31));
    floats one(size(s.rows * s.outputs)), two = one;
    for (auto [p, y, d] : {std::tuple{&whole, &one, &device}, std::tuple{&half, &two, &three}})
      d->run(op::linear_forward{.y = y->data(),
                                .x = x.data(),
                                .packed = p->bytes.data(),
                                .format = p->format,
                                .rows = s.rows,
                                .outputs = s.outputs,
                                .inputs = s.inputs});
    EXPECT_EQ(one, two) << s.rows << " x " << s.outputs << " x " << s.inputs;
  }
}

TEST_P(gemm, forward) {
  for (const auto& s : shapes) {
    const floats x = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2),
                 b = normal(size(s.outputs), 3), xs = seen(x), ws = seen(w);
    const packed p(device, device.compute_format(), w, s.outputs, s.inputs);
    floats y(size(s.rows * s.outputs)), threaded = y, one(size(s.outputs));
    device.run(op::linear_forward{.y = y.data(),
                                  .x = x.data(),
                                  .packed = p.bytes.data(),
                                  .format = p.format,
                                  .bias = b.data(),
                                  .rows = s.rows,
                                  .outputs = s.outputs,
                                  .inputs = s.inputs});
    for (extent_t t = 0; t < s.rows; ++t)
      for (extent_t o = 0; o < s.outputs; ++o)
        expect_sum(
            y[size(t * s.outputs + o)], 0, b[size(o)], s.inputs, [&](extent_t i) { return xs[size(t * s.inputs + i)]; },
            [&](extent_t i) { return ws[size(o * s.inputs + i)]; });
    const packed by_three(three, p.format, w, s.outputs, s.inputs);
    EXPECT_EQ(p.bytes, by_three.bytes);
    three.run(op::linear_forward{.y = threaded.data(),
                                 .x = x.data(),
                                 .packed = p.bytes.data(),
                                 .format = p.format,
                                 .bias = b.data(),
                                 .rows = s.rows,
                                 .outputs = s.outputs,
                                 .inputs = s.inputs});
    EXPECT_EQ(y, threaded);
    for (extent_t t = 0; t < s.rows; ++t) {  // a row alone
      device.run(op::linear_forward{.y = one.data(),
                                    .x = x.data() + t * s.inputs,
                                    .packed = p.bytes.data(),
                                    .format = p.format,
                                    .bias = b.data(),
                                    .rows = 1,
                                    .outputs = s.outputs,
                                    .inputs = s.inputs});
      ASSERT_TRUE(std::equal(one.begin(), one.end(), y.begin() + t * s.outputs)) << s.rows << " rows, row " << t;
    }
  }
}

/// Rows of packed weights come back as the format has rounded them.
TEST_P(gemm, packed_rows) {
  for (const auto& s : shapes) {
    const floats w = normal(size(s.outputs * s.inputs), 2), ws = seen(w);
    const packed p(device, device.compute_format(), w, s.outputs, s.inputs);
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 100; ++i) ids.push_back((7 * i + 5) % static_cast<std::int32_t>(s.outputs));
    floats y(ids.size() * size(s.inputs), -1);
    three.run(op::gather_packed_rows{.y = y.data(),
                                     .packed = p.bytes.data(),
                                     .format = p.format,
                                     .ids = ids.data(),
                                     .count = 100,
                                     .inputs = s.inputs});
    for (std::size_t k = 0; k < ids.size(); ++k)
      ASSERT_TRUE(std::equal(&ws[static_cast<std::size_t>(ids[k]) * size(s.inputs)],
                             &ws[static_cast<std::size_t>(ids[k]) * size(s.inputs)] + s.inputs, &y[k * size(s.inputs)]))
          << s.outputs << " x " << s.inputs << ", row " << ids[k];
  }
}

TEST_P(gemm, input_gradient) {
  for (const auto& s : shapes) {
    const floats dy = normal(size(s.rows * s.outputs), 4), w = normal(size(s.outputs * s.inputs), 2), dys = seen(dy),
                 ws = seen(w);
    floats dx(size(s.rows * s.inputs), 0.5f), threaded = dx, one(size(s.inputs));
    device.run(op::linear_backward_input{.dx = dx.data(),
                                         .dy = dy.data(),
                                         .weight = w.data(),
                                         .rows = s.rows,
                                         .outputs = s.outputs,
                                         .inputs = s.inputs,
                                         .accumulate = true});
    three.run(op::linear_backward_input{.dx = threaded.data(),
                                        .dy = dy.data(),
                                        .weight = w.data(),
                                        .rows = s.rows,
                                        .outputs = s.outputs,
                                        .inputs = s.inputs,
                                        .accumulate = true});
    EXPECT_EQ(dx, threaded);
    for (extent_t t = 0; t < s.rows; ++t)
      for (extent_t i = 0; i < s.inputs; ++i)
        expect_sum(
            dx[size(t * s.inputs + i)], 0.5f, 0, s.outputs, [&](extent_t o) { return dys[size(t * s.outputs + o)]; },
            [&](extent_t o) { return ws[size(o * s.inputs + i)]; }, true);
    device.run(op::linear_backward_input{.dx = dx.data(),
                                         .dy = dy.data(),
                                         .weight = w.data(),
                                         .rows = s.rows,
                                         .outputs = s.outputs,
                                         .inputs = s.inputs});
    for (extent_t t = 0; t < s.rows; ++t) {
      device.run(op::linear_backward_input{.dx = one.data(),
                                           .dy = dy.data() + t * s.outputs,
                                           .weight = w.data(),
                                           .rows = 1,
                                           .outputs = s.outputs,
                                           .inputs = s.inputs});
      ASSERT_TRUE(std::equal(one.begin(), one.end(), dx.begin() + t * s.inputs)) << s.rows << " rows, row " << t;
    }
  }
}

TEST_P(gemm, weight_gradient_is_one_chain_over_rows) {
  for (const auto& s : shapes) {
    const floats dy = normal(size(s.rows * s.outputs), 4), x = normal(size(s.rows * s.inputs), 1), dys = seen(dy),
                 xs = seen(x);
    floats once(size(s.outputs * s.inputs), 7.0f), split = once, threaded = once;
    device.run(op::linear_backward_weight{.dweight = once.data(),
                                          .dy = dy.data(),
                                          .x = x.data(),
                                          .rows = s.rows,
                                          .outputs = s.outputs,
                                          .inputs = s.inputs});
    three.run(op::linear_backward_weight{.dweight = threaded.data(),
                                         .dy = dy.data(),
                                         .x = x.data(),
                                         .rows = s.rows,
                                         .outputs = s.outputs,
                                         .inputs = s.inputs});
    for (extent_t at = 0, step = 1; at < s.rows; at += step, ++step)
      device.run(op::linear_backward_weight{.dweight = split.data(),
                                            .dy = dy.data() + at * s.outputs,
                                            .x = x.data() + at * s.inputs,
                                            .rows = std::min(step, s.rows - at),
                                            .outputs = s.outputs,
                                            .inputs = s.inputs,
                                            .accumulate = at > 0});
    EXPECT_EQ(once, split);
    EXPECT_EQ(once, threaded);
    for (extent_t o = 0; o < s.outputs; ++o)
      for (extent_t i = 0; i < s.inputs; ++i)
        expect_sum(
            once[size(o * s.inputs + i)], 0, 0, s.rows, [&](extent_t t) { return dys[size(t * s.outputs + o)]; },
            [&](extent_t t) { return xs[size(t * s.inputs + i)]; }, true);
  }
}

TEST_P(gemm, int8_weights_are_within_half_a_step) {
  for (const auto& s : shapes) {
    const floats x = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2),
                 b = normal(size(s.outputs), 3);
    const packed p(device, weight_format::int8, w, s.outputs, s.inputs);
    floats y(size(s.rows * s.outputs)), one(size(s.outputs));
    device.run(op::linear_forward{.y = y.data(),
                                  .x = x.data(),
                                  .packed = p.bytes.data(),
                                  .format = p.format,
                                  .bias = b.data(),
                                  .rows = s.rows,
                                  .outputs = s.outputs,
                                  .inputs = s.inputs});
    for (extent_t o = 0; o < s.outputs; ++o) {
      const float* row = w.data() + o * s.inputs;
      float largest = 0;
      for (extent_t i = 0; i < s.inputs; ++i) largest = std::max(largest, std::abs(row[i]));
      for (extent_t t = 0; t < s.rows; ++t) {
        double exact = b[size(o)], inputs = 0;
        for (extent_t i = 0; i < s.inputs; ++i) {
          exact += static_cast<double>(x[size(t * s.inputs + i)]) * static_cast<double>(row[i]);
          inputs += std::abs(static_cast<double>(x[size(t * s.inputs + i)]));
        }
        const double step = static_cast<double>(largest) / 127;
        ASSERT_LE(std::abs(static_cast<double>(y[size(t * s.outputs + o)]) - exact), inputs * step * 0.501 + 1e-6);
      }
    }
    for (extent_t t = 0; t < s.rows; ++t) {
      three.run(op::linear_forward{.y = one.data(),
                                   .x = x.data() + t * s.inputs,
                                   .packed = p.bytes.data(),
                                   .format = p.format,
                                   .bias = b.data(),
                                   .rows = 1,
                                   .outputs = s.outputs,
                                   .inputs = s.inputs});
      ASSERT_TRUE(std::equal(one.begin(), one.end(), y.begin() + t * s.outputs)) << s.rows << " rows, row " << t;
    }
  }
}

TEST_P(gemm, an_empty_sum_is_zero_or_the_bias) {
  const floats b{1, 2, 3};
  floats y(6, 9);
  const packed p(device, device.compute_format(), {}, 3, 0);
  device.run(op::linear_forward{.y = y.data(),
                                .packed = p.bytes.data(),
                                .format = p.format,
                                .bias = b.data(),
                                .rows = 2,
                                .outputs = 3,
                                .inputs = 0});
  EXPECT_EQ(y, (floats{1, 2, 3, 1, 2, 3}));
  device.run(op::linear_backward_weight{.dweight = y.data(), .rows = 0, .outputs = 2, .inputs = 3});
  EXPECT_EQ(y, floats(6, 0));
}

#if defined(__x86_64__)
sigjmp_buf without_the_instruction;

/// Does this processor execute it? Virtual machines may not say so in CPUID.
bool has_dot_product() {
  struct sigaction trap{}, before{};
  trap.sa_handler = [](int) { siglongjmp(without_the_instruction, 1); };
  sigaction(SIGILL, &trap, &before);
  const bool has = __builtin_cpu_supports("avx512bw") && sigsetjmp(without_the_instruction, 1) == 0;
  if (has) __asm__ volatile(".byte 0x62, 0xf2, 0x7e, 0x48, 0x52, 0xc0" ::: "xmm0");  // vdpbf16ps zmm0, zmm0, zmm0
  sigaction(SIGILL, &before, nullptr);
  return has;
}

/// Two bf16 products per instruction are the same chain.
TEST(gemm_dot_product, has_the_bits_of_fused_multiply_adds) {
  if (!has_dot_product()) GTEST_SKIP() << "this processor lacks vdpbf16ps";
  cpu fused(1, "avx512", compute::bfloat16);
  floats scratch(size(cpu_kernels::gemm_scratch) + 16);
  for (const auto& s : shapes) {
    const floats a = normal(size(s.rows * s.inputs), 1), w = normal(size(s.outputs * s.inputs), 2),
                 bias = normal(size(s.outputs), 3);
    const packed p(fused, weight_format::bfloat16, w, s.outputs, s.inputs);
    const auto compare = [&](cpu_kernels::gemm_arguments g) {
      floats one(size(g.rows * g.columns), 0.5f), two = one;
      g.c_row = g.columns, g.round = true;
      g.c = one.data();
      cpu_avx512::kernels.gemm(g, 0, g.rows, 0, g.columns, scratch.data());
      g.c = two.data();
      cpu_avx512_bf16::kernels.gemm(g, 0, g.rows, 0, g.columns, scratch.data());
      EXPECT_EQ(one, two) << g.rows << " x " << g.columns << " x " << g.depth;
    };
    cpu_kernels::gemm_arguments g{};
    g.a = a.data(), g.a_row = s.inputs, g.a_step = 1, g.bias = bias.data();
    g.rows = s.rows, g.columns = s.outputs, g.depth = s.inputs;
    g.b = p.bytes.data(), g.kind = cpu_kernels::operand::bf16_panels;
    g.panel_bytes = static_cast<extent_t>(p.bytes.size()) / ((s.outputs + 31) / 32);
    compare(g);
    const floats b = normal(size(s.inputs * s.outputs), 4);  // rows, and added to what is there
    g.b = reinterpret_cast<const std::byte*>(b.data()), g.b_row = s.outputs, g.kind = cpu_kernels::operand::rows;
    g.accumulate = true, g.bias = nullptr;
    compare(g);
    // The same made into panels once, for a product with many rows.
    const extent_t panels = (s.outputs + 31) / 32, depth = std::min(s.inputs, cpu_kernels::gemm_depth_block);
    floats with_fused(size(panels * 32 * depth)), with_dot = with_fused;
    for (extent_t n = 0; n < panels; ++n) {
      const auto pack = [&](const cpu_kernels::table& set, floats& to) {
        set.pack_panel(to.data() + n * 32 * depth, b.data() + n * 32, s.outputs, depth, s.outputs - n * 32, true);
      };
      pack(cpu_avx512::kernels, with_fused);
      pack(cpu_avx512_bf16::kernels, with_dot);
    }
    g.kind = cpu_kernels::operand::float_panels, g.depth = depth, g.panel_bytes = 32 * 4 * depth;
    floats one(size(g.rows * g.columns), 0.5f), two = one;
    g.c_row = g.columns, g.round = true;
    g.b = reinterpret_cast<const std::byte*>(with_fused.data()), g.c = one.data();
    cpu_avx512::kernels.gemm(g, 0, g.rows, 0, g.columns, scratch.data());
    g.b = reinterpret_cast<const std::byte*>(with_dot.data()), g.c = two.data();
    cpu_avx512_bf16::kernels.gemm(g, 0, g.rows, 0, g.columns, scratch.data());
    EXPECT_EQ(one, two) << g.rows << " x " << g.columns << " x " << g.depth << ", shared panels";
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(sets, gemm,
                         testing::Combine(testing::ValuesIn(rlcore_test::instruction_sets()),
                                          testing::Values(compute::float32, compute::bfloat16)),
                         [](const auto& each) {
                           return std::get<0>(each.param) +
                                  (std::get<1>(each.param) == compute::float32 ? "_float32" : "_bfloat16");
                         });

}  // namespace
}  // namespace RLCORE_TEST_ID
