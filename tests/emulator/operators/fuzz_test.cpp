// Every operator of the emulator with arguments drawn at random: it refuses or computes, with a documented number, and
// touches no memory but its tensors'. What it refuses by its types is held against the table of the vendor's rules.
// RLCORE_FUZZ_SECONDS and RLCORE_FUZZ_SEED as in emulator_fuzz_test.cpp.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/fuzz_model.hpp"
#include "rlcore/emulator/emulated_npu.hpp"
#include "rlcore/emulator/rules/rules.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace npu_test;
using namespace rlcore;
namespace emulated = ascend::emulated;
using ascend::data_type;

/// Types of tensors that the emulator refuses though the table takes them, by operator.
using stricter_types = std::map<std::string, std::set<std::string>>;

class operator_calls_at_random {
 public:
  operator_calls_at_random(std::uint64_t seed, int cann_version, stricter_types& stricter)
      : random_(seed), seed_(seed), rules_(cann_version), stricter_(stricter) {
    EXPECT_EQ(rt.aclrtSetDevice(0), 0);
    for (void*& b : blocks_) {
      EXPECT_EQ(rt.aclrtMalloc(&b, block_bytes, ascend::memory_policy::huge_first), 0);
      fill(b);
    }
    EXPECT_EQ(rt.aclrtMalloc(&freed_, block_bytes, ascend::memory_policy::huge_first), 0);
    EXPECT_EQ(rt.aclrtFree(freed_), 0);
  }
  ~operator_calls_at_random() {
    for (void* b : blocks_) EXPECT_EQ(rt.aclrtFree(b), 0) << "seed " << seed_;  // no tail was written
    EXPECT_EQ(rt.aclrtResetDevice(0), 0);
  }

  void run(int rounds, std::map<std::string, int>& done) {
    for (int i = 0; i < rounds; ++i) {
      shape_ = {1 + random_.below(5), 1 + random_.below(5), 1 + random_.below(8)};
      plain_ = !random_.one_in(3);
      type_ = random_.one_in(2) ? data_type::float32 : data_type::bfloat16;
#define RLCORE_NPU_OPERATOR(name, need, ...) done[#name] += attempt(calls_.op.name);
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
    }
  }

 private:
  static constexpr std::size_t block_bytes = 1 << 15;

  template <class... A>
  int attempt(const ascend::operator_call<A...>& op) {
    std::tuple<A...> arguments{draw(static_cast<A*>(nullptr))...};
    std::uint64_t bytes = 0;
    ascend::aclOpExecutor* executor = nullptr;
    const int planned = std::apply([&](auto... a) { return op.plan(a..., &bytes, &executor); }, arguments);
    EXPECT_THAT(planned, testing::AnyOf(0, 161001, 161002, 561001, 561002, 561003, 561103))
        << op.name << ", seed " << seed_;
    const auto seen = std::apply([&](auto... a) { return std::array{rule_argument_of(a)...}; }, arguments);
    const auto broken = rules_(op.name, seen);
    if (broken) {
      EXPECT_EQ(planned, broken->code) << op.name << ": " << broken->why << ", seed " << seed_;
    }
    int result = planned;
    if (planned == 0) {
      void* workspace = nullptr;
      const int got = bytes == 0 ? 0 : rt.aclrtMalloc(&workspace, bytes, ascend::memory_policy::huge_first);
      EXPECT_EQ(got, 0) << op.name << " wants " << bytes << " bytes of workspace, seed " << seed_;
      EXPECT_EQ(op.run(workspace, bytes, executor, nullptr), 0) << op.name << ", seed " << seed_;
      result = rt.aclrtSynchronizeStream(nullptr);
      const char* text = rt.aclGetRecentErrMsg();
      EXPECT_THAT(result, testing::AnyOf(0, 507015, 507035))
          << op.name << ", seed " << seed_ << ": " << (text == nullptr ? "" : text);
      EXPECT_EQ(workspace == nullptr ? 0 : rt.aclrtFree(workspace), 0) << op.name << ", seed " << seed_;
      if (random_.one_in(8)) fill(blocks_[random_.below(blocks_.size())]);
    } else {
      const char* text = rt.aclGetRecentErrMsg();
      EXPECT_NE(text, nullptr) << op.name;  // a refusal has a reason
      const std::string why = text == nullptr ? "" : text;
      if (const auto at = why.find(": type "); !broken && at != why.npos && why.ends_with(" is not supported"))
        stricter_[op.name].insert(why.substr(at + 7, why.size() - at - 7 - 17));
    }
    for (const auto* t : tensors_) EXPECT_EQ(nn.aclDestroyTensor(t), 0);
    for (const auto* s : scalars_) EXPECT_EQ(nn.aclDestroyScalar(s), 0);
    for (const auto* a : arrays_) EXPECT_EQ(nn.aclDestroyIntArray(a), 0);
    for (const auto* l : lists_) EXPECT_EQ(nn.aclDestroyTensorList(l), 0);
    tensors_.clear();
    seen_.clear();
    scalars_.clear();
    arrays_.clear();
    lists_.clear();
    return result == 0;
  }

