// From dlopen to the bits: a training step through libraries that pretend to be CANN's makes the same calls, and gives
// the same bits, as on the emulator in the program. Behind the libraries is that emulator again: what this shows is the
// way there (names, tables, order of arguments, lifetimes), not that CANN would compute the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/device/npu/trace.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using std::size_t;
using testing::HasSubstr;

struct outcome {
  std::vector<std::string> calls;
  std::vector<float> numbers;
  bool has(std::string_view name) const {
    return std::any_of(calls.begin(), calls.end(), [&](const std::string& c) { return c.find(name) != c.npos; });
  }
};

/// A device's arrays, filled with numbers of a fixed seed.
class arrays {
 public:
  explicit arrays(npu& d) : d_(d) {}
  ~arrays() {
    for (void* p : all_) d_.release(p);
  }
  float* normal(size_t n, float scale = 1) {
    std::vector<float> host(n);
    for (float& x : host) x = scale * static_cast<float>(random_key{7}.normal(++drawn_));
    return put(host);
  }
  template <class T>
  T* put(const std::vector<T>& host) {
    all_.push_back(d_.allocate(host.size() * sizeof(T)));
    d_.upload(all_.back(), host.data(), host.size() * sizeof(T));
    return static_cast<T*>(all_.back());
  }
  float* zero(size_t n) { return put(std::vector<float>(n)); }

 private:
  npu& d_;
  std::vector<void*> all_;
  std::uint32_t drawn_ = 0;
};

