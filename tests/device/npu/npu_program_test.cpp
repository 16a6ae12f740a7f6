// Traced programs on the npu device against the host in double: every operation, its edges, shapes and memory.
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/source.hpp"
#include "rlcore/objective/traced/trace.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

using math = traced_math;

traced_program of(const std::vector<traced>& values) {
  program_writer writer;
  for (const traced& v : values) writer.result("value", v);
  return writer.finish();
}
const traced x = traced::field_value(field::logp, 0), y = traced::field_value(field::old_logp, 0),
             rejected = traced::field_value(field::logp, 1);

/// The results of a program on the device and in double on the host.
struct both {
  std::vector<floats> got;
  std::vector<std::vector<double>> want;
};
struct inputs {
  extent_t rows, width;
  floats x, y, rejected, live{};
  extent_t x_row = 0, x_token = 0, y_row = 0, y_token = 0;
};
both run_both(npu& d, const traced_program& p, const inputs& in) {
  both r;
  const auto fill = [&](auto& arrays, const auto* px, const auto* py, const auto* pr, const auto* live) {
    arrays.rows = in.rows, arrays.width = in.width;
    arrays.input[0][0] = {px, in.x_row, in.x_token}, arrays.input[0][1] = {py, in.y_row, in.y_token};
    arrays.input[1][0] = {pr, in.x_row, in.x_token};
    if (!in.live.empty()) arrays.live = {live, in.width, 1};
  };
  const auto n = static_cast<std::size_t>(in.rows * in.width);
  auto px = put(d, in.x), py = put(d, in.y), pr = put(d, in.rejected), live = put(d, in.live);
  program_arrays<float> arrays;
  fill(arrays, px.data(), py.data(), pr.data(), live.data());
  std::vector<memory<float, npu>> out;
  std::vector<float*> to;
  for (std::size_t k = 0; k < p.results.size(); ++k) out.push_back(room<float>(d, static_cast<extent_t>(n)));
  for (auto& o : out) to.push_back(o.data());
  arrays.results = to;
  d.run(rlcore::op::run_program{.program = p, .arrays = arrays});
  for (auto& o : out) r.got.push_back(o.back());
  const auto wide = [](const floats& v) { return std::vector<double>(v.begin(), v.end()); };
  const std::vector<double> hx = wide(in.x), hy = wide(in.y), hr = wide(in.rejected), hl = wide(in.live);
  program_arrays<double> host;
  fill(host, hx.data(), hy.data(), hr.data(), hl.data());
  r.want.assign(p.results.size(), std::vector<double>(n));
  std::vector<double*> host_to;
  for (auto& w : r.want) host_to.push_back(w.data());
  host.results = host_to;
  host_program_executor{}.run_program(p, host);
  return r;
}
void expect_near_both(const both& r, const traced_program& p, double units = 8) {
  for (std::size_t k = 0; k < r.want.size(); ++k)
    for (std::size_t i = 0; i < r.want[k].size(); ++i) {
      const double want = r.want[k][i], got = static_cast<double>(r.got[k][i]);
      if ((std::isnan(want) && std::isnan(got)) || want == got) continue;
      if (std::abs(want) > 3.4e38 && std::isinf(got) && (want > 0) == (got > 0)) continue;  // no float
      ASSERT_LE(std::abs(got - want), units * 0x1p-24 * std::abs(want) + 1e-37)
          << "result " << k << ", slot " << i << ": " << got << ", not " << want << "\n"
          << explain(p);
    }
}

