// What a loss on emulated NPUs and GPUs promises besides its values: masks, empty batches, bad input, own pieces.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/emulated_devices.hpp"
#include "device/loss_batch.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "support/thrown.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

TEST(device_loss, of_nothing_is_nothing) {
  everywhere_once([]<class Device>(Device& d) {
    for (const layout form : {layout::masked, layout::by_length, layout::packed})
      for (const auto& size : {std::pair<extent_t, extent_t>{6, 9}, {0, 9}, {2, 0}}) {
        const extent_t rows = size.first, width = size.second;
        if (form == layout::packed && width == 0) continue;
        const loss_batch batch(form, rows, width, field::advantage, true);
        const auto here = batch.on(d);
        const auto check = [&](const auto& algorithm) {
          const auto r = evaluate(d, algorithm, here->batch, batch.counts(), here->gradients);
          EXPECT_EQ(r.loss(), 0);
          EXPECT_EQ(r.rows, rows);
          EXPECT_EQ(r.tokens, 0);
          EXPECT_TRUE(r.empty_step);
          for (const float* g : here->gradient) EXPECT_THAT(batch.back(d, g), testing::Each(0.0f));
        };
        check(paper::grpo());
        check(paper::dapo());  // its weights are divided by the tokens of the step
      }
  });
}

// Without counts a call is the whole step: the tokens of a mask are counted on the device.
TEST(device_loss, without_counts_the_batch_is_the_whole_step) {
  everywhere_once([]<class Device>(Device& d) {
    for (const layout form : {layout::masked, layout::by_length, layout::packed}) {
      const loss_batch batch(form, 8, 37, field::advantage);
      const auto here = batch.on(d);
      const auto same = [](const global_counts& a, const global_counts& b) {
        EXPECT_EQ(a.tokens(), b.tokens());
        EXPECT_EQ(a.sequences(), b.sequences());
        EXPECT_EQ(a.rows(), b.rows());
      };
      same(loss_counts(d, here->batch), batch.counts());
      same(chosen_counts(d, here->batch), batch.counts(2));
      EXPECT_EQ(evaluate(d, paper::grpo(), here->batch, here->gradients).loss(),
                evaluate(d, paper::grpo(), here->batch, batch.counts(), here->gradients).loss());
    }
  });
}

/// A surrogate that somebody wrote for the host.
struct squared_ratio {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "squared_ratio";
  static constexpr std::array<std::string_view, 1> monitors{"far"};
  double width = 0.5;
  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V r = Math::exp(t.logp - t.old_logp), far = r - V(1);
    return {V(width) * far * far - r * t.advantage,
            (V(2 * width) * far - t.advantage) * r,
            {Math::select(far > V(1), V(1), V(0))}};
  }
};

TEST(device_loss, of_an_own_surrogate_runs_unchanged) {
  everywhere_once([]<class Device>(Device& d) {
    const loss_batch batch(layout::masked, 8, 37, field::advantage);
    const auto host = batch.host<double>();
    const auto here = batch.on(d);
    const sum objective{squared_ratio{.width = 0.3}, scaled{0.1, k3{}}};
    const auto want = evaluate(serial{}, objective, token_mean{}, host->batch, batch.counts(), host->gradients);
    const auto got = evaluate(d, objective, token_mean{}, here->batch, batch.counts(), here->gradients);
    EXPECT_NEAR(got.loss(), want.loss(), 1e-6);
    EXPECT_NEAR(got["far"], want["far"], 1e-12);
    EXPECT_NEAR(got["squared_ratio"], want["squared_ratio"], 1e-6);
    const floats slopes = batch.back(d, here->gradient[0]);
    for (std::size_t i = 0; i < slopes.size(); ++i) ASSERT_NEAR(slopes[i], host->gradient[0][i], 1e-6);
  });
}

/// An aggregation of the user's, which the device cannot run.
struct inverse_root {
  double weight(row_info row, const global_counts& step) const noexcept {
    return row.tokens < 4 ? 0.0
                          : 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
  }
};

TEST(device_loss, weighs_rows_by_any_aggregation) {
  everywhere_once([]<class Device>(Device& d) {
    const loss_batch batch(layout::masked, 10, 23, field::advantage);
    const auto host = batch.host<double>();
    const auto here = batch.on(d);
    const auto objective = paper::grpo().objective;
    const auto want = evaluate(serial{}, objective, inverse_root{}, host->batch, batch.counts(), host->gradients);
    const auto got = evaluate(d, objective, inverse_root{}, here->batch, batch.counts(), here->gradients);
    EXPECT_LT(want.sequences, batch.counts().sequences());  // some rows weigh nothing
    EXPECT_EQ(got.sequences, want.sequences);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_NEAR(got.loss(), want.loss(), 1e-6);
    const floats slopes = batch.back(d, here->gradient[0]);
    for (std::size_t i = 0; i < slopes.size(); ++i) ASSERT_NEAR(slopes[i], host->gradient[0][i], 1e-6);
  });
}

