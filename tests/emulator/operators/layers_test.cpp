#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "emulator/operators_fixture.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

using nlohmann::json;

const json& golden() {
  static const json all = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/npu_operators.json"));
  return all;
}
numbers values(const json& j) { return j.get<numbers>(); }
dims shape_of(const json& j) { return j.get<dims>(); }

emulated::settings of_version(int cann) {
  emulated::settings s;
  s.cann_version = cann;
  return s;
}

struct layers : operators_test, testing::WithParamInterface<data_type> {
  const data_type type = GetParam();
  /// One rounding to the type, and some in float before it.
  const double one_rounding = unit_roundoff(type) + 16 * 0x1p-24;
};
INSTANTIATE_TEST_SUITE_P(types, layers, testing::Values(data_type::float32, data_type::bfloat16, data_type::float16),
                         name_of_type);

TEST_P(layers, softmax_and_its_gradient) {
  for (const auto& c : golden()["softmax"]) {
    const dims shape = shape_of(c["shape"]);
    const std::int64_t dim = c["dim"];
    auto &x = make(type, shape, values(c["x"])), &y = make(type, shape);
    ASSERT_EQ(run(op.aclnnSoftmax, x, dim, y), 0);
    expect_near(get(y), values(c["y"]), one_rounding, 1e-4);
    auto &dy = make(type, shape, values(c["dy"])), &exact = make(data_type::float32, shape, values(c["y"])),
         &dx = make(type, shape);
    auto& dy_float = make(data_type::float32, shape, values(c["dy"]));
    ASSERT_EQ(run(op.aclnnSoftmaxBackward, dy_float, exact, dim, dx), 0) << "float32 inputs, output of the type";
    expect_near(get(dx), values(c["dx"]), one_rounding, 1e-2);
    ASSERT_EQ(run(op.aclnnSoftmaxBackward, dy, y, dim, dx), 0);
    expect_near(get(dx), values(c["dx"]), 4 * one_rounding, 1);  // of the rounded y
  }
}

TEST_P(layers, log_softmax) {
  for (const auto& c : golden()["log_softmax"]) {
    const dims shape = shape_of(c["shape"]);
    auto &x = make(type, shape, values(c["x"])), &y = make(type, shape);
    ASSERT_EQ(run(op.aclnnLogSoftmax, x, c["dim"].get<std::int64_t>(), y), 0);
    // float16 rounds x - max as well
    expect_near(get(y), values(c["y"]), (type == data_type::float16 ? 2 : 1) * one_rounding, 0.5);
  }
}

TEST_P(layers, rms_norm_and_its_gradient) {
  for (const auto& c : golden()["rms_norm"]) {
    const std::int64_t rows = c["rows"], width = c["width"];
    const double eps = c["eps"];
    for (const auto gamma_type : {type, data_type::float32}) {
      auto &x = make(type, {rows, width}, values(c["x"]), {width + 3, 1}, 1), &y = make(type, {rows, width}),
           &gamma = make(gamma_type, {width}, values(c["gamma"])), &rstd = make(data_type::float32, {rows, 1}),
           &flat = make(data_type::float32, {rows});
      ASSERT_EQ(run(op.aclnnRmsNorm, x, gamma, eps, y, rstd), 0);
      expect_near(get(y), values(c["y"]), one_rounding, 1e-3);
      expect_near(get(rstd), values(c["rstd"]), 1e-6);
      ASSERT_EQ(run(op.aclnnRmsNorm, x, gamma, eps, y, flat), 0);
      EXPECT_EQ(get(flat), get(rstd));
      auto &dy = make(type, {rows, width}, values(c["dy"])), &dx = make(type, {rows, width}),
           &dgamma = make(data_type::float32, {width});
      ASSERT_EQ(run(op.aclnnRmsNormGrad, dy, x, rstd, gamma, dx, dgamma), 0);
      expect_near(get(dx), values(c["dx"]), one_rounding, 0.5);
      expect_near(get(dgamma), values(c["dgamma"]), 1e-6, 1);
    }
  }
}

TEST_P(layers, add_rms_norm_norms_the_sum_and_rounds_before_gamma) {
  const auto& c = golden()["rms_norm"][0];
  const std::int64_t rows = c["rows"], width = c["width"];
  const double eps = c["eps"];
  const numbers a = values(c["x"]), b = random(a.size(), type, 3, 0.01), g = values(c["gamma"]);
  auto &x1 = make(type, {rows, width}, a), &x2 = make(type, {rows, width}, b), &y = make(type, {rows, width}),
       &gamma = make(type, {width}, g), &rstd = make(data_type::float32, {rows}), &x = make(type, {rows, width});
  ASSERT_EQ(run(op.aclnnAddRmsNorm, x1, x2, gamma, eps, y, rstd, x), 0);
  const numbers got = get(y), r = get(rstd), sum = get(x);
  const auto w = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(sum[i], stored(a[i] + b[i], type));
    // what bfloat16 norms was not rounded
    const double normed = type == data_type::float16 ? sum[i] : stored(a[i] + b[i], data_type::float32);
    const double product = stored(stored(normed * r[i / w], data_type::float32), type) * g[i % w];
    ASSERT_EQ(got[i], stored(product, type)) << i;
  }
  for (std::size_t row = 0; row < r.size(); ++row) {
    double squares = 0;
    for (std::size_t k = 0; k < w; ++k) {
      const double v = type == data_type::float16 ? sum[row * w + k] : a[row * w + k] + b[row * w + k];
      squares += v * v;
    }
    EXPECT_NEAR(r[row], 1 / std::sqrt(squares / static_cast<double>(w) + eps), 1e-6 * r[row]);
  }
}