  // Mostly what an operator may like: tensors of few shapes and types, so that they often fit together.
  ascend::aclTensor* tensor() {
    std::vector<std::int64_t> shape;
    switch (random_.below(plain_ ? 5 : 12)) {
      case 0:
      case 1:
      case 2:
        shape = {shape_[0], shape_[2]};
        break;
      case 3:
        shape = {shape_[2]};
        break;
      case 4:
        shape = {shape_[0]};
        break;
      case 5:
        shape = {shape_[0], 1};
        break;
      case 6:
        shape = {shape_[2], shape_[1]};
        break;
      case 7:
        shape = {shape_[0], shape_[1], shape_[2]};
        break;
      case 8:
        break;
      default:
        shape.resize(random_.below(10));
        for (auto& d : shape) d = static_cast<std::int64_t>(random_.below(4)) - random_.one_in(20);
    }
    constexpr data_type types[] = {data_type::float32, data_type::bfloat16, data_type::float16, data_type::int64,
                                   data_type::int32,   data_type::boolean,  data_type::uint8,   data_type::float64,
                                   data_type::int8,    data_type::int16,    data_type::uint16,  data_type::uint32,
                                   data_type::uint64};
    const data_type type = random_.one_in(plain_ ? 6 : 2) ? types[random_.below(13)] : type_;
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t size = 1;
    for (std::size_t i = shape.size(); i-- > 0; size *= shape[i]) strides[i] = size;
    std::int64_t offset = 0, storage = 512;
    if (!plain_ && random_.one_in(4)) {
      for (auto& s : strides) s = static_cast<std::int64_t>(random_.below(12)) - random_.one_in(20);
      offset = static_cast<std::int64_t>(random_.below(20)) - random_.one_in(10);
      storage = random_.one_in(4) ? random_.below(40) : 512;
    }
    void* data = blocks_[random_.below(blocks_.size())];
    if (random_.one_in(60)) data = static_cast<char*>(data) + random_.below(64);
    if (random_.one_in(100)) data = freed_;
    if (random_.one_in(100)) data = nullptr;
    auto* made = nn.aclCreateTensor(shape.data(), shape.size(), type, random_.one_in(3) ? nullptr : strides.data(),
                                    offset, ascend::format::nd, &storage, 1, data);
    seen_[made] = {false, type, shape};
    return made;
  }
  ascend::rules::argument rule_argument_of(const ascend::aclTensor* t) {
    return t == nullptr ? ascend::rules::argument{true} : seen_[t];
  }
  ascend::rules::argument rule_argument_of(const ascend::aclScalar* s) { return {s == nullptr, data_type::float32}; }
  ascend::rules::argument rule_argument_of(const ascend::aclIntArray* a) { return {a == nullptr}; }
  ascend::rules::argument rule_argument_of(const ascend::aclTensorList* l) { return {l == nullptr}; }
  ascend::rules::argument rule_argument_of(data_type t) { return {false, t}; }
  ascend::rules::argument rule_argument_of(const char*) { return {}; }
  template <class T>
    requires(!std::is_pointer_v<T>)
  ascend::rules::argument rule_argument_of(T) {
    return {};
  }

  ascend::aclTensor* draw(ascend::output*) {
    if (random_.one_in(40)) return nullptr;
    auto* t = tensor();
    if (t != nullptr) tensors_.push_back(t);
    return t;
  }
  const ascend::aclTensor* draw(ascend::input*) { return draw(static_cast<ascend::output*>(nullptr)); }
  const ascend::aclScalar* draw(ascend::scalar*) {
    if (random_.one_in(40)) return nullptr;
    float x = static_cast<float>(random_.below(9)) - 2;
    scalars_.push_back(nn.aclCreateScalar(&x, data_type::float32));
    return scalars_.back();
  }
  const ascend::aclIntArray* draw(ascend::ints*) {
    if (random_.one_in(20)) return nullptr;
    std::vector<std::int64_t> values(random_.below(4));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = random_.one_in(2) ? static_cast<std::int64_t>(i) : static_cast<std::int64_t>(random_.below(9)) - 3;
    arrays_.push_back(nn.aclCreateIntArray(values.data(), values.size()));
    return arrays_.back();
  }
  const ascend::aclTensorList* draw(ascend::input_list*) {
    if (random_.one_in(20)) return nullptr;
    std::vector<const ascend::aclTensor*> all;
    for (std::uint32_t n = random_.below(4); n > 0; --n)
      if (auto* t = tensor(); t != nullptr) all.push_back(t);
    lists_.push_back(nn.aclCreateTensorList(all.data(), all.size()));
    return lists_.back();
  }
  std::int64_t draw(std::int64_t*) { return static_cast<std::int64_t>(random_.below(8)) - 3; }
  bool draw(bool*) { return random_.one_in(2); }
  double draw(double*) { return random_.one_in(4) ? -1 : 1e-3 * random_.below(1000); }
  float draw(float*) { return random_.one_in(8) ? -1.0f : 1e-3f * static_cast<float>(random_.below(1000)); }
  data_type draw(data_type*) { return random_.one_in(6) ? static_cast<data_type>(random_.below(30)) : type_; }
  ascend::cube_math draw(ascend::cube_math*) { return static_cast<ascend::cube_math>(random_.below(6)); }
  ascend::text draw(ascend::text*) {
    static char tnd[] = "TND", bsnd[] = "BSND", other[] = "?";
    const std::array<char*, 4> words{tnd, bsnd, other, nullptr};
    return words[random_.below(random_.one_in(10) ? 4 : 1)];
  }