/// Embedding, norm, rope, attention, gated layer, logits, loss, and back to the weights, of which two are updated.
std::vector<float> training_step(npu& d) {
  constexpr extent_t t = 6, width = 32, heads = 2, head = 16, inner = 48, words = 64;
  arrays a(d);
  const std::int32_t* ids = a.put<std::int32_t>({3, 1, 4, 1, 5, 9});
  const std::int32_t* targets = a.put<std::int32_t>({1, 4, 1, 5, 9, 2});
  const std::int32_t* positions = a.put<std::int32_t>({0, 1, 2, 0, 1, 2});
  float* embedding = a.normal(words * width);
  float* gate = a.normal(2 * inner * width, 0.1F);
  float* down = a.normal(width * inner, 0.1F);
  float* norm = a.normal(width);
  const auto packed = [&](const float* weight, extent_t o, extent_t i) {
    auto* p = a.put(std::vector<std::byte>(d.packed_bytes(d.compute_format(), o, i)));
    d.run(op::pack_weight{.packed = p, .format = d.compute_format(), .weight = weight, .outputs = o, .inputs = i});
    return p;
  };
  float *x = a.zero(t * width), *y = a.zero(t * width), *rstd = a.zero(t), *mixed = a.zero(t * width);
  d.run(op::gather_rows{.y = x, .x = embedding, .x_rows = words, .ids = ids, .count = t, .width = width});
  const norm_arguments how{width, 1, width, norm, 1e-6};
  d.run(op::rms_norm_forward{.norm = how, .y = y, .y_row = width, .x = x, .rstd = rstd, .rows = t});
  float* cosine = a.normal(8 * head / 2);
  d.run(op::rope{.x = y,
                 .row = width,
                 .heads = heads,
                 .head_dim = head,
                 .positions = positions,
                 .cosine = cosine,
                 .sine = cosine,
                 .rows = t});
  const attention_shape shape{heads, heads, head, 0.25F};
  const std::vector<attention_segment> segments{{y, y, width, 0, 3, 0, nullptr},
                                                {y + 3 * width, y + 3 * width, width, 3, 3, 0, nullptr}};
  float* statistics = a.zero(2 * t * heads);
  d.run(op::attention_forward{.shape = shape,
                              .segments = segments,
                              .q = y,
                              .q_row = width,
                              .out = mixed,
                              .out_row = width,
                              .statistics = statistics});
  d.run(op::add{.y = mixed, .a = mixed, .b = x, .n = t * width});

  float *both = a.zero(2 * t * inner), *one = a.zero(t * inner), *last = a.zero(t * width), *logits = a.zero(t * words);
  const weight_format format = d.compute_format();
  d.run(op::linear_forward{.y = both,
                           .x = mixed,
                           .packed = packed(gate, 2 * inner, width),
                           .format = format,
                           .rows = t,
                           .outputs = 2 * inner,
                           .inputs = width});
  d.run(op::swiglu_forward{.y = one, .gate_up = both, .rows = t, .width = inner});
  d.run(op::linear_forward{.y = last,
                           .x = one,
                           .packed = packed(down, width, inner),
                           .format = format,
                           .rows = t,
                           .outputs = width,
                           .inputs = inner});
  d.run(op::linear_forward{.y = logits,
                           .x = last,
                           .packed = packed(embedding, words, width),
                           .format = format,
                           .rows = t,
                           .outputs = words,
                           .inputs = width});
  float *logp = a.zero(t), *entropy = a.zero(t), *sums = a.zero(4 * t);
  d.run(op::log_prob_forward{.logits = logits,
                             .rows = t,
                             .vocabulary = words,
                             .targets = targets,
                             .temperature = 1.0F,
                             .logp = logp,
                             .entropy = entropy,
                             .statistics = sums});

  float *dlogp = a.put(std::vector<float>(t, -1.0F / t)), *dlast = a.zero(t * width), *done = a.zero(t * inner);
  float *dboth = a.zero(2 * t * inner), *dgate = a.zero(2 * inner * width), *ddown = a.zero(width * inner);
  d.run(op::log_prob_backward{.logits = logits,
                              .rows = t,
                              .width = words,
                              .first = 0,
                              .targets = targets,
                              .temperature = 1.0F,
                              .dlogp = dlogp,
                              .dentropy = a.zero(t),
                              .entropy = entropy,
                              .statistics = sums});
  d.run(op::linear_backward_input{
      .dx = dlast, .dy = logits, .weight = embedding, .rows = t, .outputs = words, .inputs = width});
  d.run(op::linear_backward_weight{
      .dweight = ddown, .dy = dlast, .x = one, .rows = t, .outputs = width, .inputs = inner, .accumulate = true});
  d.run(
      op::linear_backward_input{.dx = done, .dy = dlast, .weight = down, .rows = t, .outputs = width, .inputs = inner});
  d.run(op::swiglu_backward{.dgate_up = dboth, .dy = done, .gate_up = both, .rows = t, .width = inner});
  d.run(op::linear_backward_weight{
      .dweight = dgate, .dy = dboth, .x = mixed, .rows = t, .outputs = 2 * inner, .inputs = width, .accumulate = true});
  const double square = d.run(op::sum_of_squares{.x = dgate, .n = 2 * inner * width});
  float *m = a.zero(2 * inner * width), *v = a.zero(2 * inner * width);
  d.run(op::adamw{.weights = gate,
                  .m = m,
                  .v = v,
                  .gradient = dgate,
                  .n = 2 * inner * width,
                  .step = {1e-2, 0.9, 0.999, 1e-8, 0.01, 1, 1}});

  std::vector<float> numbers{static_cast<float>(square)};
  const auto keep = [&](const float* p, size_t n) {
    numbers.resize(numbers.size() + n);
    d.download(numbers.data() + numbers.size() - n, p, n * sizeof(float));
  };
  keep(logp, t);
  keep(ddown, width * inner);
  keep(gate, 2 * inner * width);
  return numbers;
}

/// The step with every call logged, and one collective of a group of one.
template <class P>
outcome run(const P& provider) {
  outcome result;
  (void)provider.calls().rt.aclGetRecentErrMsg();  // of other tests, which the log would show
  const ascend::calls& table = ascend::call_log::instance().start(
      provider.calls(), [&](std::string_view line) { result.calls.emplace_back(line); });
  try {
    const auto session = ascend::session::open(table, std::string(provider.name()));
    npu device(session, {0, compute::bfloat16, true, false, false});
    result.numbers = training_step(device);

    const auto guard = ascend::device_handle(session, 0).enter();
    std::int32_t which = 0;
    ascend::HcclComm group = nullptr;
    const ascend::aclrtStream stream = device.queue().stream().get();
    arrays a(device);
    float* x = a.put<float>({1, 2, 3});
    EXPECT_EQ(table.comm.HcclCommInitAll(1, &which, &group), 0);
    EXPECT_EQ(table.comm.HcclAllReduce(x, x, 3, ascend::hccl_type::float32, ascend::hccl_reduction::sum, group, stream),
              0);
    device.wait();
    EXPECT_EQ(table.comm.HcclCommDestroy(group), 0);
  } catch (const std::exception& e) {
    ADD_FAILURE() << provider.name() << ": " << e.what();
  }
  ascend::call_log::instance().stop();
  return result;
}

