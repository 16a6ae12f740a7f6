// AdamW against torch.optim.AdamW in double.
#include "rlcore/optim/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "data/scratch.hpp"
#include "device/cpu/sets.hpp"
#include "optim/golden.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

template <class Values>
void expect_near(const float* ours, const Values& theirs, double relative) {
  for (std::size_t i = 0; i < theirs.size(); ++i)
    ASSERT_NEAR(static_cast<double>(ours[i]), theirs[i], relative * (1e-2 + std::abs(theirs[i]))) << i;
}

class adamw : public testing::TestWithParam<std::string> {};

TEST_P(adamw, torch) {
  cpu device(1, GetParam());
  for (const auto& golden : rlcore_test::optim_golden().at("adamw")) {
    const auto& s = golden.at("settings");
    optim::adamw_settings settings;
    if (s.contains("betas")) settings.beta1 = s.at("betas").at(0), settings.beta2 = s.at("betas").at(1);
    settings.eps = s.value("eps", settings.eps);
    settings.weight_decay = s.value("weight_decay", settings.weight_decay);
    const auto start = golden.at("start").get<std::vector<float>>();
    optim::adamw<cpu> optimizer(device, start.size(), settings);
    std::vector<float> weights = start;
    std::size_t k = 0;
    for (const auto& g : golden.at("gradients")) {
      const auto gradient = g.get<std::vector<float>>();
      optimizer.step(weights, gradient, s.at("lr").get<double>());
      expect_near(weights.data(), golden.at("weights").at(k++).get<std::vector<double>>(), 1e-6);
    }
    EXPECT_EQ(optimizer.steps(), static_cast<std::int64_t>(k));
    expect_near(optimizer.m().data(), golden.at("m").get<std::vector<double>>(), 1e-6);
    expect_near(optimizer.v().data(), golden.at("v").get<std::vector<double>>(), 1e-6);
  }
}

TEST_P(adamw, gradient_scale_is_a_scaled_gradient_and_threads_do_not_show) {
  cpu device(1, GetParam()), three(3, GetParam());
  const std::size_t n = 100003;
  const auto gradient = rlcore_test::normal(n, 1);
  auto half = gradient;
  for (float& g : half) g *= 0.5f;
  std::vector<float> a = rlcore_test::normal(n, 2), b = a, c = a;
  optim::adamw<cpu> x(device, n), y(device, n), z(three, n);
  for (int k = 0; k < 2; ++k) {
    x.step(a, gradient, 1e-3, 0.5f);
    y.step(b, half, 1e-3);
    z.step(c, gradient, 1e-3, 0.5f);
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, c);
}

/// torch's parameter groups: some weights with decay, the others without.
TEST_P(adamw, exempt_weights_do_not_decay) {
  cpu device(1, GetParam());
  const std::size_t n = 1000;
  const auto gradient = rlcore_test::normal(n, 1), start = rlcore_test::normal(n, 2);
  std::vector<float> mixed = start, decayed = start, kept = start;
  optim::adamw<cpu> some(device, n, {.weight_decay = 0.1}), all(device, n, {.weight_decay = 0.1}),
      none(device, n, {.weight_decay = 0});
  some.exempt(3, 40), some.exempt(40, 41), some.exempt(990, n);
  EXPECT_THROW(some.exempt(10, 20), std::invalid_argument);
  EXPECT_THROW(all.exempt(0, n + 1), std::invalid_argument);
  for (int k = 0; k < 3; ++k) {
    some.step(mixed, gradient, 1e-2);
    all.step(decayed, gradient, 1e-2);
    none.step(kept, gradient, 1e-2);
  }
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mixed[i], (i >= 3 && i < 41) || i >= 990 ? kept[i] : decayed[i]) << i;
  EXPECT_NE(kept, decayed);
}