  /// Small integers in one of the types.
  void fill(void* block) {
    std::vector<std::byte> bytes(block_bytes);
    const std::uint32_t kind = random_.below(4);
    for (std::size_t i = 0; i + 8 <= block_bytes; i += 8) {
      const std::int64_t n = random_.below(4);
      const float x = static_cast<float>(n) - 1;
      if (kind == 0) std::memcpy(&bytes[i], &n, 8);
      if (kind == 1) std::memcpy(&bytes[i], &x, 4), std::memcpy(&bytes[i + 4], &x, 4);
      if (kind >= 2)
        for (std::size_t k = 0; k < 8; ++k) bytes[i + k] = static_cast<std::byte>(random_.below(kind == 2 ? 2 : 256));
    }
    EXPECT_EQ(rt.aclrtMemcpy(block, block_bytes, bytes.data(), block_bytes, ascend::copy_kind::host_to_device), 0);
  }

  const ascend::calls& calls_ = ascend::emulator().calls();
  const ascend::runtime_calls& rt = calls_.rt;
  const ascend::meta_calls& nn = calls_.nn;
  fuzz_random random_;
  const std::uint64_t seed_;
  ascend::rules::book rules_;
  stricter_types& stricter_;
  std::map<const ascend::aclTensor*, ascend::rules::argument> seen_;
  std::array<void*, 6> blocks_{};
  void* freed_ = nullptr;
  std::array<std::int64_t, 3> shape_{};
  bool plain_ = true;
  data_type type_ = data_type::float32;
  std::vector<const ascend::aclTensor*> tensors_;
  std::vector<const ascend::aclScalar*> scalars_;
  std::vector<const ascend::aclIntArray*> arrays_;
  std::vector<const ascend::aclTensorList*> lists_;
};

/// Operators that the emulator computes for fewer types than the table lets pass. No kernel of rlcore calls them with
/// others; of LogSoftmax and below, the kernel refuses some of what the table has no row for.
const std::set<std::string> narrower = {"aclnnDiv",
                                        "aclnnExp",
                                        "aclnnLog",
                                        "aclnnSqrt",
                                        "aclnnSigmoid",
                                        "aclnnSoftmax",
                                        "aclnnSoftmaxBackward",
                                        "aclnnLogSoftmax",
                                        "aclnnArgMax",
                                        "aclnnIndexPutImpl",
                                        "aclnnAddRmsNorm",
                                        "aclnnApplyAdamWV2",
                                        "aclnnGroupedMatmulAdd",
                                        "aclnnRotaryPositionEmbedding"};

TEST(operators_fuzz, any_arguments_are_refused_or_computed) {
  const char* text = std::getenv("RLCORE_FUZZ_SECONDS");
  const double seconds = text == nullptr ? 2 : std::atof(text);
  text = std::getenv("RLCORE_FUZZ_SEED");
  std::uint64_t seed = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  std::map<std::string, int> done;
  stricter_types stricter;
  const auto start = std::chrono::steady_clock::now();
  const auto computed = [&] {
    return std::count_if(done.begin(), done.end(), [](const auto& entry) { return entry.second != 0; });
  };
  int rounds = 0;
  do {
    emulated::settings s;
    s.seed = seed;
    s.memory_bytes = std::size_t{256} << 20;
    constexpr int versions[] = {80100, 80300, 80500, 90100};
    s.cann_version = versions[seed % 4];
    s.reference = seed % 5 == 4;
    const ascend::emulator machine(s);
    ASSERT_EQ(machine.calls().rt.aclInit(nullptr), 0);
    operator_calls_at_random(seed++, s.cann_version, stricter).run(200, done);
    ASSERT_EQ(machine.calls().rt.aclFinalize(), 0);
    ASSERT_EQ(emulated::last_report(), "");
  } while (!HasFailure() && (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds) ||
                             (computed() < 30 && ++rounds < 100)));
  std::string never;
  for (const auto& [name, n] : done)
    if (n == 0) never += name + " ";
  EXPECT_GE(computed(), 30) << "never computed: " << never;
  RecordProperty("never_computed", never);
  for (const auto& [name, types] : stricter)
    for (const std::string& type : types)
      EXPECT_TRUE(narrower.contains(name)) << name << " of " << type << " is refused, which CANN takes";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