template <class E, class Device>
double loss_with_mask(Device& d, const std::vector<E>& host) {
  tensor<float, 2, Device> logp(d, {2, 3});
  logp.memory().upload(floats{-1, -2, -4, -8, -16, -32});
  tensor<E, 2, Device> mask(d, {2, 3});
  mask.memory().upload(host);
  const token_batch<float, Device> batch{.logp = logp, .mask = mask};
  return evaluate(d, paper::sft(), batch, global_counts::reduced(3, 2, 2, 2)).loss();
}

TEST(device_loss, takes_masks_of_many_types) {
  everywhere_once([]<class Device>(Device& d) {
    const double wanted = (1 + 4 + 16) / 3.0;
    EXPECT_EQ(loss_with_mask<float>(d, {1, 0, 0.5f, -0.0f, 2, 0}), wanted);
    EXPECT_EQ(loss_with_mask<std::int32_t>(d, {1, 0, -7, 0, 256, 0}), wanted);
    EXPECT_EQ(loss_with_mask<std::int64_t>(d, {1, 0, -7, 0, std::int64_t{1} << 32, 0}), wanted);
    EXPECT_EQ(loss_with_mask<std::uint8_t>(d, {1, 0, 255, 0, 2, 0}), wanted);
  });
}

/// The same text for every device.
template <class Device>
std::pair<double, floats> on_any_device(Device& d) {
  tensor<float, 2, Device> logp(d, {2, 3}), old_logp(d, {2, 3}), dlogp(d, {2, 3});
  tensor<float, 1, Device> advantage(d, {2});
  tensor<std::int32_t, 2, Device> mask(d, {2, 3});
  logp.memory().upload(floats{-1, -2, -4, -1, -3, -2});
  old_logp.memory().upload(floats{-1.5f, -2, -3, -1, -3.5f, -2});
  advantage.memory().upload(floats{1, -0.5f});
  mask.memory().upload(indices{1, 1, 0, 1, 1, 1});
  const token_batch<float, Device> batch{.logp = logp, .old_logp = old_logp, .advantage = advantage, .mask = mask};
  global_counts counts;
  counts.add_row(2), counts.add_row(3);
  const auto report = evaluate(d, paper::dapo(), batch, counts, {.logp = dlogp});
  const auto again = evaluate(d, paper::dapo().objective, token_mean{}, batch, counts);
  EXPECT_EQ(report.loss(), again.loss());
  floats slopes(6);
  dlogp.memory().download(slopes);
  return {report.loss(), slopes};
}

TEST(device_loss, is_called_as_on_the_host) {
  cpu host(1);
  const auto [want, want_slopes] = on_any_device(host);
  everywhere_once([&](auto& d) {
    const auto [got, slopes] = on_any_device(d);
    EXPECT_NEAR(got, want, 1e-7);
    EXPECT_THAT(slopes, testing::Pointwise(testing::FloatNear(1e-7f), want_slopes));
  });
}

TEST(device_loss, says_what_the_host_says_of_bad_input) {
  everywhere_once([]<class Device>(Device& d) {
    tensor<float, 2, Device> logp(d, {2, 3}), wide(d, {2, 4});
    tensor<float, 1, Device> flat(d, {6});
    const indices thirds{0, 2, 4, 6};
    const auto counts = global_counts::reduced(6, 2, 2, 3);
    const auto grpo = [&](const token_batch<float, Device>& b) {
      return thrown_by([&] { evaluate(d, paper::grpo(), b, counts); });
    };
    EXPECT_EQ(grpo({.logp = logp}),
              "rlcore: the objective reads old_logp, but the batch has none; set token_batch::old_logp");
    EXPECT_EQ(grpo({.logp = logp, .old_logp = wide, .ref_logp = logp, .advantage = logp}),
              "rlcore: old_logp is [2, 4], logp is [2, 3]");
    EXPECT_EQ(thrown_by([&] {
                evaluate(d, paper::sft(), token_batch<float, Device>{.logp = logp}, global_counts::reduced(1, 1, 1, 1));
              }).substr(0, 45),
              "rlcore: the counts of the step say 1 tokens i");
    EXPECT_EQ(thrown_by([&] {
                evaluate(d, paper::dpo(), token_batch<float, Device>{.logp = flat, .ref_logp = flat, .offsets = thirds},
                         counts);
              }),
              "rlcore: pairs are rows 2k and 2k + 1, but the batch has 3 rows");
  });
}

TEST(device_loss, fields_can_be_fetched_for_what_runs_on_the_host) {
  everywhere_once([]<class Device>(Device& d) {
    const loss_batch batch(layout::packed, 6, 11, field::advantage, false, 0.0f);
    const auto host = batch.host<float>();
    const auto here = batch.on(d);
    const fetched_batch<float> fetched(d, here->batch, field::logp | field::advantage);
    EXPECT_FALSE(fetched.batch().old_logp.present());
    const auto want = evaluate(serial{}, paper::sft(), host->batch, batch.counts());
    const auto got = evaluate(serial{}, paper::sft(), fetched.batch(), batch.counts());
    EXPECT_EQ(got.loss(), want.loss());
  });
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
