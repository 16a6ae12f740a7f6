// Returns, GAE, whitening and the KL in the reward on emulated NPUs and GPUs against the host in double.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

#include "device/advantage_batch.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

constexpr turn_policy every_turn[] = {turn_policy::skip, turn_policy::discount, turn_policy::reset};
constexpr std::pair<extent_t, extent_t> shapes[] = {{11, 37}, {3, 1}, {1, 64}, {4, 2}, {2, 129}, {130, 3}};

/// f for every device, layout and shape.
template <class F>
void everywhere(const F& f) {
  const auto on = [&](auto& device) {
    for (const slots form : every_layout)
      for (const auto& [rows, width] : shapes) {
        f(device, token_arrays(device, form, rows, width));
        if (testing::Test::HasFatalFailure()) return;
      }
  };
  for (const int version : {80100, 80300, 80500, 90100}) on(*emulated_npu(compute::float32, {}, version));
  on_cuda(on);
}

doubles sized(const auto& a) { return doubles(static_cast<std::size_t>(a.rows * a.width)); }
view<double, 2> as_matrix(doubles& x, const auto& a) { return {x.data(), {a.rows, a.width}}; }

/// What a discounted sum adds up in absolute terms: |r| and |V| of the slot, gamma |V| of the next.
std::pair<doubles, doubles> terms_of(const gae& g, const auto& rewards, const auto& values, const auto& a) {
  doubles r(rewards.host), v(values.host);
  for (std::size_t k = 0; k < r.size(); ++k) v[k] = std::abs(v[k]), r[k] = std::abs(r[k]) + 2 * v[k];
  doubles advantages = sized(a), returns = sized(a);
  auto to = as_matrix(advantages, a), also = as_matrix(returns, a);
  g(as_matrix(r, a), as_matrix(v, a), a.on_host(), to, also);
  return {advantages, returns};
}

template <class Device>
void check_gae(Device& d, const token_arrays<Device>& a, const gae& g) {
  const device_matrix<Device> rewards = a.random(d, 1, 1), values = a.random(d, 2, 0.7, 0.3);
  doubles want = sized(a), want_returns = sized(a);
  auto to = as_matrix(want, a), also = as_matrix(want_returns, a);
  g(rewards.in_double(), values.in_double(), a.on_host(), to, also);
  const auto [terms, return_terms] = terms_of(g, rewards, values, a);
  tensor<float, 2, Device> advantages(d, {a.rows, a.width}), returns(d, {a.rows, a.width}), alone(d, {a.rows, a.width});
  compute_advantages(d, g, rewards.here, values.here, a.on_device(), advantages, returns);
  const std::string what = a.text() + ", gamma " + std::to_string(g.gamma) + ", lambda " + std::to_string(g.lambda) +
                           ", turns " + std::to_string(static_cast<int>(g.turns));
  expect_advantages(fetched(advantages), want, terms, what);
  expect_advantages(fetched(returns), want_returns, return_terms, what + ", returns");
  compute_advantages(d, g, rewards.here, values.here, a.on_device(), alone);
  EXPECT_EQ(fetched(alone), fetched(advantages)) << what;
}

TEST(device_returns, of_gae_are_those_of_the_host) {
  everywhere([]<class Device>(Device& d, const token_arrays<Device>& a) {
    for (const turn_policy turns : every_turn) {
      check_gae(d, a, {.turns = turns});
      check_gae(d, a, {.gamma = 0.99, .lambda = 0.95, .critic_lambda = 1, .turns = turns});
      check_gae(d, a, {.gamma = 1, .lambda = 0, .turns = turns});
      check_gae(d, a, {.gamma = 0.999, .lambda = 0.9999, .turns = turns});
    }
  });
}

TEST(device_returns, of_long_rows_lose_no_digits) {
  everywhere_once([]<class Device>(Device& d) {
    for (const slots form : {slots::all, slots::gaps})
      for (const turn_policy turns : every_turn)
        check_gae(d, token_arrays<Device>(d, form, 2, 3001), {.gamma = 0.9995, .lambda = 1, .turns = turns});
  });
}

TEST(device_returns, and_remax_are_those_of_the_host) {
  everywhere([]<class Device>(Device& d, const token_arrays<Device>& a) {
    const device_matrix<Device> rewards = a.random(d, 3, 1);
    const floats baseline = normal(a.rows, 4);
    tensor<float, 1, Device> baselines(d, {a.rows});
    baselines.memory().upload(baseline);
    tensor<float, 2, Device> out(d, {a.rows, a.width});
    doubles absolute_rewards(rewards.host);
    for (double& r : absolute_rewards) r = std::abs(r);
    for (const turn_policy turns : every_turn) {
      const discounted_return g{.gamma = 0.97, .turns = turns};
      doubles want = sized(a), terms = sized(a), less = sized(a);
      auto to = as_matrix(want, a), sums = as_matrix(terms, a), less_to = as_matrix(less, a);
      g(rewards.in_double(), a.on_host(), to);
      g(as_matrix(absolute_rewards, a), a.on_host(), sums);
      compute_advantages(d, g, rewards.here, a.on_device(), out);
      expect_advantages(fetched(out), want, terms, a.text());

      remax{turns}(rewards.in_double(), baseline, a.on_host(), less_to);
      discounted_return{.turns = turns}(as_matrix(absolute_rewards, a), a.on_host(), sums);
      for (std::size_t k = 0; k < terms.size(); ++k)
        terms[k] += std::abs(static_cast<double>(baseline[k / static_cast<std::size_t>(a.width)]));
      compute_advantages(d, remax{turns}, rewards.here, baselines, a.on_device(), out);
      expect_advantages(fetched(out), less, terms, a.text() + ", remax");
    }
  });
}

