#include <fstream>
#include <nlohmann/json.hpp>

#include "emulator/operators_fixture.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

using nlohmann::json;

struct optimizer : operators_test {
  const json golden = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/npu_operators.json"))["adamw"];

  void follow(const json& c, data_type type, data_type gradient_type, bool step_is_integer, double bound) {
    const std::int64_t n = c["n"];
    const bool amsgrad = c["amsgrad"], maximize = c["maximize"];
    const numbers zero(static_cast<std::size_t>(n));
    auto &w = make(type, {n}, c["w"]), &m = make(type, {n}, zero), &v = make(type, {n}, zero),
         &top = make(type, {n}, zero);
    double t = 0;
    for (const auto& gradient : c["gradients"]) {
      auto& g = make(gradient_type, {n}, gradient);
      auto& step = make(step_is_integer ? data_type::int64 : data_type::float32, {1}, {t++});
      ASSERT_EQ(run(op.aclnnApplyAdamWV2, w, m, v, amsgrad ? top : static_cast<ascend::aclTensor*>(nullptr), g, step,
                    0.01f, 0.9f, 0.99f, 0.1f, 1e-6f, amsgrad, maximize),
                0);
    }
    expect_near(get(w), c["after"], bound, 0.1);
    expect_near(get(m), c["m"], bound, 0.1);
    expect_near(get(v), c["v"], bound, 0.01);
    if (amsgrad) expect_near(get(top), c["top"], bound, 0.01);
  }
};

TEST_F(optimizer, follows_pytorch) {
  for (const auto& c : golden) {
    follow(c, data_type::float32, data_type::float32, false, 2e-6);
    follow(c, data_type::float32, data_type::bfloat16, true, 2e-6);
    follow(c, data_type::bfloat16, data_type::bfloat16, true, 3 * 0x1p-8);
    follow(c, data_type::float16, data_type::float16, false, 3 * 0x1p-11);
  }
}

TEST_F(optimizer, bfloat16_states_round_ties_away_and_float16_states_to_even) {
  const auto decayed = [&](data_type type, double weight, float decay) {
    auto &w = make(type, {1}, {weight}), &m = make(type, {1}, {0}), &v = make(type, {1}, {1}),
         &g = make(type, {1}, {0}), &step = make(data_type::float32, {1}, {1});
    EXPECT_EQ(run(op.aclnnApplyAdamWV2, w, m, v, nullptr, g, step, 1.f, 0.5f, 0.5f, decay, 1e-8f, false, false), 0);
    return get(w)[0];
  };
  EXPECT_EQ(decayed(data_type::bfloat16, 1 + 0x1p-7, 0x1p-8f), 1) << "1 + 2^-8 - 2^-15: just below a tie";
  EXPECT_EQ(decayed(data_type::bfloat16, 2, -0x1p-8f), 2 + 0x1p-6) << "2 + 2^-7 is a tie: away from zero";
  EXPECT_EQ(decayed(data_type::float16, 2, -0x1p-11f), 2) << "2 + 2^-10 is a tie: to even";
}

TEST_F(optimizer, misuse_is_refused) {
  auto &w = make(data_type::float32, {4}), &m = make(data_type::float32, {4}), &v = make(data_type::float32, {4}),
       &g = make(data_type::float32, {4}), &step = make(data_type::float32, {1}), &h = make(data_type::bfloat16, {4}),
       &two = make(data_type::float32, {2});
  const auto status = [&](auto* var, auto* grad, auto* t, bool amsgrad) {
    return plan(op.aclnnApplyAdamWV2, var, m, v, nullptr, grad, t, 1e-3f, 0.9f, 0.99f, 0.f, 1e-8f, amsgrad, false);
  };
  EXPECT_EQ(status(w.handle, g.handle, step.handle, false), 0);
  EXPECT_EQ(status(h.handle, g.handle, step.handle, false), 161002) << "states of two types";
  EXPECT_EQ(status(w.handle, h.handle, step.handle, false), 0);
  EXPECT_EQ(status(w.handle, g.handle, two.handle, false), 161002) << "two steps";
  EXPECT_EQ(status(w.handle, g.handle, h.handle, false), 161002) << "type of the step";
  EXPECT_EQ(status(w.handle, g.handle, static_cast<ascend::aclTensor*>(nullptr), false), 161001);
  EXPECT_EQ(status(w.handle, g.handle, step.handle, true), 161001) << "amsgrad without a maximum";
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
