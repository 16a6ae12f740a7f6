// Operator functions (aclnn) of the emulator: their two phases and the table of all.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/execution.hpp"
#include "rlcore/emulator/machine.hpp"
#include "rlcore/emulator/meta.hpp"
#include "rlcore/emulator/operators/attention.hpp"
#include "rlcore/emulator/operators/elementwise.hpp"
#include "rlcore/emulator/operators/indexing.hpp"
#include "rlcore/emulator/operators/layers.hpp"
#include "rlcore/emulator/operators/movement.hpp"
#include "rlcore/emulator/operators/products.hpp"
#include "rlcore/emulator/operators/reductions.hpp"
#include "rlcore/emulator/plan.hpp"
#include "rlcore/emulator/rules/rules.hpp"

RLCORE_BEGIN
namespace ascend {

/// A planned operator. Only the object_registry knows whether an executor is alive.
struct aclOpExecutor {
  const char* name = nullptr;
  std::shared_ptr<const emulated::kernel> run;
  std::uint64_t workspace = 0;
  overflow_mode overflow = overflow_mode::infnan;
  bool may_repeat = true, repeatable = false;
  std::vector<void*> addresses;
  std::vector<int> inputs, outputs;
  std::vector<const aclTensor*> tensors;
};

namespace emulated {

inline constexpr aclnnStatus runtime_failed = 361001;

/// The fill of a workspace before the run. It must be unchanged after the run.
inline constexpr std::byte workspace_pattern{0xa5};

/// The next number of an operator run in this process: 0, 1, ...
inline std::uint64_t next_run() {
  static std::atomic<std::uint64_t> runs{0};
  return runs++;
}

/// The properties of an argument that the vendor's rules check.
inline rules::argument rule_argument_of(const aclTensor* t) {
  if (!t) return {true};
  if (!objects().alive(t, host_object::tensor)) return {};
  return {false, t->view.type, std::vector<std::int64_t>(t->view.shape.begin(), t->view.shape.end())};
}
inline rules::argument rule_argument_of(const aclScalar* s) {
  if (!s) return {true};
  if (!objects().alive(s, host_object::scalar)) return {};
  return {false, s->type};
}
inline rules::argument rule_argument_of(const aclIntArray* a) { return {a == nullptr}; }
inline rules::argument rule_argument_of(const aclTensorList* l) { return {l == nullptr}; }
inline rules::argument rule_argument_of(data_type t) { return {false, t}; }
inline rules::argument rule_argument_of(const char*) { return {}; }
template <class T>
  requires(!std::is_pointer_v<T>)
rules::argument rule_argument_of(T) {
  return {};
}

/// The error with which the emulated version of CANN refuses the call, from the table of rules.
std::optional<rules::refusal> refused_by_rules(const char* name, std::span<const rules::argument> call);

/// The first phase of the operator `name`. plan(call, planner) plans the call; `seen` are the arguments for the rules.
/// `workspace` and `executor` are the results.
aclnnStatus first_phase(const char* name, std::uint64_t* workspace, aclOpExecutor** executor,
                        kernel (*plan)(const void*, planner&), const void* call, std::span<const rules::argument> seen);

/// The second phase: enqueues the run. It destroys the executor unless that may be repeated.
aclnnStatus second_phase(const char* name, void* workspace, std::uint64_t bytes, aclOpExecutor* executor,
                         aclrtStream stream);

namespace meta {

/// The executor; null if it is null or destroyed.
inline aclOpExecutor* living(aclOpExecutor* e) { return e && objects().alive(e, host_object::executor) ? e : nullptr; }
/// Lets an executor run more than once, until it is destroyed. Refused (161002) if the run copies between views.
aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
/// Destroys an executor that has not run or may be repeated; null is allowed.
inline aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return destroy(executor, host_object::executor, "aclDestroyAclOpExecutor");
}
/// Replaces an address of a repeatable executor: number `index` of its inputs or its outputs, selected by `slots`.
aclnnStatus set_address(const char* name, aclOpExecutor* executor, const std::vector<int> aclOpExecutor::* slots,
                        std::size_t index, aclTensor* tensor, void* data);
/// Replaces the address of input `index`, which has to be the tensor of the first phase.
inline aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const std::size_t index, aclTensor* tensor,
                                         void* data) {
  return set_address("aclSetInputTensorAddr", executor, &aclOpExecutor::inputs, index, tensor, data);
}
/// Replaces the address of output `index`, which has to be the tensor of the first phase.
inline aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const std::size_t index, aclTensor* tensor,
                                          void* data) {
  return set_address("aclSetOutputTensorAddr", executor, &aclOpExecutor::outputs, index, tensor, data);
}

}  // namespace meta