TEST_P(layers, swiglu_and_its_gradient) {
  for (const auto& c : golden()["swiglu"]) {
    const std::int64_t rows = c["rows"], width = c["width"];
    auto &x = make(type, {rows, 2 * width}, values(c["x"])), &y = make(type, {rows, width}),
         &dy = make(type, {rows, width}, values(c["dy"])), &dx = make(type, {rows, 2 * width});
    ASSERT_EQ(run(op.aclnnSwiGlu, x, -1, y), 0);
    expect_near(get(y), values(c["y"]), one_rounding, 1e-3);
    ASSERT_EQ(run(op.aclnnSwiGluGrad, dy, x, -1, dx), 0);
    expect_near(get(dx), values(c["dx"]), one_rounding, 0.5);
  }
}

TEST_P(layers, rope) {
  restart(of_version(80500));
  for (const auto& c : golden()["rope"]) {
    const std::int64_t t = c["tokens"], h = c["heads"], w = c["width"], mode = c["mode"];
    auto &x = make(type, {t, h, w}, values(c["x"])), &cosine = make(type, {t, 1, w}, values(c["cos"])),
         &sine = make(type, {t, 1, w}, values(c["sin"])), &y = make(type, {t, h, w});
    ASSERT_EQ(run(op.aclnnRotaryPositionEmbedding, x, cosine, sine, mode, y), 0);
    expect_near(get(y), values(c["y"]), one_rounding, 0.5);
    auto &x4 = make(type, {1, t, h, w}, values(c["x"])), &c4 = make(type, {1, t, 1, w}, values(c["cos"])),
         &s4 = make(type, {1, t, 1, w}, values(c["sin"])), &y4 = make(type, {1, t, h, w});
    ASSERT_EQ(run(op.aclnnRotaryPositionEmbedding, x4, c4, s4, mode, y4), 0);
    EXPECT_EQ(get(y4), get(y));
  }
}

struct layer_rules : operators_test {};

TEST_F(layer_rules, rope_refuses_what_the_documentation_excludes) {
  const auto status = [&](const dims& x, const dims& c, std::int64_t mode, data_type other = data_type::bfloat16) {
    auto &t = make(data_type::bfloat16, x), &y = make(data_type::bfloat16, x), &cosine = make(other, c),
         &sine = make(other, c);
    return plan(op.aclnnRotaryPositionEmbedding, t, cosine, sine, mode, y);
  };
  EXPECT_EQ(status({1, 14, 4}, {1, 1, 4}, 0), 561002) << "TND before 8.5";
  restart(of_version(80500));
  EXPECT_EQ(status({1, 14, 4, 64}, {1, 1, 4, 64}, 0), 0) << "BNSD";
  EXPECT_EQ(status({2, 14, 3, 64}, {1, 1, 3, 64}, 0), 561002) << "short sequences in BNSD";
  EXPECT_EQ(status({1, 1, 14, 64}, {1, 1, 1, 64}, 0), 0) << "decoding in BSND";
  EXPECT_EQ(status({8, 1, 1, 64}, {8, 1, 1, 64}, 0), 0) << "SBND";
  EXPECT_EQ(status({1, 14, 4}, {1, 1, 4}, 0), 0) << "TND";
  EXPECT_EQ(status({1, 2, 4, 896}, {1, 2, 1, 896}, 0), 161002);
  EXPECT_EQ(status({1, 2, 4, 63}, {1, 2, 1, 63}, 0), 161002);
  EXPECT_EQ(status({1, 2, 4, 64}, {1, 2, 1, 64}, 2), 161002) << "mode";
  EXPECT_EQ(status({1, 1000, 4, 64}, {1, 1, 4, 64}, 0), 161002) << "1000 heads";
  EXPECT_EQ(status({1, 2, 4, 64}, {1, 2, 1, 32}, 0), 161002) << "cos of half the width";
  EXPECT_EQ(status({1, 2, 4, 64}, {1, 2, 1, 64}, 0, data_type::float32), 561002) << "types";
}