ascend::dynamic_provider pretended(const char* folder) {
  return ascend::dynamic_provider(std::vector<std::string>{std::string(RLCORE_CANN_EMULATED_DIR) + "/" + folder});
}

const outcome& expected() {
  static const outcome of_the_emulator = run(ascend::emulator(ascend::emulated::settings{}));
  return of_the_emulator;
}

void expect_equal(const outcome& found) {
  EXPECT_EQ(found.numbers, expected().numbers);
  ASSERT_EQ(found.calls.size(), expected().calls.size());
  for (size_t i = 0; i < found.calls.size(); ++i) ASSERT_EQ(found.calls[i], expected().calls[i]) << "call " << i;
}

TEST(emulated_libraries, a_training_step_makes_the_same_calls_and_bits) {
  EXPECT_GT(expected().calls.size(), 100U);
  EXPECT_EQ(expected().numbers.size(), 1U + 6 + 32 * 48 + 96 * 32);
  EXPECT_TRUE(std::all_of(expected().numbers.begin(), expected().numbers.end(), [](float x) { return x == x; }));
  expect_equal(run(pretended("whole")));
}

TEST(emulated_libraries, functions_spread_over_the_libraries_of_cann_9) {
  const ascend::dynamic_provider p = pretended("split");
  EXPECT_TRUE(p.installation().symbols().missing().empty());
  expect_equal(run(p));
}

TEST(emulated_libraries, without_fused_operators_the_step_is_composed_of_others) {
  const ascend::dynamic_provider p = pretended("required");
  EXPECT_FALSE(p.calls().op.aclnnSwiGlu);
  EXPECT_FALSE(p.calls().op.aclnnFlashAttentionVarLenScore);
  EXPECT_EQ(p.calls().rt.aclrtMemcpy, nullptr) << "what nothing calls is not needed";
  const outcome found = run(p);
  EXPECT_TRUE(expected().has("aclnnSwiGlu"));
  EXPECT_FALSE(found.has("aclnnSwiGlu"));
  ASSERT_EQ(found.numbers.size(), expected().numbers.size());
  for (size_t i = 0; i < found.numbers.size(); ++i)  // other roundings: bfloat16 has 2^-8
    ASSERT_NEAR(found.numbers[i], expected().numbers[i], 0.02 * (1 + std::abs(expected().numbers[i]))) << i;
}

TEST(emulated_libraries, a_device_logs_its_calls_where_the_environment_says) {
  const scratch::folder place;
  const std::string path = (place / "calls.txt").string();
  ASSERT_EQ(setenv("RLCORE_NPU_TRACE", path.c_str(), 1), 0);
  std::vector<float> traced;
  {
    npu device(pretended("whole"));
    traced = training_step(device);
  }
  ASSERT_EQ(unsetenv("RLCORE_NPU_TRACE"), 0);
  ascend::call_log::instance().stop();
  EXPECT_EQ(traced, expected().numbers);
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "t0 aclInit(null)");
  int products = 0;
  while (std::getline(file, line)) products += line.find("aclnnMatmul(bfloat16[") != line.npos;
  EXPECT_GE(products, 3);  // the forward ones
}

TEST(emulated_libraries, ranks_meet_through_them) {
  for (const char* folder : {"whole", "split"}) {
    std::vector<float> sums[2];
    parallel::run_ranks(2, [&](parallel::thread_rank& self) {
      parallel::any_communicator_of<parallel::thread_rank&> c(self);
      npu_settings settings;
      settings.device = c.rank();
      npu device(pretended(folder), settings);
      const parallel::device_links links(c, device, std::chrono::seconds(20));
      auto& x = sums[c.rank()] = {0.5F + static_cast<float>(c.rank()), 3.0F};
      buffer<float, npu> values(device, x.size());
      values.upload(x);
      parallel::all_reduce_sum(parallel::ranked{}, device, c, values.data(), x.size());
      values.download(x);
    });
    for (const auto& x : sums) EXPECT_EQ(x, (std::vector<float>{2.0F, 6.0F})) << folder;
  }
}

TEST(emulated_libraries, the_machine_behind_them_is_another_one) {
  ascend::emulated::settings other;
  other.soc = "Ascend910_9391";
  const ascend::emulator here(other);
  EXPECT_STREQ(here.calls().rt.aclrtGetSocName(), "Ascend910_9391");
  EXPECT_STREQ(pretended("whole").calls().rt.aclrtGetSocName(), "Ascend910B3");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
