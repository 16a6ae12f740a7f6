// The second column of the lists of Ascend's functions says what needs them, and no more: kernels run on the emulator,
// and what they call is compared with it.
#include "rlcore/device/npu/abi/feature.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/npu/emulated_npu.hpp"
#include "rlcore/device/npu/trace.hpp"
#include "rlcore/objective/traced/trace.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

using ascend::feature;
using names = std::set<std::string, std::less<>>;

/// Memory for what a kernel reads and writes.
struct ground {
  static constexpr extent_t t = 4, width = 32, heads = 2, head = 16, words = 24;
  explicit ground(npu& d) : device(d) {}
  float* floats_of(extent_t n) { return kept.emplace_back(device, floats(static_cast<std::size_t>(n), 0.5f)); }
  npu& device;
  std::list<memory<float, npu>> kept;
  memory<std::int32_t, npu> ids{device, indices{0, 1, 2, 3}};
  float *x = floats_of(t * 2 * width), *y = floats_of(t * 2 * width), *z = floats_of(t * 2 * width),
        *weight = floats_of(2 * width * width), *room = floats_of(t * words * 6), *logits = floats_of(t * words);
  const norm_arguments norm{width, 1, width, weight, 1e-6};
  const attention_shape shape{heads, heads, head, 0.25f};
  const std::vector<attention_segment> rows{{x, x, width, 0, t, 0, nullptr}};
};

void run_forward(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width, words = ground::words;
  ground g(d);
  d.fill(g.y, 0.5f, w);
  d.scale(g.y, 2, w);
  d.add(g.y, g.x, g.x, w);
  d.gather_rows(g.y, g.x, t, g.ids, t, w);
  d.copy_rows(g.y, w, nullptr, g.x, w, t, w);
  d.copy_rows(g.y, w, {g.ids, t}, g.x, w, t, w);
  d.scatter_add_rows(g.y, g.x, {g.ids, t}, t, w);
  d.scale_rows(g.y, g.x, g.weight, t, w);
  d.dot_rows(g.y, g.x, g.x, t, w);
  d.sum_rows(g.y, g.x, t, w);
  d.rms_norm_forward(g.norm, g.y, w, g.x, g.room, t);
  d.add_rms_norm_forward(g.norm, g.z, g.x, g.x, g.y, g.room, t);
  d.rope(g.x, w, ground::heads, ground::head, g.ids, g.weight, g.weight, t, false);
  d.attention_forward(g.shape, g.rows, g.x, w, g.y, w, g.room);
  memory<std::byte, npu> packed(d, d.packed_bytes(d.compute_format(), w, w));
  d.pack_weight(packed, d.compute_format(), g.weight, w, w);
  d.linear_forward(g.y, g.x, packed, d.compute_format(), g.weight, t, w, w);
  d.swiglu_forward(g.y, g.x, t, w);
  d.log_prob_forward(g.logits, t, words, g.ids, 1, g.y, g.z, g.room);
  auto* states = static_cast<log_prob_state*>(static_cast<void*>(g.room));
  for (const extent_t first : {extent_t{0}, words}) d.log_prob_accumulate(states, g.logits, t, words, first, g.ids, 1);
  d.log_prob_finish(states, t, 1, g.y, g.z, nullptr);
}

void run_generation(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width;
  ground g(d);
  float* layer = g.floats_of(2 * kv_page_size(g.shape));
  const std::vector<attention_segment> pages{{layer, nullptr, 0, 0, t, 0, g.ids, 2}};
  d.store_keys_values(g.shape, pages, layer, g.x, g.x, w);
  d.attention_forward(g.shape, pages, g.x, w, g.y, w, g.room);
  auto uniform = put(d, std::vector<double>(t, 0.5));
  for (const sampling_arguments& how : {sampling_arguments{0}, {1}, {1, 5, 0.9f}, {1, 0, 1, 0.1f}})
    d.sample(how, g.logits, t, ground::words, uniform, g.ids);
}

void run_training(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width, words = ground::words;
  ground g(d);
  d.attention_forward(g.shape, g.rows, g.x, w, g.y, w, g.room);
  const std::vector<attention_segment_gradient> slopes{{g.z, g.z}};
  d.attention_backward(g.shape, g.rows, slopes, g.x, w, g.y, g.y, w, g.room, g.floats_of(t * w));
  d.rope(g.x, w, ground::heads, ground::head, g.ids, g.weight, g.weight, t, true);
  d.rms_norm_backward_weight(g.norm, g.z, g.y, w, g.x, g.room, t);
  d.rms_norm_backward(g.norm, g.z, g.y, w, g.x, g.room, t, true);
  for (const bool more : {false, true}) {
    d.linear_backward_weight(g.weight, g.y, g.x, t, w, w, more);
    d.linear_backward_input(g.z, g.y, g.weight, t, w, w, more);
  }
  d.swiglu_backward(g.z, g.y, g.x, t, w);
  d.log_prob_backward(g.logits, t, words, 0, g.ids, 1, g.y, g.y, g.y, g.room);
  d.sum_of_squares(g.x, t * w);
  adamw_step step;
  step.gradient_scale = 0.5f;
  d.adamw(g.weight, g.y, g.z, g.x, w, step);
}

