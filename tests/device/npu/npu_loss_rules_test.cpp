// What a loss on the npu promises besides its values: masked slots, empty batches, transfers, bad input, own pieces.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/loss_batch.hpp"
#include "device/npu/counted_calls.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithms.hpp"
#include "support/thrown.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

TEST(npu_loss, without_gradients_computes_no_slope) {
  counted_calls calls(emulated_calls());
  npu d(table_provider{&calls.table()}, emulated_npu::exact(compute::float32));
  const loss_batch batch(layout::masked, 8, 37, field::advantage);
  const auto here = batch.on(d);
  calls.clear();
  const auto with = evaluate(d, paper::grpo(), here->batch, batch.counts(), here->gradients);
  const int slopes_too = calls.operators;
  calls.clear();
  const auto without = evaluate(d, paper::grpo(), here->batch, batch.counts());
  EXPECT_LT(calls.operators, slopes_too - 5);
  EXPECT_EQ(with.loss(), without.loss());
}

TEST(npu_loss, of_nothing_is_nothing) {
  emulated_npu on(compute::float32);
  for (const layout form : {layout::masked, layout::by_length, layout::packed})
    for (const auto& size : {std::pair<extent_t, extent_t>{6, 9}, {0, 9}, {2, 0}}) {
      const extent_t rows = size.first, width = size.second;
      if (form == layout::packed && width == 0) continue;
      const loss_batch batch(form, rows, width, field::advantage, true);
      const auto here = batch.on(*on);
      const auto check = [&](const auto& algorithm) {
        const auto r = evaluate(*on, algorithm, here->batch, batch.counts(), here->gradients);
        EXPECT_EQ(r.loss(), 0);
        EXPECT_EQ(r.rows, rows);
        EXPECT_EQ(r.tokens, 0);
        EXPECT_TRUE(r.empty_step);
        for (const float* g : here->gradient) EXPECT_THAT(batch.back(*on, g), testing::Each(0.0f));
      };
      check(paper::grpo());
      check(paper::dapo());  // its weights are divided by the tokens of the step
    }
}