/// The functions <name>GetWorkspaceSize and <name> of a plan.
template <class Name, auto Plan>
struct two_phases;
template <class Name, class... Arguments, kernel (*Plan)(planner&, Arguments...)>
struct two_phases<Name, Plan> {
  static aclnnStatus plan(Arguments... arguments, std::uint64_t* workspace, aclOpExecutor** executor) {
    const std::tuple<Arguments...> call(arguments...);
    const std::array<rules::argument, sizeof...(Arguments)> seen{rule_argument_of(arguments)...};
    return first_phase(
        Name::text, workspace, executor,
        [](const void* packed, planner& p) {
          return std::apply([&](auto... a) { return Plan(p, a...); },
                            *static_cast<const std::tuple<Arguments...>*>(packed));
        },
        &call, seen);
  }
  static aclnnStatus run(void* workspace, std::uint64_t bytes, aclOpExecutor* executor, aclrtStream stream) {
    return second_phase(Name::text, workspace, bytes, executor, stream);
  }
};

}  // namespace emulated

}  // namespace ascend

namespace ascend::emulated {

namespace names {
#define RLCORE_NPU_OPERATOR(name, need, ...)   \
  struct name {                                \
    static constexpr const char* text = #name; \
  };
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}  // namespace names

/// Every operator of the list; a row without a plan, or with one of other types, does not compile.
inline void fill(operator_calls& table) {
#define RLCORE_NPU_OPERATOR(name, need, ...)                      \
  table.name.plan = &two_phases<names::name, &plans::name>::plan; \
  table.name.run = &two_phases<names::name, &plans::name>::run;
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

/// The functions that create and destroy operator arguments.
inline void fill(meta_calls& table) {
#define RLCORE_NPU_CALL(name, need, result, parameters) table.name = &meta::name;
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
}

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE std::optional<rules::refusal> refused_by_rules(const char* name, std::span<const rules::argument> call) {
  thread_local std::optional<std::pair<int, rules::book>> known;
  const int version = machine_settings().cann_version;
  if (!known || known->first != version) known.emplace(version, rules::book(version));
  return known->second(name, call);
}

RLCORE_INLINE aclnnStatus first_phase(const char* name, std::uint64_t* workspace, aclOpExecutor** executor,
                                      kernel (*plan)(const void*, planner&), const void* call,
                                      std::span<const rules::argument> seen) {
  if (!workspace || !executor) return fail(null_pointer, std::string(name) + ": null workspace size or executor");
  if (const auto no = refused_by_rules(name, seen)) return fail(no->code, std::string(name) + ": " + no->why);
  try {
    planner p(name);
    auto made = std::make_unique<aclOpExecutor>();
    made->run = std::make_shared<const kernel>(plan(call, p));
    made->name = name;
    made->workspace = p.workspace;
    made->overflow = p.overflow;
    made->may_repeat = p.repeatable;
    made->addresses = std::move(p.addresses);
    made->inputs = std::move(p.inputs);
    made->outputs = std::move(p.outputs);
    made->tensors = std::move(p.tensors);
    objects().add(made.get(), host_object::executor);
    *workspace = made->workspace;
    *executor = made.release();
    return 0;
  } catch (const refusal& r) {
    return fail(r.status, r.why);
  } catch (const std::exception& e) {
    return fail(561000, std::string(name) + ": " + e.what());
  }
}

RLCORE_INLINE aclnnStatus second_phase(const char* name, void* workspace, std::uint64_t bytes, aclOpExecutor* executor,
                                       aclrtStream stream) {
  const auto refuse = [&](aclnnStatus status, const char* why) { return fail(status, std::string(name) + ": " + why); };
  if (!executor) return refuse(null_pointer, "null executor");
  if (!objects().alive(executor, host_object::executor))
    return refuse(invalid_parameter, "the executor was used before (an executor runs once), or destroyed");
  if (std::string_view(executor->name) != name) return refuse(invalid_parameter, "an executor of another operator");
  if (executor->workspace > 0 && !workspace) {
    objects().destroy(executor, host_object::executor);
    return refuse(null_pointer, "null workspace");
  }
  if (bytes < executor->workspace) return refuse(invalid_parameter, "the workspace is too small");
  for (const auto* t : executor->tensors)
    if (machine_settings().strict && !objects().alive(t, host_object::tensor))
      return refuse(invalid_parameter, "a tensor was destroyed between the two phases");

  const auto task = [name, workspace, size = static_cast<std::size_t>(executor->workspace), run = executor->run,
                     mode = executor->overflow, addresses = executor->addresses, serial = next_run()] {
    std::span<std::byte> room;
    if (size > 0) {
      room = {shadow(workspace, size, access::write), size};
      std::fill(room.begin(), room.end(), workspace_pattern);
    }
    {
      execution e(machine_settings(), mode, addresses, room, serial);
      (*run)(e);
    }
    if (size > 0) {
      const std::byte* after = shadow(workspace, size, access::read);
      if (std::any_of(after, after + size, [](std::byte b) { return b != workspace_pattern; }))
        throw outcome_error{507015, std::string(name) + ": its workspace was written while it ran"};
    }
  };
  const int status = enqueue(stream, name, task);
  if (!executor->repeatable) objects().destroy(executor, host_object::executor);
  if (status != 0) return refuse(runtime_failed, ("the stream refused with " + std::to_string(status)).c_str());
  return 0;
}

}  // namespace ascend::emulated

namespace ascend::emulated::meta {

RLCORE_INLINE aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (!executor) return fail(null_pointer, "aclSetAclOpExecutorRepeatable: null executor");
  if (!living(executor)) return fail(invalid_parameter, "aclSetAclOpExecutorRepeatable: not a living executor");
  if (!executor->may_repeat)
    return fail(invalid_parameter, std::string("aclSetAclOpExecutorRepeatable: ") + executor->name +
                                       " copies between tensors here and cannot be repeated");
  executor->repeatable = true;
  return 0;
}

RLCORE_INLINE aclnnStatus set_address(const char* name, aclOpExecutor* executor,
                                      const std::vector<int> aclOpExecutor::* slots, std::size_t index,
                                      aclTensor* tensor, void* data) {
  if (!executor || !tensor) return fail(null_pointer, std::string(name) + ": null argument");
  if (!living(executor) || !executor->repeatable)
    return fail(invalid_parameter, std::string(name) + ": not a repeatable executor");
  if (index >= (executor->*slots).size())
    return fail(invalid_parameter, std::string(name) + ": index " + std::to_string(index) + " of " +
                                       std::to_string((executor->*slots).size()));
  if (!objects().alive(tensor, host_object::tensor))
    return fail(invalid_parameter, std::string(name) + ": not a living tensor");
  const auto slot = static_cast<std::size_t>((executor->*slots)[index]);
  if (executor->tensors[slot] != tensor)
    return fail(invalid_parameter, std::string(name) + ": not the tensor of the first phase");
  executor->addresses[slot] = data;
  return 0;
}

}  // namespace ascend::emulated::meta
RLCORE_END
#endif