/// (|x| + |mean|) scale of every slot that counts, and + |mean| where it is added back.
doubles whitening_terms(const whitening& w, const doubles& x, const auto& a) {
  doubles from(x);
  const auto v = as_matrix(from, a);
  const auto sums = w.sums(v, a.on_host());
  const affine map = w.map(sums, w.deviations(v, a.on_host(), sums.mean()));
  doubles terms(x);
  for (double& t : terms) t = (std::abs(t) + std::abs(map.centre)) * map.scale + std::abs(map.shift);
  return terms;
}

TEST(device_whitening, is_that_of_the_host) {
  everywhere([]<class Device>(Device& d, const token_arrays<Device>& a) {
    const device_matrix<Device> x = a.random(d, 5, 2, 1.5);
    const whitening settings[] = {{},
                                  {.epsilon = 0.5, .guard = variance_guard::floor, .sample_variance = false},
                                  {.epsilon = 100, .guard = variance_guard::floor},
                                  {.epsilon = 1e-4, .guard = variance_guard::add_to_deviation},
                                  {.centre = false},
                                  {.scale = false}};
    for (const whitening& w : settings) {
      doubles want = sized(a);
      auto to = as_matrix(want, a);
      w(x.in_double(), a.on_host(), to);
      tensor<float, 2, Device> out(d, {a.rows, a.width});
      compute_advantages(d, w, x.here, a.on_device(), out);
      expect_advantages(fetched(out), want, whitening_terms(w, x.host, a), a.text());
      const floats back = fetched(out);
      for (std::size_t k = 0; k < want.size(); ++k)
        if (a.mask[k] == 0) {
          ASSERT_EQ(back[k], 0);
        }
    }
  });
}

TEST(device_whitening, of_equal_values_is_exactly_nothing) {
  everywhere_once([]<class Device>(Device& d) {
    const token_arrays<Device> a(d, slots::gaps, 7, 13);
    floats same(7 * 13, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t k = 0; k < same.size(); ++k)
      if (a.mask[k] != 0) same[k] = 0.1f;
    device_matrix<Device> x(d, 7, 13, same);
    compute_advantages(d, whitening{.epsilon = 0}, x.here, a.on_device(), x.here);
    EXPECT_THAT(fetched(x.here), testing::Each(0.0f));
    x.here.memory().upload(same);
    compute_advantages(d, whitening{.centre = false}, x.here, a.on_device(), x.here);
    const floats back = fetched(x.here);
    for (std::size_t k = 0; k < same.size(); ++k) EXPECT_EQ(back[k], a.mask[k] != 0 ? 0.1f : 0.0f);
  });
}

TEST(device_whitening, of_a_live_nan_or_infinity_shows_it) {
  everywhere_once([]<class Device>(Device& d) {
    for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
      device_matrix<Device> x(d, 2, 2, {1, 2, wrong, 4});
      compute_advantages(d, whitening{}, x.here, {}, x.here);
      for (const float y : fetched(x.here)) EXPECT_TRUE(std::isnan(y)) << wrong;
    }
  });
}