// Without counts a call is the whole step: the tokens of a mask are counted on the device.
TEST(npu_loss, without_counts_the_batch_is_the_whole_step) {
  emulated_npu on(compute::float32);
  for (const layout form : {layout::masked, layout::by_length, layout::packed}) {
    const loss_batch batch(form, 8, 37, field::advantage);
    const auto here = batch.on(*on);
    const auto same = [](const global_counts& a, const global_counts& b) {
      EXPECT_EQ(a.tokens(), b.tokens());
      EXPECT_EQ(a.sequences(), b.sequences());
      EXPECT_EQ(a.rows(), b.rows());
    };
    same(loss_counts(*on, here->batch), batch.counts());
    same(chosen_counts(*on, here->batch), batch.counts(2));
    EXPECT_EQ(evaluate(*on, paper::grpo(), here->batch, here->gradients).loss(),
              evaluate(*on, paper::grpo(), here->batch, batch.counts(), here->gradients).loss());
  }
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

TEST(npu_loss, of_an_own_surrogate_runs_unchanged) {
  emulated_npu on(compute::float32);
  const loss_batch batch(layout::masked, 8, 37, field::advantage);
  const auto host = batch.host<double>();
  const auto here = batch.on(*on);
  const sum objective{squared_ratio{.width = 0.3}, scaled{0.1, k3{}}};
  const auto want = evaluate(serial{}, objective, token_mean{}, host->batch, batch.counts(), host->gradients);
  const auto got = evaluate(*on, objective, token_mean{}, here->batch, batch.counts(), here->gradients);
  EXPECT_NEAR(got.loss(), want.loss(), 1e-6);
  EXPECT_NEAR(got["far"], want["far"], 1e-12);
  EXPECT_NEAR(got["squared_ratio"], want["squared_ratio"], 1e-6);
  const floats slopes = batch.back(*on, here->gradient[0]);
  for (std::size_t i = 0; i < slopes.size(); ++i) ASSERT_NEAR(slopes[i], host->gradient[0][i], 1e-6);
}

/// An aggregation of the user's, which the device cannot run.
struct inverse_root {
  double weight(row_info row, const global_counts& step) const noexcept {
    return row.tokens < 4 ? 0.0
                          : 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
  }
};

TEST(npu_loss, weighs_rows_by_any_aggregation) {
  emulated_npu on(compute::float32);
  const loss_batch batch(layout::masked, 10, 23, field::advantage);
  const auto host = batch.host<double>();
  const auto here = batch.on(*on);
  const auto objective = paper::grpo().objective;
  const auto want = evaluate(serial{}, objective, inverse_root{}, host->batch, batch.counts(), host->gradients);
  const auto got = evaluate(*on, objective, inverse_root{}, here->batch, batch.counts(), here->gradients);
  EXPECT_LT(want.sequences, batch.counts().sequences());  // some rows weigh nothing
  EXPECT_EQ(got.sequences, want.sequences);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_NEAR(got.loss(), want.loss(), 1e-6);
  const floats slopes = batch.back(*on, here->gradient[0]);
  for (std::size_t i = 0; i < slopes.size(); ++i) ASSERT_NEAR(slopes[i], host->gradient[0][i], 1e-6);
}

template <class E>
double loss_with_mask(npu& d, const std::vector<E>& host) {
  tensor<float, 2, npu> logp(d, {2, 3});
  logp.memory().upload(floats{-1, -2, -4, -8, -16, -32});
  tensor<E, 2, npu> mask(d, {2, 3});
  mask.memory().upload(host);
  const token_batch<float, npu> batch{.logp = logp, .mask = mask};
  return evaluate(d, paper::sft(), batch, global_counts::reduced(3, 2, 2, 2)).loss();
}

TEST(npu_loss, takes_masks_of_many_types) {
  emulated_npu on(compute::float32);
  const double wanted = (1 + 4 + 16) / 3.0;
  EXPECT_EQ(loss_with_mask<float>(*on, {1, 0, 0.5f, -0.0f, 2, 0}), wanted);
  EXPECT_EQ(loss_with_mask<std::int32_t>(*on, {1, 0, -7, 0, 256, 0}), wanted);
  EXPECT_EQ(loss_with_mask<std::int64_t>(*on, {1, 0, -7, 0, std::int64_t{1} << 32, 0}), wanted);
  EXPECT_EQ(loss_with_mask<std::uint8_t>(*on, {1, 0, 255, 0, 2, 0}), wanted);
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

TEST(npu_loss, is_called_as_on_the_host) {
  cpu host(1);
  emulated_npu on(compute::float32);
  const auto [want, want_slopes] = on_any_device(host);
  const auto [got, slopes] = on_any_device(*on);
  EXPECT_NEAR(got, want, 1e-7);
  EXPECT_THAT(slopes, testing::Pointwise(testing::FloatNear(1e-7f), want_slopes));
}

TEST(npu_loss, says_what_the_host_says_of_bad_input) {
  emulated_npu on(compute::float32);
  npu& d = *on;
  tensor<float, 2, npu> logp(d, {2, 3}), wide(d, {2, 4});
  tensor<float, 1, npu> flat(d, {6});
  const indices thirds{0, 2, 4, 6};
  const auto counts = global_counts::reduced(6, 2, 2, 3);
  const auto grpo = [&](const token_batch<float, npu>& b) {
    return thrown_by([&] { evaluate(d, paper::grpo(), b, counts); });
  };
  EXPECT_EQ(grpo({.logp = logp}),
            "rlcore: the objective reads old_logp, but the batch has none; set token_batch::old_logp");
  EXPECT_EQ(grpo({.logp = logp, .old_logp = wide, .ref_logp = logp, .advantage = logp}),
            "rlcore: old_logp is [2, 4], logp is [2, 3]");
  EXPECT_EQ(thrown_by([&] {
              evaluate(d, paper::sft(), token_batch<float, npu>{.logp = logp}, global_counts::reduced(1, 1, 1, 1));
            }).substr(0, 45),
            "rlcore: the counts of the step say 1 tokens i");
  EXPECT_EQ(thrown_by([&] {
              evaluate(d, paper::dpo(), token_batch<float, npu>{.logp = flat, .ref_logp = flat, .offsets = thirds},
                       counts);
            }),
            "rlcore: pairs are rows 2k and 2k + 1, but the batch has 3 rows");
}

TEST(npu_loss, fields_can_be_fetched_for_what_runs_on_the_host) {
  emulated_npu on(compute::float32);
  const loss_batch batch(layout::packed, 6, 11, field::advantage, false, 0.0f);
  const auto host = batch.host<float>();
  const auto here = batch.on(*on);
  const fetched_batch<float> fetched(*on, here->batch, field::logp | field::advantage);
  EXPECT_FALSE(fetched.batch().old_logp.present());
  const auto want = evaluate(serial{}, paper::sft(), host->batch, batch.counts());
  const auto got = evaluate(serial{}, paper::sft(), fetched.batch(), batch.counts());
  EXPECT_EQ(got.loss(), want.loss());
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
