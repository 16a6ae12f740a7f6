// The second column of the lists of Ascend's functions says what needs them, and no more: kernels run on the emulator,
// and what they call is compared with it.
#include "rlcore/device/npu/abi/calls.hpp"

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
  d.run(rlcore::op::fill{.y = g.y, .value = 0.5f, .n = w});
  d.run(rlcore::op::scale{.y = g.y, .factor = 2, .n = w});
  d.run(rlcore::op::add{.y = g.y, .a = g.x, .b = g.x, .n = w});
  d.run(rlcore::op::gather_rows{.y = g.y, .x = g.x, .x_rows = t, .ids = g.ids, .count = t, .width = w});
  d.run(rlcore::op::copy_rows{.y = g.y, .y_row = w, .x = g.x, .x_row = w, .count = t, .width = w});
  d.run(rlcore::op::copy_rows{.y = g.y, .y_row = w, .ids = {g.ids, t}, .x = g.x, .x_row = w, .count = t, .width = w});
  d.run(rlcore::op::scatter_add_rows{.y = g.y, .x = g.x, .ids = {g.ids, t}, .count = t, .width = w});
  d.run(rlcore::op::scale_rows{.y = g.y, .x = g.x, .factor = g.weight, .rows = t, .width = w});
  d.run(rlcore::op::dot_rows{.y = g.y, .a = g.x, .b = g.x, .rows = t, .width = w});
  d.run(rlcore::op::sum_rows{.total = g.y, .x = g.x, .rows = t, .width = w});
  d.run(rlcore::op::rms_norm_forward{.norm = g.norm, .y = g.y, .y_row = w, .x = g.x, .rstd = g.room, .rows = t});
  d.run(rlcore::op::add_rms_norm_forward{
      .norm = g.norm, .total = g.z, .a = g.x, .b = g.x, .y = g.y, .rstd = g.room, .rows = t});
  d.run(rlcore::op::rope{.x = g.x,
                         .row = w,
                         .heads = ground::heads,
                         .head_dim = ground::head,
                         .positions = g.ids,
                         .cosine = g.weight,
                         .sine = g.weight,
                         .rows = t});
  d.run(rlcore::op::attention_forward{
      .shape = g.shape, .segments = g.rows, .q = g.x, .q_row = w, .out = g.y, .out_row = w, .statistics = g.room});
  memory<std::byte, npu> packed(d, d.packed_bytes(d.compute_format(), w, w));
  d.run(rlcore::op::pack_weight{
      .packed = packed, .format = d.compute_format(), .weight = g.weight, .outputs = w, .inputs = w});
  d.run(rlcore::op::linear_forward{.y = g.y,
                                   .x = g.x,
                                   .packed = packed,
                                   .format = d.compute_format(),
                                   .bias = g.weight,
                                   .rows = t,
                                   .outputs = w,
                                   .inputs = w});
  d.run(rlcore::op::swiglu_forward{.y = g.y, .gate_up = g.x, .rows = t, .width = w});
  d.run(rlcore::op::log_prob_forward{.logits = g.logits,
                                     .rows = t,
                                     .vocabulary = words,
                                     .targets = g.ids,
                                     .temperature = 1,
                                     .logp = g.y,
                                     .entropy = g.z,
                                     .statistics = g.room});
  auto* states = static_cast<log_prob_state*>(static_cast<void*>(g.room));
  for (const extent_t first : {extent_t{0}, words})
    d.run(rlcore::op::log_prob_accumulate{.states = states,
                                          .logits = g.logits,
                                          .rows = t,
                                          .width = words,
                                          .first = first,
                                          .targets = g.ids,
                                          .temperature = 1});
  d.run(rlcore::op::log_prob_finish{.states = states, .rows = t, .temperature = 1, .logp = g.y, .entropy = g.z});
}

void run_generation(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width;
  ground g(d);
  float* layer = g.floats_of(2 * static_cast<extent_t>(d.kv_page_bytes(g.shape) / sizeof(float)));
  const std::vector<attention_segment> pages{{layer, nullptr, 0, 0, t, 0, g.ids, 2}};
  d.run(rlcore::op::store_keys_values{
      .shape = g.shape, .segments = pages, .layer = layer, .keys = g.x, .values = g.x, .row = w});
  d.run(rlcore::op::attention_forward{
      .shape = g.shape, .segments = pages, .q = g.x, .q_row = w, .out = g.y, .out_row = w, .statistics = g.room});
  auto uniform = put(d, std::vector<double>(t, 0.5));
  for (const sampling_arguments& how : {sampling_arguments{0}, {1}, {1, 5, 0.9f}, {1, 0, 1, 0.1f}})
    d.run(rlcore::op::sample{.settings = how,
                             .logits = g.logits,
                             .rows = t,
                             .vocabulary = ground::words,
                             .uniform = uniform,
                             .tokens = g.ids});
}

