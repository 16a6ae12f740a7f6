// GPU diagnosis: what of CUDA is on this machine, what is missing, and whether the kernels have the bits they should:
//   build/bin/cuda_doctor               this machine; exit code 0 if trainer.device=cuda can train
//   build/bin/cuda_doctor --device 1    checks this GPU instead of 0
//   build/bin/cuda_doctor --emulator    the kernels in the process, without a GPU
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/core/memory_text.hpp"
#include "rlcore/cuda.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/every_kernel.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"

namespace {

using namespace rlcore;

void row(const char* label, const std::string& value) {
  std::printf("%-10s %s\n", label, value.c_str());
  std::fflush(stdout);
}

/// Rows of products for which a GPU uses its largest tiles.
extent_t large_side(cuda& device) {
  extent_t tiles = 1;
  while (tiles * tiles < device.queue().processors()) ++tiles;
  return 128 * tiles;
}

/// Results of one kernel.
struct tally {
  std::size_t results = 0, equal = 0;
};

/// Whether the floats of two results are within a thousandth of the largest.
bool near(const std::vector<unsigned char>& a, const std::vector<unsigned char>& b) {
  float largest = 0, difference = 0;
  for (std::size_t k = 0; k + sizeof(float) <= std::min(a.size(), b.size()); k += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a.data() + k, sizeof x), std::memcpy(&y, b.data() + k, sizeof y);
    if (!(std::abs(x - y) <= difference)) difference = std::abs(x - y);  // NaN stays
    largest = std::max(largest, std::abs(x));
  }
  return a.size() == b.size() && difference <= 1e-3f * largest;
}

/// Compares the results of every operation with those of another device, on odd sizes.
template <class Device>
class comparison {
 public:
  /// With `near_products`, products need not be equal.
  comparison(const every_kernel<Device>& expected, const every_kernel<cuda>& found, bool near_products = false) {
    auto next = found.results().begin();
    for (const auto& want : expected.results()) {
      if (next == found.results().end() || next->kernel != want.kernel) continue;  // of the CPU alone
      tally& t = kernels_[want.kernel];
      const bool same = next->bytes == want.bytes ||
                        (near_products && want.kernel.starts_with("linear_") && near(next->bytes, want.bytes));
      ++t.results, ++all_;
      t.equal += same, equal_ += same;
      ++next;
    }
    complete_ = next == found.results().end();
  }
  /// Whether all bits are the same.
  bool equal() const { return complete_ && equal_ == all_; }
  /// "10 of 12 results of 2 operations"
  std::string text() const {
    return std::to_string(equal_) + " of " + std::to_string(all_) + " results of " + std::to_string(kernels_.size()) +
           " operations";
  }
  /// A line for each operation that differs.
  void print_others(const char* label, const char* whose) const {
    for (const auto& [name, t] : kernels_)
      if (t.equal != t.results)
        row(label, name + ": " + std::to_string(t.results - t.equal) + " of " + std::to_string(t.results) +
                       " results differ from " + whose);
    if (!complete_) row(label, "some results were not compared");
  }

 private:
  std::map<std::string, tally> kernels_;
  std::size_t all_ = 0, equal_ = 0;
  bool complete_ = false;
};

/// Compares every operation in float32 with the CPU's; true if all bits are the same.
bool check_float32(cuda& device) {
  cpu host(1);
  const extent_t side = large_side(device);
  const comparison found(every_kernel<cpu>(host, side), every_kernel<cuda>(device, side));
  found.print_others("WRONG", "the CPU's");
  row("float32", found.text() + " have the bits of " + host.description());
  return found.equal();
}

/// The last `rows` rows of a product of `all` rows, computed without the others.
std::vector<float> product_rows(cuda& device, extent_t all, extent_t rows) {
  const extent_t outputs = all;
  constexpr extent_t inputs = 520;
  const auto format = device.compute_format();
  const std::vector<float> host = plain_values(static_cast<std::size_t>(all * inputs), 1);
  const auto x = to_device(device, std::vector<float>(host.end() - rows * inputs, host.end()));
  const auto weight = to_device(device, plain_values(static_cast<std::size_t>(outputs * inputs), 2));
  auto packed = to_device(device, std::vector<std::uint8_t>(device.packed_bytes(format, outputs, inputs)));
  auto y = to_device(device, std::vector<float>(static_cast<std::size_t>(rows * outputs)));
  auto* const bytes = reinterpret_cast<std::byte*>(packed.data());
  device.run(op::pack_weight{bytes, format, weight.data(), outputs, inputs});
  device.run(op::linear_forward{y.data(), x.data(), bytes, format, nullptr, rows, outputs, inputs});
  std::vector<float> found(y.size());
  y.memory().download(std::span<float>(found));
  return found;
}

/// Checks bfloat16: products of a row do not depend on the other rows and, on a GPU, every operation has the bits of
/// the emulator; products are only near where the GPU has tensor cores of another generation than Hopper.
bool check_bfloat16(const nvidia::provider& functions, int number, bool emulated) {
  cuda device(functions, {.device = number, .compute = compute::bfloat16});
  const extent_t side = large_side(device);
  const std::vector<float> all = product_rows(device, side, side);
  bool good = true;
  for (const extent_t rows : {1, 16, 60}) {
    const std::vector<float> some = product_rows(device, side, rows);
    good = good && std::equal(some.begin(), some.end(), all.end() - static_cast<std::ptrdiff_t>(some.size()));
  }
  row(good ? "bfloat16" : "WRONG", std::string("products of 1, 16 and 60 rows ") + (good ? "have" : "lack") +
                                       " the bits of the same rows among " + std::to_string(side));
  if (emulated) return good;
  const int capability = device.queue().capability();
  const bool known = capability == 90 || capability < 80;
  emulated_cuda model({.compute = compute::bfloat16}, {.capability = capability});
  const comparison found(every_kernel<cuda>(model, side), every_kernel<cuda>(device, side), !known);
  found.print_others("WRONG", "the emulator's");
  row("bfloat16", found.text() + " have the bits of the emulator" +
                      (known ? "" : ", or are products near them: its tensor cores are Hopper's"));
  return good && found.equal();
}