TEST(npu_program, has_every_operation_at_its_edges) {
  emulated_npu on(compute::float32);
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const floats points = {0, -0.0f, 1e-6f, -1e-6f, 1e-3f, -0.25f, 0.5f, -0.5f,    0.51f,     -0.51f,
                         1, -1.0f, 2.5f,  -3,     20,    -30,    88,   infinity, -infinity, nan};
  inputs in{1, static_cast<extent_t>(points.size() * points.size()), {}, {}, {}};
  in.x_row = in.y_row = in.width, in.x_token = in.y_token = 1;
  for (const float a : points)
    for (const float b : points) in.x.push_back(a), in.y.push_back(b);
  in.rejected = in.y;
  const std::vector<traced> values = {x + y,
                                      traced(2) - x,
                                      x - traced(0.5),
                                      x * y,
                                      traced(3) * x,
                                      x / y,
                                      traced(1) / x,
                                      -x,
                                      math::select(x < y, x, y),
                                      math::select(x <= y, traced(1), x),
                                      math::select(x == y, traced(1), traced(-1)),
                                      math::select(x != traced(0.5), x, y),
                                      math::select(math::any(x < y, y == traced(0)), x, y),
                                      math::select(math::all(!(x < y), x > traced(0)), x, y),
                                      math::min(x, y),
                                      math::max(x, y),
                                      math::clamp(x, -0.5, 2),
                                      math::clamp(x, y, 1),
                                      math::abs(x),
                                      math::sign(x),
                                      math::exp(x),
                                      math::expm1(x),
                                      math::excess(x),
                                      math::sqrt(x),
                                      math::softplus(x),
                                      math::sigmoid(x),
                                      rejected - x};
  for (const traced& v : values) {
    const traced_program p = of({v});
    expect_near_both(run_both(*on, p, in), p, 12);
  }
  // Near 1 a logarithm has the error of its argument; there is no unit of it to compare with.
  for (const traced& v : {math::log(math::abs(x)), math::log1p(math::abs(x))}) {
    const traced_program p = of({v});
    expect_near_both(run_both(*on, p, in), p, 32);
  }
}

TEST(npu_program, repeats_values_of_rows_and_numbers) {
  emulated_npu on(compute::float32);
  inputs in{3, 5, normal(15, 1), normal(3, 2), {}};
  in.rejected = in.x;
  in.x_row = 5, in.x_token = 1, in.y_row = 1;  // y has one value per row
  in.live = floats(15, 1.0f);
  in.live[2] = in.live[9] = 0;
  const traced_program p = of({x * y, math::exp(y), y, x, traced(3), math::exp(traced(0)) * y, x + y * y});
  expect_near_both(run_both(*on, p, in), p);
  in.live.clear();
  expect_near_both(run_both(*on, p, in), p);
}

TEST(npu_program, reads_pairs_in_place) {
  emulated_npu on(compute::float32);
  inputs in{4, 1, normal(8, 1), normal(8, 2), {}};
  in.rejected = floats(in.x.begin() + 1, in.x.end());
  in.rejected.push_back(0);
  in.x_row = in.y_row = 2;
  const traced_program p = of({x - rejected, math::sigmoid(rejected) * y});
  expect_near_both(run_both(*on, p, in), p);
}

TEST(npu_program, takes_memory_that_later_steps_use_again) {
  emulated_npu on(npu_settings{0, compute::float32});  // with its cache of memory
  inputs in{1, 1 << 13, normal(1 << 13, 1), normal(1 << 13, 2), {}};
  in.x_row = in.y_row = in.width, in.x_token = in.y_token = 1, in.rejected = in.x;
  traced v = x;
  for (int i = 0; i < 60; ++i) v = math::sigmoid(v) + y * v - traced(0.1 * i);
  const traced_program p = of({math::clamp(v, -1, 1)});
  const both r = run_both(*on, p, in);
  for (std::size_t i = 0; i < r.got[0].size(); ++i) ASSERT_NEAR(r.got[0][i], r.want[0][i], 1e-4);
  EXPECT_LT(on->queue().memory().statistics().peak, 12 * in.x.size() * sizeof(float));  // of 240 steps
}

TEST(npu_program, without_an_input_is_refused) {
  emulated_npu on(compute::float32);
  const traced_program p = of({x + y});
  program_arrays<float> arrays;
  auto some = room<float>(*on, 4);
  float* const results[] = {some.data()};
  arrays.rows = 1, arrays.width = 4, arrays.results = results, arrays.input[0][0] = {some.data(), 4, 1};
  EXPECT_THROW(on->run(rlcore::op::run_program{.program = p, .arrays = arrays}), std::invalid_argument);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
