// How many operators and transfers losses and advantages take, and of how many bytes: the tables of docs/devices.md.
#include <gmock/gmock.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "device/npu/counted_calls.hpp"
#include "device/npu/loss_batch.hpp"
#include "rlcore/device/advantages.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithms.hpp"

namespace rlcore_test {
namespace {

constexpr extent_t rows = 64, width = 512;

/// "| `paper::grpo` | 57 | 301 | 2 (212) | 1 (1792) |": bytes of operands are for each slot of the batch.
std::string row_of(const std::string& name, const counted_calls& c) {
  const auto transfers = [](int count, std::int64_t bytes) {
    return std::to_string(count) + (count == 0 ? "" : " (" + std::to_string(bytes) + ")");
  };
  return "| " + name + " | " + std::to_string(c.operators) + " | " +
         std::to_string((c.operand_bytes + rows * width / 2) / (rows * width)) + " | " +
         transfers(c.uploads, c.upload_bytes) + " | " + transfers(c.downloads, c.download_bytes) + " |";
}

/// Counts what `what` asks for, and finds that in the page.
class page_of_calls : public testing::Test {
 protected:
  template <class F>
  void expect_row(const std::string& name, F what) {
    device.wait();
    calls.clear();
    what();
    device.wait();
    EXPECT_THAT(page, testing::HasSubstr(row_of(name, calls) + "\n"));
  }

  counted_calls calls{emulated_calls()};
  npu device{table_provider{&calls.table()}, emulated_npu::exact(compute::float32)};

 private:
  std::ifstream in{std::string(RLCORE_SOURCE_DIR) + "/docs/devices.md"};
  const std::string page{std::istreambuf_iterator<char>(in), {}};
};

TEST_F(page_of_calls, of_losses) {
  const auto check = [&](const char* name, const auto& a) {
    using objective = std::remove_cvref_t<decltype(a.objective)>;
    field row_fields = field::none;
    if constexpr (requires { a.objective.link; })
      row_fields = detail::row_fields<std::remove_cvref_t<decltype(a.objective.link)>>();
    else
      row_fields = detail::structure<objective>::row_fields | field::advantage;
    const loss_batch batch(layout::masked, rows, width, row_fields);
    const auto here = batch.on(device);
    const bool of_values = std::string_view(name).ends_with("critic");
    token_gradients<float, npu> one;
    (of_values ? one.value : one.logp) = of_values ? here->gradients.value : here->gradients.logp;
    expect_row("`" + std::string(name) + "`", [&] { evaluate(device, a, here->batch, batch.counts(), one); });
    if constexpr (!requires { requires std::remove_cvref_t<decltype(a.aggregation)>::per_batch; }) {
      EXPECT_EQ(calls.downloads, 1) << name;
    }
  };
  check("paper::grpo", paper::grpo());
  check("paper::dapo", paper::dapo());
  check("paper::gspo", paper::gspo());
  check("paper::cispo", paper::cispo());
  check("paper::reinforce_plus_plus", paper::reinforce_plus_plus());
  check("paper::ppo_critic", paper::ppo_critic());
  check("paper::dpo", paper::dpo());
  check("paper::kto", paper::kto(kto_link{.kl = kto_baseline(0)}));
  check("paper::sft", paper::sft());
  check("paper::aot", paper::aot());
}

TEST_F(page_of_calls, of_advantages) {
  tensor<float, 1, npu> score(device, {rows}), advantage(device, {rows});
  tensor<float, 2, npu> x(device, {rows, width}), y(device, {rows, width}), z(device, {rows, width});
  tensor<std::uint8_t, 2, npu> mask(device, {rows, width});
  score.memory().upload(normal(rows, 1)), mask.memory().fill_zero();
  for (auto* m : {&x, &y, &z}) m->memory().fill_zero();
  const indices lengths(rows, 100);
  expect_row("`group_relative`", [&] { compute_advantages(device, group_relative{}, score, 8, advantage); });
  expect_row("`rloo`", [&] { compute_advantages(device, rloo{}, score, 8, advantage); });
  expect_row("`reinforce_plus_plus_baseline`",
             [&] { compute_advantages(device, reinforce_plus_plus_baseline{}, score, 8, lengths, advantage); });
  expect_row("`whitening`", [&] { compute_advantages(device, whitening{}, x, mask, y); });
  expect_row("`gae` without a mask", [&] { compute_advantages(device, gae{}, x, y, {}, x, z); });
  expect_row("`gae`", [&] { compute_advantages(device, gae{}, x, y, mask, x, z); });
  expect_row("`gae`, `turn_policy::discount`",
             [&] { compute_advantages(device, gae{.turns = turn_policy::discount}, x, y, mask, x, z); });
  expect_row("`gae`, `turn_policy::reset`",
             [&] { compute_advantages(device, gae{.turns = turn_policy::reset}, x, y, mask, x, z); });
  expect_row("`reinforce_plus_plus`", [&] { compute_advantages(device, reinforce_plus_plus{}, x, mask, y); });
  expect_row("`remax`", [&] { compute_advantages(device, remax{}, x, score, mask, y); });
  expect_row("`token_rewards`", [&] { compute_rewards(device, token_rewards{}, score, x, y, mask, z); });
}

}  // namespace
}  // namespace rlcore_test