TEST_F(layer_rules, rms_norm_rounds_once_and_sums_by_folding) {
  const std::size_t n = 256;
  const auto a = random(n, data_type::bfloat16, 1), g = random(n, data_type::bfloat16, 2);
  auto &x = make(data_type::bfloat16, {1, 256}, a), &gamma = make(data_type::bfloat16, {256}, g),
       &y = make(data_type::bfloat16, {1, 256}), &rstd = make(data_type::float32, {1});
  ASSERT_EQ(run(op.aclnnRmsNorm, x, gamma, 1e-6, y, rstd), 0);
  const double r = get(rstd)[0];
  int twice = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto product = static_cast<float>(static_cast<float>(a[i] * r) * static_cast<float>(g[i]));
    EXPECT_EQ(get(y)[i], stored(static_cast<double>(product), data_type::bfloat16));
    twice += get(y)[i] != stored(stored(a[i] * r, data_type::bfloat16) * g[i], data_type::bfloat16);
  }
  EXPECT_GT(twice, 20) << "what PyTorch models compute differs";
  // 1, 63 zeros, twice 2^-24: added to 1 one by one they are lost, which happens when they are folded to the front;
  // summed on their own first they are not
  float parts[66] = {1};
  parts[64] = parts[65] = 0x1p-24f;
  EXPECT_EQ(emulated::row_sum(parts, 66), 1 + 0x1p-23f);
  EXPECT_EQ(emulated::folded_sum(parts, 66), 1);
  float halves[4] = {1, 0x1p-24f, 0x1p-24f, 1};
  EXPECT_EQ(emulated::tree_sum(halves, 4), 2);
  float pairs[4] = {0x1p-24f, 0x1p-24f, 1, 0};
  EXPECT_EQ(emulated::tree_sum(pairs, 4), 1 + 0x1p-23f) << "neighbours first";
}

TEST_F(layer_rules, a_small_rstd_is_written_past_its_end) {
  auto &x = make(data_type::float32, {3, 64}), &gamma = make(data_type::float32, {64}),
       &y = make(data_type::float32, {3, 64}), &rstd = make(data_type::float32, {2});
  EXPECT_EQ(run(op.aclnnRmsNorm, x, gamma, 1e-6, y, rstd), 507015) << "found on the device alone";
  auto& wrong = make(data_type::float32, {32});
  EXPECT_EQ(plan(op.aclnnRmsNorm, x, wrong, 1e-6, y, rstd), 161002);
  auto& half = make(data_type::bfloat16, {3, 64});
  EXPECT_EQ(plan(op.aclnnRmsNorm, x, gamma, 1e-6, half, rstd), 161002);
  auto& low = make(data_type::bfloat16, {64});
  EXPECT_EQ(plan(op.aclnnRmsNorm, x, low, 1e-6, y, rstd), 161002) << "gamma of 16 bits with x of 32";
  EXPECT_EQ(plan(op.aclnnRmsNorm, x, gamma, 1e-6, y, nullptr), 161001);
}

TEST_F(layer_rules, dgamma_depends_on_the_order_of_the_cores_unless_deterministic) {
  const auto a = random(200 * 64, data_type::float32, 1), g = random(200 * 64, data_type::float32, 2);
  auto &x = make(data_type::float32, {200, 64}, a), &dy = make(data_type::float32, {200, 64}, g),
       &gamma = make(data_type::float32, {64}, numbers(64, 1)),
       &rstd = make(data_type::float32, {200}, numbers(200, 1)), &dx = make(data_type::float32, {200, 64}),
       &dgamma = make(data_type::float32, {64});
  const auto sums = [&] {
    EXPECT_EQ(run(op.aclnnRmsNormGrad, dy, x, rstd, gamma, dx, dgamma), 0);
    return get(dgamma);
  };
  std::set<numbers> different;
  for (int i = 0; i < 4; ++i) different.insert(sums());
  EXPECT_GT(different.size(), 1u);
  deterministic(true);
  EXPECT_EQ(sums(), sums());
  EXPECT_EQ(plan(op.aclnnRmsNormGrad, dy, x, gamma, gamma, dx, dgamma), 161002) << "rstd has other rows";
}

TEST_F(layer_rules, gates_have_even_and_aligned_halves) {
  auto &odd = make(data_type::float32, {2, 33}), &y = make(data_type::float32, {2, 16}),
       &x = make(data_type::float32, {2, 24}), &dy = make(data_type::float32, {2, 12}),
       &dx = make(data_type::float32, {2, 24});
  EXPECT_EQ(plan(op.aclnnSwiGlu, odd, -1, y), 161002);
  EXPECT_EQ(plan(op.aclnnSwiGlu, x, -1, dy), 0);
  EXPECT_EQ(plan(op.aclnnSwiGlu, x, 2, dy), 161002);
  EXPECT_EQ(plan(op.aclnnSwiGluGrad, dy, x, -1, dx), 561002) << "48 bytes";
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
