// Losses on a cuda device against the host: every algorithm and layout, and the functions of their programs.
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/loss_catalogue.hpp"
#include "rlcore/device/cuda.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

/// What a program of one input gives for each x.
floats run_on(cuda& d, const traced& value, const floats& x) {
  program_writer writer;
  writer.result("value", value);
  const traced_program program = writer.finish();
  auto in = put(d, x);
  auto out = room<float>(d, std::ssize(x));
  float* const results[] = {out.data()};
  program_arrays<float> arrays;
  arrays.rows = 1, arrays.width = std::ssize(x);
  arrays.input[0][0] = {in.data(), arrays.width, 1};
  arrays.results = results;
  d.run(rlcore::op::run_program{.program = program, .arrays = arrays});
  return out.back();
}
/// The functions of programs have the bits of fast_math, whose subnormal results depend on the instruction set.
TEST(cuda_programs, compute_the_functions_of_packs) {
  if (pack<float>::lanes < 8) GTEST_SKIP() << "packs of the instruction set base have no fused multiply-add";
  emulated_cuda on;
  floats x = normal(4000, 1, 4), small = normal(4000, 2, 1e-4), large = normal(2000, 3, 60);
  x.insert(x.end(), small.begin(), small.end()), x.insert(x.end(), large.begin(), large.end());
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float edge : {0.0f, -0.0f, 0.5f, -0.5f, 1.0f, -1.0f, 88.7f, 89.1f, infinity, -infinity, std::nanf("")})
    x.push_back(edge);
  const traced in = traced::field_value(field::logp, 0);
  const auto compare = [&](const char* name, const traced& program, auto function) {
    const floats got = run_on(on, program, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = function(pack<float>(x[i])).v[0];
      if (std::fpclassify(want) == FP_SUBNORMAL) continue;
      ASSERT_TRUE(same_bits(static_cast<double>(got[i]), static_cast<double>(want)))
          << name << "(" << x[i] << ") is " << got[i] << ", not " << want;
    }
  };
  using packs = fast_math;
  using math = traced_math;
  compare("exp", math::exp(in), [](auto v) { return packs::exp(v); });
  compare("expm1", math::expm1(in), [](auto v) { return packs::expm1(v); });
  compare("excess", math::excess(in), [](auto v) { return packs::excess(v); });
  compare("log", math::log(math::abs(in)), [](auto v) { return packs::log(packs::abs(v)); });
  compare("log1p", math::log1p(math::abs(in)), [](auto v) { return packs::log1p(packs::abs(v)); });
  compare("sqrt", math::sqrt(math::abs(in)), [](auto v) { return packs::sqrt(packs::abs(v)); });
  compare("sigmoid", math::sigmoid(in), [](auto v) { return packs::sigmoid(v); });
  compare("softplus", math::softplus(in), [](auto v) { return packs::softplus(v); });
  compare("clamp", math::clamp(in, -0.5, 2),
          [](auto v) { return packs::clamp(v, decltype(v)(-0.5f), decltype(v)(2)); });
  compare("sign", math::sign(in), [](auto v) { return packs::sign(v); });
  compare("min", math::min(in, traced(1)), [](auto v) { return packs::min(v, decltype(v)(1)); });
  compare("max", math::max(in, traced(1)), [](auto v) { return packs::max(v, decltype(v)(1)); });
}

TEST(cuda_losses, are_those_of_the_host) {
  emulated_cuda on({}, {.seed = 1});
  cuda& device = on;
  std::size_t checked = 0;
  each_on_log_probs([&](const char* name, const auto& a) { check_algorithm(device, name, a), ++checked; });
  EXPECT_GT(checked, 90u);
}

/// A step that no wanted result needs reads nothing, so its input may be missing.
TEST(cuda_programs, compute_what_is_wanted_alone) {
  emulated_cuda on;
  cuda& d = on;
  const traced x = traced::field_value(field::logp, 0), y = traced::field_value(field::old_logp, 0);
  program_writer writer;
  writer.result("wanted", x * x + x), writer.result("unwanted", y * x);
  const traced_program program = writer.finish();
  auto in = put(d, floats{1, 2, -3});
  auto out = room<float>(d, 3);
  float* const results[] = {out.data(), nullptr};
  program_arrays<float> arrays;
  arrays.rows = 1, arrays.width = 3, arrays.input[0][0] = {in.data(), 3, 1}, arrays.results = results;
  d.run(rlcore::op::run_program{.program = program, .arrays = arrays});
  EXPECT_EQ(out.back(), (floats{2, 6, 6}));
}

/// Terms of tokens alone: no sum over rows, whose order the host's packs would set, reaches a slope.
template <class A>
constexpr bool has_slopes_of_tokens() {
  if constexpr (requires(const A& a) { a.objective; }) {
    using objective = std::remove_cvref_t<decltype(A::objective)>;
    if constexpr (!of_sequences<objective>)
      return []<std::size_t... I>(std::index_sequence<I...>) {
        return (std::is_same_v<gathers_of<piece_type<I, objective>>, no_gather> && ...);
      }(std::make_index_sequence<piece_count<objective>>{});
  }
  return false;
}
TEST(cuda_losses, of_tokens_have_the_slopes_of_the_host_to_the_bit) {
  if (pack<float>::lanes < 8) GTEST_SKIP() << "packs of the instruction set base have no fused multiply-add";
  emulated_cuda on;
  cuda& device = on;
  std::size_t checked = 0;
  each_on_log_probs([&]<class A>(const char* name, const A& a) {
    if constexpr (has_slopes_of_tokens<A>())
      for (const layout form : {layout::masked, layout::by_length, layout::packed}) {
        const loss_batch batch(form, 8, 37, row_fields_of(a.objective));
        const auto host = batch.host<float>();
        const auto here = batch.on(device);
        evaluate(serial{}, a, host->batch, batch.counts(), host->gradients);
        evaluate(device, a, here->batch, batch.counts(), here->gradients);
        for (std::size_t k = 0; k < 3; ++k) {
          const floats slopes = batch.back(device, here->gradient[k]);
          for (std::size_t i = 0; i < slopes.size(); ++i)
            ASSERT_TRUE(same_bits(static_cast<double>(slopes[i]), static_cast<double>(host->gradient[k][i])))
                << name << ", layout " << static_cast<int>(form) << ", slope " << i;
        }
        ++checked;
      }
  });
  EXPECT_GT(checked, 3 * 30u);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
