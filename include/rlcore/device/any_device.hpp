// Type-erased device, chosen at run time, so that programs are compiled once for all devices.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/device_group.hpp"

RLCORE_BEGIN

/// The name of an operation, for messages: "linear_forward".
template <class Operation>
constexpr std::string_view operation_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("op::") + 4);
  return text.substr(0, text.find_first_of(";]"));
}

namespace op::detail {

template <class... A, class... B, class... C, class... D, class... E>
operation_list<A..., B..., C..., D..., E...> joined(operation_list<A...>, operation_list<B...>, operation_list<C...>,
                                                    operation_list<D...>, operation_list<E...>);

/// One pure virtual run() for each operation of a list.
template <class List>
class virtual_runs;
template <class Last>
class virtual_runs<operation_list<Last>> {
 public:
  virtual_runs() = default;
  virtual_runs(const virtual_runs&) = delete;
  virtual_runs& operator=(const virtual_runs&) = delete;
  virtual ~virtual_runs() = default;
  virtual operation_result<Last> run(const Last&) = 0;
};
template <class First, class... Rest>
class virtual_runs<operation_list<First, Rest...>> : public virtual_runs<operation_list<Rest...>> {
 public:
  using virtual_runs<operation_list<Rest...>>::run;
  virtual operation_result<First> run(const First&) = 0;
};

}  // namespace op::detail

/// The operations of any_device.
using any_device_operations =
    decltype(op::detail::joined(device_operations{}, partial_attention_operations{}, packed_row_operations{},
                                loss_operations{}, advantage_operations{}));

/// Any device behind one virtual call per operation; models `device`. Programs do not know at compile time whether the
/// host can read its memory, so they use download() for results. Results are bit-identical to those of the wrapped
/// device. Use it from one thread, like every device.
class any_device : public op::detail::virtual_runs<any_device_operations> {
 public:
  static constexpr bool host_readable = false;

  virtual std::string_view name() const = 0;
  /// Full description of the device, for report headers: "cpu (avx512), 2 threads".
  virtual std::string description() const = 0;
  virtual bool batch_invariant() const = 0;
  virtual bool gradients_in_order() const = 0;
  virtual weight_format compute_format() const = 0;
  virtual std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const = 0;
  virtual std::size_t kv_page_bytes(const attention_shape& s) const = 0;
  virtual logit_limits logit_tile() const = 0;
  /// Whether the host may read and write the memory after wait().
  virtual bool host_memory() const = 0;
  /// The free bytes of device memory, if that is not host memory.
  virtual std::optional<std::size_t> available_bytes() const = 0;
  /// The most that was in use of it, under the same condition.
  virtual std::optional<memory_peaks> most_memory() const = 0;
  /// What the wrapped device has beyond `device`; run() of other operations throws std::logic_error.
  virtual extent_t attention_tile() const { return 0; }
  virtual bool reads_packed_rows() const { return false; }
  virtual bool has_bfloat16_exact() const { return false; }
  /// Whether a trainer computes losses in its memory; otherwise on the host, from log-probs that it downloads.
  virtual bool losses_stay() const { return false; }
  virtual bool forms_groups() const { return false; }
  virtual std::vector<std::byte> group_root() { throw std::logic_error(no_groups()); }
  virtual std::unique_ptr<device_group> join_group(const group_place&) { throw std::logic_error(no_groups()); }

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* p) noexcept = 0;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  virtual void fill_zero(void* p, std::size_t bytes) = 0;
  virtual void wait() = 0;

 private:
  std::string no_groups() const { return "rlcore: device " + std::string(name()) + " forms no groups"; }
};

static_assert(device<any_device> && partial_attention<any_device> && packed_rows<any_device> &&
              loss_device<any_device>);

/// Derives from Base, an any_device, and implements run() of every operation by self.run_any(operation), a template of
/// Derived.
template <class Derived, class Base = any_device, class List = any_device_operations>
class runs_any;
template <class Derived, class Base>
class runs_any<Derived, Base, operation_list<>> : public Base {};
template <class Derived, class Base, class First, class... Rest>
class runs_any<Derived, Base, operation_list<First, Rest...>>
    : public runs_any<Derived, Base, operation_list<Rest...>> {
 public:
  using runs_any<Derived, Base, operation_list<Rest...>>::run;
  operation_result<First> run(const First& o) override { return static_cast<Derived&>(*this).run_any(o); }
};

/// A device of type D, made in place from `arguments`, as an any_device.
template <device D>
class any_device_of final : public runs_any<any_device_of<D>> {
 public:
  /// Throws what the constructor of D throws.
  template <class... Arguments>
  explicit any_device_of(Arguments&&... arguments) : d_(std::forward<Arguments>(arguments)...) {}

  std::string_view name() const override { return d_.name(); }
  std::string description() const override { return describe(d_); }
  bool batch_invariant() const override { return d_.batch_invariant(); }
  bool gradients_in_order() const override { return d_.gradients_in_order(); }
  weight_format compute_format() const override { return d_.compute_format(); }
  std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const override {
    return d_.packed_bytes(format, o, i);
  }
  std::size_t kv_page_bytes(const attention_shape& s) const override { return d_.kv_page_bytes(s); }
  logit_limits logit_tile() const override { return d_.logit_tile(); }
  bool host_memory() const override { return D::host_readable; }
  std::optional<std::size_t> available_bytes() const override {
    if constexpr (requires { d_.available_bytes(); }) return d_.available_bytes();
    return std::nullopt;
  }
  std::optional<memory_peaks> most_memory() const override {
    if constexpr (requires { d_.most_memory(); }) return d_.most_memory();
    return std::nullopt;
  }
  extent_t attention_tile() const override { return rlcore::attention_tile(d_); }
  bool reads_packed_rows() const override { return rlcore::reads_packed_rows(d_); }
  bool has_bfloat16_exact() const override { return rlcore::has_bfloat16_exact(d_); }
  bool losses_stay() const override {
    if constexpr (requires { d_.losses_stay(); }) return d_.losses_stay();
    return loss_device<D>;
  }
  bool forms_groups() const override {
    if constexpr (grouped_device<D>) return d_.forms_groups();
    return false;
  }
  std::vector<std::byte> group_root() override {
    if constexpr (grouped_device<D>) return d_.group_root();
    return any_device::group_root();
  }
  std::unique_ptr<device_group> join_group(const group_place& place) override {
    if constexpr (grouped_device<D>) return d_.join_group(place);
    return any_device::join_group(place);
  }

  void* allocate(std::size_t bytes) override { return d_.allocate(bytes); }
  void release(void* p) noexcept override { d_.release(p); }
  void upload(void* device, const void* host, std::size_t bytes) override { d_.upload(device, host, bytes); }
  void download(void* host, const void* device, std::size_t bytes) override { d_.download(host, device, bytes); }
  void fill_zero(void* p, std::size_t bytes) override { d_.fill_zero(p, bytes); }
  void wait() override { d_.wait(); }

  /// D's own run(); what D lacks throws std::logic_error.
  template <class Operation>
  operation_result<Operation> run_any(const Operation& o) {
    if constexpr (runs<D, Operation>)
      return d_.run(o);
    else
      throw std::logic_error("rlcore: device " + std::string(name()) + " has no " +
                             std::string(operation_name<Operation>()));
  }

 private:
  D d_;
};

RLCORE_END
