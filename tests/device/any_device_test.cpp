// A device behind virtual calls is the device itself: every operation arrives as it was given.
#include "rlcore/device/any_device.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/objective/traced/run.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

template <class Operation, class List>
inline constexpr bool in_list = false;
template <class Operation, class... Listed>
inline constexpr bool in_list<Operation, operation_list<Listed...>> = (std::is_same_v<Operation, Listed> || ...);

/// Writes down what it is asked for: the names of functions, and the addresses of operations.
template <class List>
class witness {
 public:
  static constexpr bool host_readable = true;
  explicit witness(std::vector<std::string>& seen) : seen_(seen) {}

  std::string_view name() const { return "witness"; }
  bool batch_invariant() const { return false; }
  bool gradients_in_order() const { return true; }
  weight_format compute_format() const { return weight_format::int8; }
  std::size_t packed_bytes(weight_format f, extent_t o, extent_t i) const {
    return static_cast<std::size_t>(100 * static_cast<int>(f) + 10 * o + i);
  }
  std::size_t kv_page_bytes(const attention_shape& s) const { return static_cast<std::size_t>(s.head_dim); }
  logit_limits logit_tile() const { return {72, 8}; }
  void* allocate(std::size_t bytes) { return write("allocate", nullptr, nullptr, bytes), &seen_; }
  void release(void* p) noexcept { write("release", p); }
  void upload(void* to, const void* from, std::size_t bytes) { write("upload", to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { write("download", to, from, bytes); }
  void fill_zero(void* p, std::size_t bytes) { write("fill_zero", p, nullptr, bytes); }
  void wait() { write("wait"); }
  template <class Operation>
    requires(in_list<Operation, List>)
  operation_result<Operation> run(const Operation& o) {
    write(std::string(operation_name<Operation>()), &o);
    if constexpr (std::is_same_v<Operation, op::sum_of_squares>) return 3.5;
  }

 private:
  void write(std::string name, const void* a = nullptr, const void* b = nullptr, std::size_t n = 0) {
    const auto number = [](const void* p) { return std::to_string(reinterpret_cast<std::uintptr_t>(p)); };
    seen_.push_back(std::move(name) + " " + number(a) + " " + number(b) + " " + std::to_string(n));
  }
  std::vector<std::string>& seen_;
};

using plain = witness<device_operations>;
static_assert(device<plain> && check_device<plain>());
static_assert(!partial_attention<plain> && !packed_rows<plain> && !loss_device<plain> && !advantage_device<plain>);

/// One with everything that a device may have.
class complete : public witness<any_device_operations> {
 public:
  using witness::witness;
  extent_t attention_tile() const { return 48; }
  bool reads_packed_rows() const { return true; }
  bool has_bfloat16_exact() const { return true; }
};
static_assert(partial_attention<complete> && packed_rows<complete> && loss_device<complete> &&
              advantage_device<complete>);

/// Every operation of a list, once, on both devices.
template <class A, class B, class... Listed>
void run_all(A& a, B& b, operation_list<Listed...>) {
  const traced_program program;
  const program_arrays<float> arrays;
  const auto on_both = [&](const auto& o) {
    if constexpr (std::is_void_v<decltype(a.run(o))>)
      a.run(o), b.run(o);
    else
      EXPECT_EQ(a.run(o), b.run(o));
  };
  const auto one = [&]<class Operation>(operation_list<Operation>) {
    if constexpr (std::is_same_v<Operation, op::run_program>)
      on_both(op::run_program{program, arrays});
    else
      on_both(Operation{});
  };
  (one(operation_list<Listed>{}), ...);
}

TEST(any_device, a_device_that_says_nothing_of_its_memory_has_the_hosts) {
  std::vector<std::string> seen;
  EXPECT_FALSE(any_device_of<plain>(seen).available_bytes().has_value());
}

TEST(any_device, passes_every_call_on_as_it_is) {
  std::vector<std::string> direct, passed;
  complete itself(direct);
  const std::unique_ptr<any_device> chosen = std::make_unique<any_device_of<complete>>(passed);
  run_all(itself, *chosen, any_device_operations{});
  EXPECT_EQ(direct.size(), 46u);
  EXPECT_EQ(direct.front().substr(0, 12), "pack_weight ");
  static std::byte block[2];
  const auto use = [&](auto& d) {
    d.allocate(5);
    d.release(block);
    d.upload(block, block + 1, 7);
    d.download(block, block + 1, 8);
    d.fill_zero(block, 9);
    d.wait();
  };
  use(itself), use(*chosen);
  EXPECT_EQ(direct, passed);
  EXPECT_EQ(direct.size(), 52u);
  EXPECT_EQ(chosen->name(), "witness");
  EXPECT_EQ(chosen->description(), "witness");
  EXPECT_FALSE(chosen->batch_invariant());
  EXPECT_TRUE(chosen->gradients_in_order());
  EXPECT_EQ(chosen->compute_format(), weight_format::int8);
  EXPECT_EQ(chosen->packed_bytes(weight_format::bfloat16, 3, 4), 134u);
  EXPECT_EQ(chosen->kv_page_bytes({.head_dim = 56}), 56u);
  EXPECT_EQ(chosen->logit_tile().bytes, 72u);
  EXPECT_EQ(chosen->attention_tile(), 48);
  EXPECT_TRUE(chosen->reads_packed_rows() && chosen->has_bfloat16_exact());
  EXPECT_TRUE(chosen->losses_stay());
}

TEST(any_device, says_what_the_device_inside_lacks) {
  std::vector<std::string> seen;
  const std::unique_ptr<any_device> chosen = std::make_unique<any_device_of<plain>>(seen);
  EXPECT_EQ(chosen->attention_tile(), 0);
  EXPECT_FALSE(chosen->reads_packed_rows() || chosen->has_bfloat16_exact());
  EXPECT_FALSE(chosen->losses_stay());
  try {
    chosen->run(op::row_sums{});
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_EQ(std::string(e.what()), "rlcore: device witness has no row_sums");
  }
  EXPECT_TRUE(seen.empty());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