/// A program of every operation, and what losses and advantages need besides.
void run_losses(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width;
  ground g(d);
  program_writer writer;
  const traced x = traced::field_value(field::logp, 0), y = traced::field_value(field::old_logp, 0);
  using math = traced_math;
  const traced_mask m = math::any(x < y, math::all(!(x <= y), x == y));
  for (const traced& v : {math::select(m, x - y, x / y), math::min(x, y), math::clamp(-x, 0, 1), math::sign(x),
                          math::exp(x) * math::log(y), math::expm1(x), math::log1p(y), math::excess(x) + math::sqrt(y),
                          math::sigmoid(x), math::softplus(y), math::abs(x)})
    writer.result("value", v);
  const traced_program program = writer.finish();
  std::vector<float*> results(program.results.size());
  for (float*& r : results) r = g.floats_of(t * w);
  program_arrays<float> arrays;
  arrays.rows = t, arrays.width = w, arrays.results = results;
  arrays.input[0][0] = {g.x, w, 1}, arrays.input[0][1] = {g.y, w, 1}, arrays.live = {g.z, w, 1};
  d.run_program(program, arrays);
  memory<std::uint8_t, npu> mask(d, std::vector<std::uint8_t>(t * w, 1));
  d.live_slots(g.z, {mask.data(), t * w, 1, false}, g.ids, nullptr, t, w);
  d.row_sums(g.y, g.x, t, w);
  d.to_indices(g.ids, g.x, t);
  d.row_largest(g.y, g.x, t, w);
  d.add_next_slots(g.y, g.x, 0.5f, t, w);
  for (const float* open : {static_cast<const float*>(nullptr), static_cast<const float*>(g.z)})
    d.suffix_sums(g.y, g.x, 0.9, open, t, w);
  memory<std::int64_t, npu> order(d, t * w), place(d, t * w);
  d.live_first(order, place, g.z, t, w);
  d.pick_slots(g.y, g.x, order, t, w);
}

/// The operators that a run calls, in bfloat16 and in float, with or without the fused ones.
names called(void (*run)(npu&), bool fused) {
  names found;
  for (const compute type : {compute::bfloat16, compute::float32}) {
    ascend::calls table = emulated_calls();
#define RLCORE_NPU_OPERATOR(name, need, ...) \
  if (!fused && feature::need == feature::fused) table.op.name = {#name, nullptr, nullptr};
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
    const ascend::calls& logged = ascend::call_log::instance().start(table, [&](std::string_view line) {
      if (const std::size_t at = line.find("aclnn"); at == line.find(' ') + 1)
        found.emplace(line.substr(at, line.find_first_of("( ", at) - at));
    });
    const std::shared_ptr<void> ended(nullptr, [](void*) { ascend::call_log::instance().stop(); });
    npu device(table_provider{&logged}, emulated_npu::exact(type));
    run(device);
    device.wait();
  }
  return found;
}

TEST(npu_feature, of_an_operator_is_what_calls_it) {
  const names forward = called(run_forward, true), generation = called(run_generation, true),
              training = called(run_training, true), losses = called(run_losses, true);
  names composed;
  for (const auto run : {run_forward, run_generation, run_training}) composed.merge(called(run, false));
  const auto expected = [&](std::string_view name) {
    const bool f = forward.contains(name), g = generation.contains(name), t = training.contains(name);
    if ((f || g || t) && !composed.contains(name)) return feature::fused;
    if (f || (g && t)) return feature::every_run;
    if (g) return feature::generation;
    if (t) return feature::training;
    if (composed.contains(name)) return feature::composition;
    return losses.contains(name) ? feature::loss : feature::later;
  };
  const auto expect_row = [&](std::string_view name, feature need) {
    EXPECT_EQ(ascend::name_of(need), ascend::name_of(expected(name))) << name;
    EXPECT_EQ(ascend::feature_of(name), need) << name;
  };
#define RLCORE_NPU_OPERATOR(name, need, ...) expect_row(#name, feature::need);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

/// Whether everything runs on a device that has lost an operator since it was opened.
bool runs_without(const change_of_operators& loss) {
  for (const auto run : {run_forward, run_generation, run_training, run_losses}) {
    emulated_npu on;
    loss(on.table.op);
    try {
      run(*on);
      on->wait();
    } catch (const ascend::capability_error&) {
      return false;
    }
  }
  return true;
}

TEST(npu_feature, fused_is_what_kernels_do_without) {
#define RLCORE_NPU_OPERATOR(name, need, ...)                                      \
  if (feature::need != feature::later && feature::need != feature::composition) { \
    EXPECT_EQ(runs_without([](ascend::operator_calls& op) {                       \
                op.name = {#name, nullptr, nullptr};                              \
              }),                                                                 \
              feature::need == feature::fused)                                    \
        << #name;                                                                 \
  }
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

/// Every member that sources above the tables name, as in `rt.aclInit` and `&meta_calls::aclDestroyTensor`.
names members_named() {
  const std::filesystem::path headers = std::filesystem::path(RLCORE_SOURCE_DIR) / "include/rlcore";
  names found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(headers)) {
    const std::string path = file.path().lexically_relative(headers).string();
    if (file.path().extension() != ".hpp" || path.starts_with("emulator/") || path.starts_with("device/npu/abi/") ||
        path == "device/npu/trace.hpp")
      continue;
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      line = line.substr(0, line.find("//"));
      for (std::size_t at = 0; (at = line.find_first_of(".:", at)) != line.npos;) {
        std::size_t end = ++at;
        while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_')) ++end;
        found.insert(line.substr(at, end - at));
      }
    }
  }
  return found;
}

TEST(npu_feature, later_is_what_no_source_names) {
  const names used = members_named();
  const auto expect_row = [&](std::string_view name, feature need) {
    EXPECT_EQ(need == feature::later, !used.contains(name)) << name;
  };
#define RLCORE_NPU_CALL(name, need, result, parameters) expect_row(#name, feature::need);
#include "rlcore/device/npu/abi/collectives.inc"
#include "rlcore/device/npu/abi/meta.inc"
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
#define RLCORE_NPU_OPERATOR(name, need, ...) expect_row(#name, feature::need);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
