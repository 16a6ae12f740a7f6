// A device behind virtual calls is the device itself: every call arrives under its name with its arguments in place.
#include "rlcore/device/any_device.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// Writes down what it is asked for.
class witness {
 public:
  static constexpr bool host_readable = true;
  explicit witness(std::vector<std::string>& seen) : seen_(seen) {}

  std::string_view name() const { return "witness"; }
  bool batch_invariant() const { return false; }
  weight_format compute_format() const { return weight_format::int8; }
  void* allocate(std::size_t bytes) { return write("allocate", bytes), nullptr; }
  void wait() { write("wait"); }
  std::size_t packed_bytes(weight_format f, extent_t o, extent_t i) const { return write("packed", f, o, i), 17; }
  template <class... A>
  double sum_of_squares(const A&... a) {
    return write("sum_of_squares", a...), 3.5;
  }
#define RLCORE_TEST_RECORDED(kernel) \
  template <class... A>              \
  void kernel(const A&... a) {       \
    write(#kernel, a...);            \
  }
  RLCORE_TEST_RECORDED(release)
  RLCORE_TEST_RECORDED(upload)
  RLCORE_TEST_RECORDED(download)
  RLCORE_TEST_RECORDED(fill_zero)
  RLCORE_TEST_RECORDED(pack_weight)
  RLCORE_TEST_RECORDED(linear_forward)
  RLCORE_TEST_RECORDED(linear_backward_input)
  RLCORE_TEST_RECORDED(linear_backward_weight)
  RLCORE_TEST_RECORDED(sum_rows)
  RLCORE_TEST_RECORDED(rms_norm_forward)
  RLCORE_TEST_RECORDED(add_rms_norm_forward)
  RLCORE_TEST_RECORDED(rms_norm_backward)
  RLCORE_TEST_RECORDED(rms_norm_backward_weight)
  RLCORE_TEST_RECORDED(rope)
  RLCORE_TEST_RECORDED(store_keys_values)
  RLCORE_TEST_RECORDED(attention_forward)
  RLCORE_TEST_RECORDED(attention_backward)
  RLCORE_TEST_RECORDED(swiglu_forward)
  RLCORE_TEST_RECORDED(swiglu_backward)
  RLCORE_TEST_RECORDED(gelu_forward)
  RLCORE_TEST_RECORDED(gelu_backward)
  RLCORE_TEST_RECORDED(gather_rows)
  RLCORE_TEST_RECORDED(scatter_add_rows)
  RLCORE_TEST_RECORDED(copy_rows)
  RLCORE_TEST_RECORDED(scale_rows)
  RLCORE_TEST_RECORDED(dot_rows)
  RLCORE_TEST_RECORDED(add)
  RLCORE_TEST_RECORDED(scale)
  RLCORE_TEST_RECORDED(fill)
  RLCORE_TEST_RECORDED(log_prob_forward)
  RLCORE_TEST_RECORDED(log_prob_accumulate)
  RLCORE_TEST_RECORDED(log_prob_finish)
  RLCORE_TEST_RECORDED(log_prob_merge)
  RLCORE_TEST_RECORDED(log_prob_backward)
  RLCORE_TEST_RECORDED(sample)
  RLCORE_TEST_RECORDED(adamw)

 private:
  template <class T>
  static std::string text(const T& x) {
    if constexpr (std::is_same_v<T, row_ids>) {
      return text(x.data) + " below " + text(x.rows);
    } else if constexpr (std::is_null_pointer_v<T>) {
      return "0";
    } else if constexpr (std::is_pointer_v<T>) {
      return std::to_string(reinterpret_cast<std::uintptr_t>(x));
    } else if constexpr (std::is_enum_v<T>) {
      return std::to_string(static_cast<int>(x));
    } else if constexpr (std::is_arithmetic_v<T>) {
      return std::to_string(x);
    } else if constexpr (requires { x.data(); }) {
      return std::to_string(reinterpret_cast<std::uintptr_t>(x.data())) + "+" + std::to_string(x.size());
    } else {
      return "at " + std::to_string(reinterpret_cast<std::uintptr_t>(&x));
    }
  }
  std::vector<std::string>& seen_;

 protected:
  template <class... A>
  void write(std::string line, const A&... a) const {
    ((line += " " + text(a)), ...);
    seen_.push_back(std::move(line));
  }
};
static_assert(device<witness>);

/// One that reads rows of packed weights.
class witness_of_rows : public witness {
 public:
  using witness::witness;
  bool reads_packed_rows() const { return true; }
  RLCORE_TEST_RECORDED(gather_packed_rows)
};
static_assert(packed_rows<witness_of_rows> && !packed_rows<witness>);

/// One that runs losses.
class witness_of_losses : public witness {
 public:
  using witness::witness;
  RLCORE_TEST_RECORDED(run_program)
  RLCORE_TEST_RECORDED(live_slots)
  RLCORE_TEST_RECORDED(row_sums)
  RLCORE_TEST_RECORDED(to_indices)
#undef RLCORE_TEST_RECORDED
};
static_assert(loss_device<witness_of_losses> && !loss_device<witness>);

std::byte memory_block[2];
std::byte *const memory = memory_block, *const beside = memory_block + 1;
const norm_arguments norm{};
const attention_shape heads{};
const attention_segment three[3];
const attention_segment_gradient two[2];
const std::span<const attention_segment> segments(three);
const std::span<const attention_segment_gradient> gradients(two);
const sampling_arguments how{};
const adamw_step step{};
const double draws[1] = {0.5};
const double* const uniform = draws;
std::int32_t drawn[1];
std::int32_t* const tokens = drawn;
log_prob_state state[1];
log_prob_state* const states = state;

/// Calls everything with arguments that are all different.
template <class D>
void call_everything(D& d) {
  std::uintptr_t next = 64;
  const auto out = [&] { return reinterpret_cast<float*>(next += 64); };
  const auto in = [&] { return reinterpret_cast<const float*>(next += 64); };
  const auto ids = [&] { return reinterpret_cast<const std::int32_t*>(next += 64); };
  const auto format = weight_format::bfloat16;
  d.allocate(5);
  d.release(memory);
  d.upload(memory, beside, 7);
  d.download(memory, beside, 8);
  d.fill_zero(memory, 9);
  d.wait();
  EXPECT_EQ(d.packed_bytes(format, 3, 4), 17u);
  d.pack_weight(memory, format, in(), 3, 4);
  d.linear_forward(out(), in(), memory, format, in(), 5, 6, 7);
  d.linear_backward_input(out(), in(), in(), 5, 6, 7, true);
  d.linear_backward_weight(out(), in(), in(), 8, 6, 7, false);
  d.sum_rows(out(), in(), 5, 6);
  d.rms_norm_forward(norm, out(), 5, in(), out(), 6);
  d.add_rms_norm_forward(norm, out(), in(), in(), out(), out(), 6);
  d.rms_norm_backward(norm, out(), in(), 5, in(), in(), 6, true);
  d.rms_norm_backward_weight(norm, out(), in(), 5, in(), in(), 6);
  d.rope(out(), 5, 6, 7, ids(), in(), in(), 8, true);
  d.store_keys_values(heads, segments, out(), in(), in(), 5);
  d.attention_forward(heads, segments, in(), 5, out(), 6, out());
  d.attention_backward(heads, segments, gradients, in(), 5, in(), in(), 6, in(), out());
  d.swiglu_forward(out(), in(), 5, 6);
  d.swiglu_backward(out(), in(), in(), 5, 6);
  d.gelu_forward(out(), in(), 5);
  d.gelu_backward(out(), in(), in(), 5);
  d.gather_rows(out(), in(), 4, ids(), 5, 6);
  d.scatter_add_rows(out(), in(), row_ids(ids(), 4), 5, 6);
  d.copy_rows(out(), 5, row_ids(ids(), 9), in(), 6, 7, 8);
  d.scale_rows(out(), in(), in(), 5, 6);
  d.dot_rows(out(), in(), in(), 5, 6);
  d.add(out(), in(), in(), 5);
  d.scale(out(), 0.25f, 5);
  d.fill(out(), 0.75f, 6);
  d.log_prob_forward(in(), 5, 6, ids(), 0.5f, out(), out(), out());
  d.log_prob_accumulate(states, in(), 5, 6, 7, ids(), 0.5f);
  d.log_prob_finish(states, 5, 0.5f, out(), out(), out());
  d.log_prob_merge(states, states, 5);
  d.log_prob_backward(out(), 5, 6, 7, ids(), 0.5f, in(), in(), in(), in());
  d.sample(how, in(), 5, 6, uniform, tokens);
  EXPECT_EQ(d.sum_of_squares(in(), 5), 3.5);
  d.adamw(out(), out(), out(), in(), 5, step);
}

TEST(any_device, a_device_that_says_nothing_of_its_memory_has_the_hosts) {
  std::vector<std::string> seen;
  EXPECT_FALSE(any_device_of<witness>(seen).available_bytes().has_value());
}

TEST(any_device, passes_every_call_on_as_it_is) {
  std::vector<std::string> direct, passed;
  witness itself(direct);
  call_everything(itself);
  const std::unique_ptr<any_device> chosen = std::make_unique<any_device_of<witness>>(passed);
  call_everything(*chosen);
  EXPECT_EQ(direct, passed);
  EXPECT_EQ(direct.size(), 40u);  // every member of the concept but the three that only say something
  EXPECT_EQ(chosen->name(), "witness");
  EXPECT_EQ(chosen->description(), "witness");
  EXPECT_FALSE(chosen->batch_invariant());
  EXPECT_EQ(chosen->compute_format(), weight_format::int8);
}

TEST(any_device, reads_packed_rows_if_the_device_inside_does) {
  std::vector<std::string> direct, passed;
  EXPECT_FALSE(any_device_of<witness>(direct).reads_packed_rows());
  witness_of_rows itself(direct);
  const std::unique_ptr<any_device> chosen = std::make_unique<any_device_of<witness_of_rows>>(passed);
  EXPECT_TRUE(chosen->reads_packed_rows());
  const auto call = [&](auto& d) {
    d.gather_packed_rows(reinterpret_cast<float*>(memory), beside, weight_format::bfloat16, tokens, 5, 6);
  };
  call(itself), call(*chosen);
  EXPECT_EQ(direct, passed);
  EXPECT_EQ(direct.size(), 1u);
}

TEST(any_device, runs_losses_if_the_device_inside_does) {
  std::vector<std::string> direct, passed;
  EXPECT_FALSE(any_device_of<witness>(direct).runs_losses());
  witness_of_losses itself(direct);
  const std::unique_ptr<any_device> chosen = std::make_unique<any_device_of<witness_of_losses>>(passed);
  EXPECT_TRUE(chosen->runs_losses());
  const traced_program program;
  const program_arrays<float> arrays;
  const mask_elements mask;
  float* const out = reinterpret_cast<float*>(memory);
  const auto call = [&](auto& d) {
    d.run_program(program, arrays);
    d.live_slots(out, mask, tokens, tokens, 5, 6);
    d.row_sums(out, out, 7, 8);
    d.to_indices(tokens, out, 9);
  };
  call(itself), call(*chosen);
  EXPECT_EQ(direct, passed);
  EXPECT_EQ(direct.size(), 4u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