TEST(device_advantages, of_reinforce_plus_plus_and_ppo_are_those_of_the_host) {
  everywhere([]<class Device>(Device& d, const token_arrays<Device>& a) {
    const device_matrix<Device> rewards = a.random(d, 6, 1), values = a.random(d, 7, 1);
    doubles want = sized(a), want_returns = sized(a);
    auto to = as_matrix(want, a), also = as_matrix(want_returns, a);
    tensor<float, 2, Device> out(d, {a.rows, a.width}), returns(d, {a.rows, a.width});
    const auto scaled_terms = [&](const doubles& terms, const doubles& unscaled) {
      const doubles scale = whitening_terms({}, doubles(terms.size(), 0.0), a), of = whitening_terms({}, unscaled, a);
      doubles all(terms);
      double largest = 0;  // a sum of the statistics adds up all of them
      for (std::size_t k = 0; k < all.size(); ++k)
        if (a.mask[k] != 0) largest = std::max(largest, terms[k]);
      for (std::size_t k = 0; k < all.size(); ++k)
        all[k] = a.mask[k] == 0 ? 0 : (unscaled[k] == 0 ? 1 : of[k] / std::abs(unscaled[k])) * (terms[k] + largest);
      return all;
    };
    const reinforce_plus_plus r{.gamma = 0.9};
    r(rewards.in_double(), a.on_host(), to, also);
    compute_advantages(d, r, rewards.here, a.on_device(), out, returns);
    doubles absolute(rewards.host), terms = sized(a);
    for (double& x : absolute) x = std::abs(x);
    auto sums = as_matrix(terms, a);
    discounted_return{.gamma = 0.9}(as_matrix(absolute, a), a.on_host(), sums);
    expect_advantages(fetched(returns), want_returns, terms, a.text());
    expect_advantages(fetched(out), want, scaled_terms(terms, want_returns), a.text() + ", reinforce++");

    const whitened ppo{gae{.lambda = 0.95}};
    ppo(rewards.in_double(), values.in_double(), a.on_host(), to, also);
    compute_advantages(d, ppo, rewards.here, values.here, a.on_device(), out, returns);
    const auto [gae_terms, return_terms] = terms_of(ppo.estimator, rewards, values, a);
    doubles raw = sized(a);
    auto raw_to = as_matrix(raw, a);
    ppo.estimator(rewards.in_double(), values.in_double(), a.on_host(), raw_to);
    expect_advantages(fetched(returns), want_returns, return_terms, a.text());
    expect_advantages(fetched(out), want, scaled_terms(gae_terms, raw), a.text() + ", ppo");
  });
}

TEST(device_rewards, hold_the_kl_and_the_score_at_the_last_token) {
  everywhere([]<class Device>(Device& d, const token_arrays<Device>& a) {
    const device_matrix<Device> old_logp = a.random(d, 8, 0.3, -1), ref_logp = a.random(d, 9, 0.3, -1);
    floats score = normal(a.rows, 10);
    if (a.rows > 2) score[2] = std::numeric_limits<float>::quiet_NaN();  // nobody scored it
    tensor<float, 1, Device> scores(d, {a.rows}), totals(d, {a.rows});
    scores.memory().upload(score);
    tensor<float, 2, Device> out(d, {a.rows, a.width});
    const auto terms = [&](double coefficient, const doubles& want) {
      doubles all(want);
      for (std::size_t k = 0; k < all.size(); ++k) {
        const double s = static_cast<double>(score[k / static_cast<std::size_t>(a.width)]);
        all[k] = std::abs(want[k]) + coefficient * (std::abs(old_logp.host[k]) + std::abs(ref_logp.host[k])) +
                 2 * (std::isnan(s) ? 0 : std::abs(s));
        if (a.mask[k] == 0) all[k] = 0;
      }
      return all;
    };
    for (const kl_kind kind : {kl_kind::k1, kl_kind::abs_kl, kl_kind::k2, kl_kind::k3}) {
      const token_rewards r{.kind = kind, .coefficient = 0.1};
      doubles want = sized(a);
      auto to = as_matrix(want, a);
      r(score, old_logp.in_double(), ref_logp.in_double(), a.on_host(), to);
      compute_rewards(d, r, scores, old_logp.here, ref_logp.here, a.on_device(), out);
      expect_advantages(fetched(out), want, terms(0.1, want), a.text() + ", kl " + std::to_string(int(kind)));
    }
    doubles want = sized(a), total(static_cast<std::size_t>(a.rows)), total_terms(total);
    auto to = as_matrix(want, a);
    token_rewards{}(score, a.on_host(), to);
    compute_rewards(d, token_rewards{}, scores, a.on_device(), out);
    const floats back = fetched(out);
    for (std::size_t k = 0; k < want.size(); ++k) ASSERT_EQ(back[k], static_cast<float>(want[k])) << a.text();

    row_totals(old_logp.in_double(), a.on_host(), total);
    row_totals(d, old_logp.here, a.on_device(), totals);
    doubles absolute(old_logp.host);
    for (double& x : absolute) x = std::abs(x);
    row_totals(as_matrix(absolute, a), a.on_host(), total_terms);
    expect_advantages(fetched(totals), total, total_terms, a.text() + ", totals");
  });
}

TEST(device_advantages, of_nothing_are_nothing) {
  everywhere_once([]<class Device>(Device& d) {
    for (const auto& [rows, width] : {std::pair<extent_t, extent_t>{0, 5}, {3, 0}}) {
      tensor<float, 2, Device> x(d, {rows, width}), y(d, {rows, width});
      tensor<float, 1, Device> per_row(d, {rows});
      per_row.memory().upload(floats(static_cast<std::size_t>(rows), 1));
      compute_advantages(d, gae{}, x, x, {}, y, y);
      compute_advantages(d, reinforce_plus_plus{}, x, {}, y);
      compute_advantages(d, remax{}, x, per_row, {}, y);
      compute_advantages(d, whitening{}, x, {}, y);
      compute_rewards(d, token_rewards{}, per_row, x, x, {}, y);
      row_totals(d, x, {}, per_row);
      EXPECT_THAT(fetched(per_row), testing::Each(0.0f));
    }
  });
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
