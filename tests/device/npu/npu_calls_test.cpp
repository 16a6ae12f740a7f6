// How many operators and transfers losses and advantages take, and of how many bytes: the tables of docs/devices.md and
// docs/npu_losses.md.
#include <gmock/gmock.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include "device/loss_catalogue.hpp"
#include "device/npu/counted_calls.hpp"
#include "rlcore/device/advantages.hpp"
#include "rlcore/device/losses.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
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

  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  counted_calls calls{emulated_calls()};
  npu device{table_provider{&calls.table()}, emulated_npu::exact(compute::float32)};
  const std::string page = text_of(std::string(RLCORE_SOURCE_DIR) + "/docs/devices.md");
};

/// What the first piece of an objective differentiates by.
template <class O>
constexpr field wrt_of_objective(const O&) {
  if constexpr (of_sequences<O>)
    return wrt_of<typename std::remove_cvref_t<decltype(O::gather)>::score>();
  else
    return detail::structure<O>::wrt[0];
}

/// Asks for the loss and one gradient of an algorithm.
template <class A>
void ask_for_loss(npu& device, counted_calls& calls, const A& a) {
  const auto ask = [&](const auto& objective, const auto&... chosen) {
    const field per_row = row_fields_of(objective);
    const bool rows_alone = of_sequences<std::remove_cvref_t<decltype(objective)>>;
    const loss_batch batch(layout::masked, rows, width, rows_alone ? per_row : per_row | field::advantage);
    const auto here = batch.on(device);
    const bool of_values = wrt_of_objective(objective) == field::value;
    token_gradients<float, npu> one;
    (of_values ? one.value : one.logp) = of_values ? here->gradients.value : here->gradients.logp;
    device.wait();
    calls.clear();
    evaluate(device, a, here->batch, batch.counts(), chosen(batch)..., one);
    device.wait();
  };
  if constexpr (requires { a.objective; })
    ask(a.objective);
  else
    ask(a.pair.objective, [](const loss_batch& b) { return b.counts(2); });
}

/// The table of docs/npu_losses.md, of which docs/devices.md has a part. RLCORE_WRITE_DOCS=1 writes the former.
TEST_F(page_of_calls, of_every_loss) {
  const std::string path = std::string(RLCORE_SOURCE_DIR) + "/docs/npu_losses.md";
  std::string rows_of_all;
  const auto visit = [&](const std::string& name, const auto& a) {
    ask_for_loss(device, calls, a);
    const std::string row = row_of("`" + name + "`", calls) + "\n";
    rows_of_all += row;
    if (page.find("\n| `" + name + "` |") != page.npos) {
      EXPECT_THAT(page, testing::HasSubstr(row));
    }
    if (calls.operators > 0) {  // else it runs on the host
      EXPECT_EQ(calls.downloads, requires { a.pair; } ? 2 : 1) << name;
    }
  };
  each_of_papers([&](const char* name, const auto& a, const defaults& = {}) {
    if constexpr (reads_log_probs<std::remove_cvref_t<decltype(a)>>())
      if (std::string_view(name) != "gvpo") visit(std::string("paper::") + name, a);
  });
  visit("paper::gvpo", paper::gvpo({.group_size = 4}));
  each_of_systems([&](const char* name, const auto& a, const defaults& = {}) {
    if constexpr (reads_log_probs<std::remove_cvref_t<decltype(a)>>()) visit(name, a);
  });
  const std::string text = text_of(path), head = "|---|---|---|---|---|\n";
  const std::size_t begin = text.find(head) + head.size(), end = text.find("\n\n", begin - 1) + 1;
  if (std::getenv("RLCORE_WRITE_DOCS") != nullptr)
    std::ofstream(path) << text.substr(0, begin) << rows_of_all << text.substr(end);
  else
    EXPECT_EQ(text.substr(begin, end - begin), rows_of_all);
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
}  // namespace rlcore_test::RLCORE_TEST_ID