void run_training(npu& d) {
  constexpr extent_t t = ground::t, w = ground::width, words = ground::words;
  ground g(d);
  d.run(rlcore::op::attention_forward{
      .shape = g.shape, .segments = g.rows, .q = g.x, .q_row = w, .out = g.y, .out_row = w, .statistics = g.room});
  const std::vector<attention_segment_gradient> slopes{{g.z, g.z}};
  d.run(rlcore::op::attention_backward{.shape = g.shape,
                                       .segments = g.rows,
                                       .gradients = slopes,
                                       .q = g.x,
                                       .q_row = w,
                                       .out = g.y,
                                       .dout = g.y,
                                       .out_row = w,
                                       .statistics = g.room,
                                       .dq = g.floats_of(t * w)});
  d.run(rlcore::op::rope{.x = g.x,
                         .row = w,
                         .heads = ground::heads,
                         .head_dim = ground::head,
                         .positions = g.ids,
                         .cosine = g.weight,
                         .sine = g.weight,
                         .rows = t,
                         .inverse = true});
  d.run(rlcore::op::rms_norm_backward_weight{
      .norm = g.norm, .dweight = g.z, .dy = g.y, .dy_row = w, .x = g.x, .rstd = g.room, .rows = t});
  d.run(rlcore::op::rms_norm_backward{
      .norm = g.norm, .dx = g.z, .dy = g.y, .dy_row = w, .x = g.x, .rstd = g.room, .rows = t, .accumulate = true});
  for (const bool more : {false, true}) {
    d.run(rlcore::op::linear_backward_weight{
        .dweight = g.weight, .dy = g.y, .x = g.x, .rows = t, .outputs = w, .inputs = w, .accumulate = more});
    d.run(rlcore::op::linear_backward_input{
        .dx = g.z, .dy = g.y, .weight = g.weight, .rows = t, .outputs = w, .inputs = w, .accumulate = more});
  }
  d.run(rlcore::op::swiglu_backward{.dgate_up = g.z, .dy = g.y, .gate_up = g.x, .rows = t, .width = w});
  d.run(rlcore::op::log_prob_backward{.logits = g.logits,
                                      .rows = t,
                                      .width = words,
                                      .first = 0,
                                      .targets = g.ids,
                                      .temperature = 1,
                                      .dlogp = g.y,
                                      .dentropy = g.y,
                                      .entropy = g.y,
                                      .statistics = g.room});
  d.run(rlcore::op::sum_of_squares{.x = g.x, .n = t * w});
  adamw_step step;
  step.gradient_scale = 0.5f;
  d.run(rlcore::op::adamw{.weights = g.weight, .m = g.y, .v = g.z, .gradient = g.x, .n = w, .step = step});
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
  d.run(rlcore::op::run_program{.program = program, .arrays = arrays});
  memory<std::uint8_t, npu> mask(d, std::vector<std::uint8_t>(t * w, 1));
  d.run(rlcore::op::live_slots{
      .live = g.z, .mask = {mask.data(), t * w, 1, false}, .lengths = g.ids, .rows = t, .width = w});
  d.run(rlcore::op::row_sums{.sums = g.y, .x = g.x, .rows = t, .width = w});
  d.run(rlcore::op::to_indices{.y = g.ids, .x = g.x, .n = t});
  d.run(rlcore::op::row_largest{.largest = g.y, .x = g.x, .rows = t, .width = w});
  d.run(rlcore::op::add_next_slots{.y = g.y, .x = g.x, .factor = 0.5f, .rows = t, .width = w});
  for (const float* open : {static_cast<const float*>(nullptr), static_cast<const float*>(g.z)})
    d.run(rlcore::op::suffix_sums{.y = g.y, .x = g.x, .decay = 0.9, .open = open, .rows = t, .width = w});
  memory<std::int64_t, npu> order(d, t * w), place(d, t * w);
  d.run(rlcore::op::live_first{.order = order, .place = place, .live = g.z, .rows = t, .width = w});
  d.run(rlcore::op::pick_slots{.y = g.y, .x = g.x, .slots = order, .rows = t, .width = w});
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
#define RLCORE_NPU_OPERATOR(name, need, ...)                                                         \
  if (feature::need != feature::later && feature::need != feature::composition) {                    \
    EXPECT_EQ(runs_without([](ascend::operator_calls& op) { op.name = {#name, nullptr, nullptr}; }), \
              feature::need == feature::fused)                                                       \
        << #name;                                                                                    \
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
