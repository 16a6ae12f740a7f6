// The device concept: memory, questions and operations. Models, optimizers and rollouts depend only on it.
//
// Laws (docs/devices.md); 1 and 3 hold to the bit if batch_invariant(), else up to rounding, and 2 if
// gradients_in_order():
//  1. The result for one row does not depend on other rows of the call, on their number, or on threads: every sum
//     over a contracted dimension has one order.
//  2. Gradients of weights are summed over rows in order, starting from the value in memory: splitting a call into
//     several calls over consecutive rows changes no bit.
//  3. Attention reads keys and values from its segments: rows of activations in training, pages of the KV cache in
//     rollout; the order over keys is the same.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/device/operations.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

namespace op::detail {
template <class Operation>
struct result_of {
  using type = void;
};
template <class Operation>
  requires requires { typename Operation::result; }
struct result_of<Operation> {
  using type = typename Operation::result;
};
}  // namespace op::detail

/// What run() of an operation returns: its member type `result` if it has one, else void.
template <class Operation>
using operation_result = typename op::detail::result_of<Operation>::type;

/// A device that runs one operation.
template <class D, class Operation>
concept runs = requires(D& d, const Operation& o) {
  { d.run(o) } -> std::same_as<operation_result<Operation>>;
};

/// Whether a device runs every operation of a list.
template <class D, class List>
inline constexpr bool runs_all = false;
template <class D, class... Operations>
inline constexpr bool runs_all<D, operation_list<Operations...>> = (runs<D, Operations> && ...);

/// A device's memory functions. `upload` reads and `download` writes host memory; both return when the host memory may
/// be reused.
template <class D>
concept device_memory = memory_device<D> && requires(D& d) {
  { d.name() } -> std::convertible_to<std::string_view>;
};

/// What a device says about itself.
template <class D>
concept device_questions = requires(const D& d, weight_format format, extent_t n, const attention_shape& s) {
  // whether laws 1 and 3 hold to the bit: a row's result depends on the row alone
  { d.batch_invariant() } -> std::same_as<bool>;
  // whether law 2 holds to the bit: the gradient of a weight is one chain over rows
  { d.gradients_in_order() } -> std::same_as<bool>;
  // the weight format of training
  { d.compute_format() } -> std::same_as<weight_format>;
  // bytes of a packed weight [outputs, inputs]: format, outputs, inputs
  { d.packed_bytes(format, n, n) } -> std::same_as<std::size_t>;
  // bytes of a page of one layer of the KV cache: keys and values of kv_page positions; a multiple of 4
  { d.kv_page_bytes(s) } -> std::same_as<std::size_t>;
  // the tile of logits that the head computes at a time
  { d.logit_tile() } -> std::same_as<logit_limits>;
};

/// A device for the training and generation of a transformer: memory, questions, and run(operation) for every one of
/// device_operations. check_device() names what a type lacks.
template <class D>
concept device = device_memory<D> && device_questions<D> && runs_all<D, device_operations>;

namespace op::detail {
template <class D, class Operation>
constexpr bool runs_checked() {
  static_assert(runs<D, Operation>,
                "rlcore: this device lacks an operation: void run(const Operation&), or the operation's result instead "
                "of void; the compiler names the operation as runs_checked<Device, Operation>");
  return true;
}
template <class D, class... Operations>
constexpr bool runs_all_checked(operation_list<Operations...>) {
  return (runs_checked<D, Operations>() && ...);
}
}  // namespace op::detail

/// static_assert(check_device<your_device>()) says which function or operation of a device is missing.
template <class D>
constexpr bool check_device() {
  static_assert(device_memory<D>,
                "rlcore: a device has static constexpr bool host_readable, allocate, release, upload, download, "
                "fill_zero, wait and name");
  static_assert(device_questions<D>,
                "rlcore: a device has batch_invariant(), gradients_in_order(), compute_format(), packed_bytes(), "
                "kv_page_bytes() and logit_tile()");
  return op::detail::runs_all_checked<D>(device_operations{});
}

/// Full description of a device, for report headers: its description() if it has one, else its name.
template <class D>
std::string describe(const D& d) {
  if constexpr (requires { d.description(); }) {
    return d.description();
  } else {
    return std::string(std::string_view(d.name()));
  }
}

/// Optional: attention over a part of the keys, continued in later calls. op::attention_forward_part, in parts of
/// ascending positions, and op::attention_backward_part (which adds to the gradients of keys and values, and with
/// `resume` to dq), in parts of descending ones, have the bits of attention_forward and attention_backward over all
/// keys at once; between parts, `out` is not normalised. In another order they agree up to rounding. The gradients of
/// one segment's keys have the layout of its keys.
template <class D>
concept partial_attention = device<D> && runs_all<D, partial_attention_operations> && requires(const D& d) {
  // keys per tile; 0: this device lacks the kernels, although its type has the functions
  { d.attention_tile() } -> std::same_as<extent_t>;
};

/// The attention tile of a device; 0 if it does not support partial attention.
template <device D>
extent_t attention_tile(const D& d) {
  if constexpr (partial_attention<D>) {
    return d.attention_tile();
  } else {
    return 0;
  }
}

/// Optional: reading rows of packed weights as floats. With it, an embedding that is packed for the output head is not
/// stored a second time.
template <class D>
concept packed_rows = device<D> && runs_all<D, packed_row_operations> && requires(const D& d) {
  // false: this device lacks the kernel, although its type has the function
  { d.reads_packed_rows() } -> std::same_as<bool>;
};

/// Whether the device can read rows of packed weights.
template <device D>
bool reads_packed_rows(const D& d) {
  if constexpr (packed_rows<D>) {
    return d.reads_packed_rows();
  } else {
    return false;
  }
}

/// Whether products of floats may read weights that are packed as weight_format::bfloat16_exact. Optional.
template <device D>
bool has_bfloat16_exact(const D& d) {
  if constexpr (requires {
                  { d.has_bfloat16_exact() } -> std::same_as<bool>;
                }) {
    return d.has_bfloat16_exact();
  } else {
    return false;
  }
}

/// Optional: what losses need, memory and a few operations; see evaluate(device, ...). All enqueue; none reads device
/// memory on the host.
template <class D>
concept loss_device = memory_device<D> && runs<D, op::gather_rows> && runs<D, op::copy_rows> &&
                      runs<D, op::scale_rows> && runs<D, op::add> && runs_all<D, loss_operations>;

/// Optional: what advantages need; see compute_advantages(device, ...).
template <class D>
concept advantage_device = loss_device<D> && runs_all<D, advantage_operations>;

RLCORE_END
