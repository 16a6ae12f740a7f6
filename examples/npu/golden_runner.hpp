// Runs a golden case on a provider of Ascend's functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "golden_case.hpp"
#include "rlcore/device/npu/queue.hpp"

namespace golden {

/// The arguments of one call, with ownership.
class runner {
 public:
  explicit runner(rlcore::ascend::queue& q) : q_(q) {}
  runner(const runner&) = delete;
  runner& operator=(const runner&) = delete;
  ~runner() {
    for (auto at = cleanup_.rbegin(); at != cleanup_.rend(); ++at) (*at)();
    for (const place& p : places_) q_.release(p.data);
  }

  /// The outputs. Throws capability_error if the operator is missing, npu_error if it rejects its arguments or fails.
  tensors run(const golden_case& c) {
    given_ = &c.given;
    const auto name = c.description.at("operator").get<std::string>();
    const json& arguments = c.description.at("arguments");
    bool known = false;
#define RLCORE_NPU_OPERATOR(row, need, ...) \
  if (name == #row) {                       \
    known = true;                           \
    call(q_.table().op.row, arguments);     \
  }
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
    if (!known) throw rlcore::format_error(c.name() + ": no operator '" + name + "' in this version");
    tensors results;
    for (const place& p : places_)
      if (!p.result.empty()) {
        tensor t{p.type, p.extents, std::vector<std::byte>(p.bytes)};
        q_.download(t.bytes.data(), p.data, p.bytes);
        results[p.result] = std::move(t);
      }
    return results;
  }

 private:
  struct place {
    std::string result;  ///< under which name it is an output
    data_type type;
    shape extents;
    void* data;
    std::size_t bytes;
  };

  template <class... A>
  void call(const rlcore::ascend::operator_call<A...>& op, const json& arguments) {
    if (arguments.size() != sizeof...(A))
      throw rlcore::format_error(std::string(op.name) + ": " + std::to_string(arguments.size()) + " arguments");
    if (!op)
      throw rlcore::ascend::capability_error(q_.device().session()->provider() + " lacks " + op.name,
                                             rlcore::ascend::domain::operators, op.name);
    const auto guard = q_.device().enter();
    call(op, arguments, std::index_sequence_for<A...>());
    q_.wait();
  }
  template <class... A, std::size_t... N>
  void call(const rlcore::ascend::operator_call<A...>& op, const json& arguments, std::index_sequence<N...>) {
    const std::tuple<A...> values{convert<A>(arguments[N])...};
    std::uint64_t bytes = 0;
    rlcore::ascend::aclOpExecutor* executor = nullptr;
    const auto check = [&](int status) {
      rlcore::ascend::check(q_.table(), rlcore::ascend::domain::operators, status, op.name);
    };
    check(op.plan(std::get<N>(values)..., &bytes, &executor));
    void* const workspace = q_.allocate(static_cast<std::size_t>(bytes));
    places_.push_back({"", data_type::uint8, {}, workspace, 0});
    check(op.run(workspace, bytes, executor, q_.stream().get()));
  }

  template <class T>
  T convert(const json& a) {
    namespace ascend = rlcore::ascend;
    if constexpr (std::is_same_v<T, ascend::input> || std::is_same_v<T, ascend::output>) {
      return a.is_null() ? nullptr : make(a);
    } else if constexpr (std::is_same_v<T, ascend::input_list>) {
      std::vector<const ascend::aclTensor*> all;
      for (const json& one : a.at("list")) all.push_back(make(one));
      const auto* list = q_.table().nn.aclCreateTensorList(all.data(), all.size());
      for (std::size_t i = 0; i < all.size(); ++i) cleanup_.pop_back();  // the list destroys its tensors
      cleanup_.emplace_back([this, list] { (void)q_.table().nn.aclDestroyTensorList(list); });
      return list;
    } else if constexpr (std::is_same_v<T, ascend::scalar>) {
      const data_type type = type_named(a.at("type").get<std::string>());
      tensor value = make_tensor(type, {1}, {a.at("scalar").get<double>()});
      value.bytes.resize(8);
      const auto* made = q_.table().nn.aclCreateScalar(value.bytes.data(), type);
      cleanup_.emplace_back([this, made] { (void)q_.table().nn.aclDestroyScalar(made); });
      return made;
    } else if constexpr (std::is_same_v<T, ascend::ints>) {
      if (a.is_null()) return nullptr;
      const auto values = a.get<std::vector<std::int64_t>>();
      const auto* made = q_.table().nn.aclCreateIntArray(values.data(), values.size());
      cleanup_.emplace_back([this, made] { (void)q_.table().nn.aclDestroyIntArray(made); });
      return made;
    } else if constexpr (std::is_same_v<T, ascend::text>) {
      texts_.push_back(a.get<std::string>());
      return texts_.back().data();
    } else if constexpr (std::is_same_v<T, data_type>) {
      return type_named(a.get<std::string>());
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(a.get<int>());
    } else {
      return a.get<T>();
    }
  }

  rlcore::ascend::aclTensor* make(const json& a) {
    if (a.contains("causal_mask")) return mask(a["causal_mask"].get<std::int64_t>());
    const auto name = a.at("tensor").get<std::string>(), role = a.at("role").get<std::string>();
    const data_type type = type_named(a.at("type").get<std::string>());
    const auto extents = a.at("shape").get<shape>();
    std::int64_t elements = 1;
    for (const std::int64_t n : extents) elements *= n;
    const std::size_t bytes = static_cast<std::size_t>(elements) * rlcore::ascend::bytes_of(type);
    void* data = q_.allocate(std::max<std::size_t>(bytes, 32));
    places_.push_back({role == "out" ? name : role == "inout" ? name + ".after" : "", type, extents, data, bytes});
    if (role != "out") q_.upload(data, given_->at(name).bytes.data(), bytes);
    const auto view = a.contains("view") ? a["view"].get<shape>() : extents;
    const auto strides = a.contains("strides") ? a["strides"].get<shape>() : shape();
    return describe(type, view, strides, a.value("offset", std::int64_t{0}), elements, data);
  }
  /// 1 above the diagonal of an n x n matrix: what attention with a compressed mask takes.
  rlcore::ascend::aclTensor* mask(std::int64_t n) {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t k = i + 1; k < n; ++k) host[static_cast<std::size_t>(i * n + k)] = 1;
    void* data = q_.allocate(host.size());
    places_.push_back({"", data_type::uint8, {}, data, 0});
    q_.upload(data, host.data(), host.size());
    return describe(data_type::uint8, {n, n}, {}, 0, n * n, data);
  }
  rlcore::ascend::aclTensor* describe(data_type type, const shape& view, const shape& strides, std::int64_t offset,
                                      std::int64_t elements, void* data) {
    auto* made =
        q_.table().nn.aclCreateTensor(view.data(), view.size(), type, strides.empty() ? nullptr : strides.data(),
                                      offset, rlcore::ascend::format::nd, &elements, 1, data);
    cleanup_.emplace_back([this, made] { (void)q_.table().nn.aclDestroyTensor(made); });
    return made;
  }

  rlcore::ascend::queue& q_;
  const tensors* given_ = nullptr;
  std::vector<place> places_;
  std::vector<std::function<void()>> cleanup_;
  std::deque<std::string> texts_;
};

}  // namespace golden