/// Compares, on rows with gaps, the slopes of a clipped surrogate and the advantages of GAE with the host's; true if
/// all are within rounding.
bool check_losses(cuda& device) {
  constexpr extent_t rows = 24, width = 67;
  constexpr std::size_t n = rows * width;
  const std::vector<float> logp = plain_values(n, 1, 0.2f), old_logp = plain_values(n, 2, 0.2f),
                           advantage = plain_values(n, 3);
  std::vector<std::uint8_t> mask(n);
  for (std::size_t k = 0; k < n; ++k) mask[k] = k % 7 != 3 && k % width < 20 + k / width * 2;
  const auto matrix = [](const auto& x) {
    return view<const typename std::remove_cvref_t<decltype(x)>::value_type, 2>{x.data(), {rows, width}};
  };
  const auto dapo = paper::dapo();
  const gae estimator{.gamma = 0.99, .lambda = 0.95};
  std::vector<float> slopes(n), advantages(n);
  evaluate(
      dapo,
      token_batch<float>{
          .logp = matrix(logp), .old_logp = matrix(old_logp), .advantage = matrix(advantage), .mask = matrix(mask)},
      {.logp = view<float, 2>{slopes.data(), {rows, width}}});
  view<float, 2> to{advantages.data(), {rows, width}};
  estimator(matrix(advantage), matrix(logp), token_mask(matrix(mask)), to);

  const auto x = to_device(device, logp), old = to_device(device, old_logp), a = to_device(device, advantage);
  const auto m = to_device(device, mask);
  auto dx = to_device(device, std::vector<float>(n)), da = to_device(device, std::vector<float>(n));
  const auto there = [](const auto& y) { return device_view<const float, 2, cuda>(y.data(), {rows, width}); };
  const auto written = [](auto& y) { return device_view<float, 2, cuda>(y.data(), {rows, width}); };
  const device_view<const std::uint8_t, 2, cuda> counting(m.data(), {rows, width});
  evaluate(device, dapo,
           token_batch<float, cuda>{.logp = there(x), .old_logp = there(old), .advantage = there(a), .mask = counting},
           {.logp = written(dx)});
  compute_advantages(device, estimator, there(a), there(x), counting, written(da));

  bool good = true;
  const auto compare = [&](const char* what, const auto& found, const std::vector<float>& want, float floor) {
    std::vector<float> got(n);
    found.memory().download(std::span<float>(got));
    std::size_t near = 0;
    for (std::size_t k = 0; k < n; ++k)
      near += std::abs(got[k] - want[k]) <= 4e-6f * std::max(std::abs(want[k]), floor);
    row(near == n ? "losses" : "WRONG",
        std::to_string(near) + " of " + std::to_string(n) + " " + what + " are the host's");
    good = good && near == n;
  };
  compare("slopes of DAPO", dx, slopes, 0);
  compare("advantages of GAE", da, advantages, 1);
  return good;
}

int diagnose(bool emulated, int number) {
  if (!emulated)
    if (const std::string why = nvidia::why_not_installed(); !why.empty()) {
      row("cuda", "cannot be used: " + why.substr(std::strlen("cuda: ")));
      row("", "trainer.device=cuda runs on the CPU here; build/bin/cuda_doctor --emulator checks the kernels");
      return 1;
    }
  const nvidia::provider functions = emulated ? nvidia::emulator() : nvidia::installed_provider();
  row("functions", functions.name);
  if (!emulated) row("GPUs", std::to_string(nvidia::installed_devices()));
  const auto begin = std::chrono::steady_clock::now();
  cuda device(functions, {.device = number});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", took.count());
  row("device", device.description() + ", opened with its kernels in " + seconds);
  if (const auto bytes = device.available_bytes()) row("memory", memory_text(*bytes) + " available");
  const bool float32 = check_float32(device), bfloat16 = check_bfloat16(functions, number, emulated),
             losses = check_losses(device);
  if (!float32 || !bfloat16 || !losses) {
    row("cuda", !float32 ? "trainer.device=cuda would give other bits than the CPU"
                : !bfloat16
                    ? "trainer.device=cuda is right in float32; rlcore.compute=bfloat16 is not"
                    : "losses of your own programs would be wrong; trainer.device=cuda computes them on the host");
    return 1;
  }
  row("cuda", emulated ? "the kernels are right; whether this machine has a GPU was not asked"
                       : "trainer.device=cuda can train here");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = train::options::parse(argc, argv, train::cuda_doctor_registry());
    if (options.answer()) {
      std::fputs(options.answer()->c_str(), stdout);
      return 0;
    }
    return diagnose(options.get<bool>("emulator"), static_cast<int>(options.get<std::int64_t>("device")));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cuda_doctor: %s\n", e.what());
    return 1;
  }
}