TEST_P(adamw, frozen_weights_and_their_moments_stay) {
  cpu device(1, GetParam());
  const std::size_t n = 1000;
  const auto gradient = rlcore_test::normal(n, 1), start = rlcore_test::normal(n, 2);
  std::vector<float> some = start, all = start;
  optim::adamw<cpu> a(device, n, {.weight_decay = 0.1}), b(device, n, {.weight_decay = 0.1});
  for (auto* each : {&a, &b}) each->exempt(0, 5), each->exempt(35, 60);
  a.freeze(3, 40), a.freeze(40, 41), a.freeze(990, n);
  EXPECT_THROW(a.freeze(10, 20), std::invalid_argument);
  EXPECT_THROW(b.freeze(0, n + 1), std::invalid_argument);
  for (int k = 0; k < 3; ++k) a.step(some, gradient, 1e-2), b.step(all, gradient, 1e-2);
  for (std::size_t i = 0; i < n; ++i) {
    const bool frozen = (i >= 3 && i < 41) || i >= 990;
    ASSERT_EQ(some[i], frozen ? start[i] : all[i]) << i;
    ASSERT_EQ(a.m().data()[i], frozen ? 0 : b.m().data()[i]) << i;
    ASSERT_EQ(a.v().data()[i], frozen ? 0 : b.v().data()[i]) << i;
  }
}

TEST_P(adamw, restored_state_continues_with_the_same_bits) {
  cpu device(1, GetParam());
  const auto gradient = rlcore_test::normal(100, 1);
  std::vector<float> whole = rlcore_test::normal(100, 2), resumed = whole;
  optim::adamw<cpu> a(device, 100), b(device, 100);
  for (int k = 0; k < 5; ++k) a.step(whole, gradient, 1e-3);
  for (int k = 0; k < 2; ++k) b.step(resumed, gradient, 1e-3);
  optim::adamw<cpu> c(device, 100);
  std::copy_n(b.m().data(), 100, c.m().data());
  std::copy_n(b.v().data(), 100, c.v().data());
  c.set_steps(b.steps());
  for (int k = 0; k < 3; ++k) c.step(resumed, gradient, 1e-3);
  EXPECT_EQ(whole, resumed);
  EXPECT_THROW(c.step(resumed, std::vector<float>(99), 1e-3), std::invalid_argument);
}

/// In memory of the host and in a file, which the CPU works on: no bit differs.
TEST_P(adamw, offloaded_moments_change_no_bit) {
  cpu device(1, GetParam());
  const scratch::folder place;
  const std::size_t n = (std::size_t{1} << 22) + 1000;
  const auto gradient = rlcore_test::normal(n, 1), start = rlcore_test::normal(n, 2);
  const auto after = [&](const optim::moment_place& where) {
    std::vector<float> weights = start, m(n), v(n);
    optim::adamw<cpu> o(device, n, {.weight_decay = 0.1, .moments = where});
    EXPECT_EQ(o.m().offloaded(), where.host);
    o.exempt(3, 5000);
    o.freeze(100, 200);
    for (int k = 0; k < 2; ++k) o.step(weights, gradient, 1e-2);
    o.m().download(m), o.v().download(v);
    optim::adamw<cpu> resumed(device, n, {.weight_decay = 0.1, .moments = where});
    resumed.m().upload(m), resumed.v().upload(v);
    resumed.set_steps(o.steps());
    resumed.step(weights, gradient, 1e-2);
    resumed.reset();
    resumed.m().download(std::span(m).first(10), n - 10);
    EXPECT_EQ(m[9], 0);
    return std::tuple(weights, v);
  };
  const auto expected = after({});
  EXPECT_TRUE(after({.host = true}) == expected);
  EXPECT_TRUE(after({.host = true, .folder = place.path().string()}) == expected);
  EXPECT_TRUE(std::filesystem::is_empty(place.path())) << "the file has a name";
}

TEST(offloaded_moments, of_a_folder_that_cannot_hold_them_are_refused_with_its_name) {
  cpu device(1);
  const scratch::folder place;
  const auto refusal = [&](std::size_t size, const std::string& folder) {
    try {
      const optim::adamw<cpu> o(device, size, {.moments = {.host = true, .folder = folder}});
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const std::string none = (place / "none").string(), here = place.path().string();
  EXPECT_EQ(refusal(1000, none), "cannot keep 4000 bytes in " + none + ": No such file or directory");
  const std::size_t most = std::size_t{1} << 61;  // more than a file can have
  EXPECT_EQ(refusal(most, here).find("cannot keep 9223372036854775808 bytes in " + here + ": "), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
}

INSTANTIATE_TEST_SUITE_P(sets, adamw, testing::ValuesIn(rlcore_test::instruction_sets()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
