// Linear layers on the NPU: packed weights, forward and gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Throws device_error: this device has no int8 weights.
[[noreturn]] inline void refuse_int8() {
  throw device_error("npu: int8 weights are the cpu device's alone; generate with bfloat16 or float32 weights");
}

/// The bytes of a packed weight [o,i]: 2 o i in bfloat16, 4 o i in float32. Throws device_error for int8.
inline std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) {
  if (format == weight_format::int8) refuse_int8();
  return static_cast<std::size_t>(o * i) * (format == weight_format::bfloat16 ? sizeof(bf16) : sizeof(float));
}

/// A copy of the weight [o,i], row-major; in bf16 rounded to nearest even.
void pack_weight(context& c, std::byte* packed, weight_format format, const float* weight, extent_t o, extent_t i);

/// y[t,o] = x[t,i] weight^T + bias.
void linear_forward(context& c, float* y, const float* x, const std::byte* packed, weight_format format,
                    const float* bias, extent_t t, extent_t o, extent_t i);

/// Gradients of products. GroupedMatmulAdd adds the product of bf16 inputs to float without rounding it; it reads the
/// number of rows from the device.
class product_gradients {
 public:
  /// dweight[o,i] (+)= dy[t,o]^T x[t,i].
  void of_weight(context& c, float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
                 bool accumulate);
  /// dx[t,i] (+)= dy[t,o] weight[o,i]; a packed weight in bf16 is read as it is.
  void of_input(context& c, const op::linear_backward_input& o);
  /// Declares that the operators since `before` did not change the slopes of the last of_weight(): a bias's sum_rows,
  /// which runs between it and of_input().
  void unchanged_since(const context& c, std::uint64_t before) noexcept {
    if (after_ == before) after_ = c.operations;
  }

 private:
  void add(context& c, float* dweight, const float* dy, const float* x, extent_t t, extent_t o, extent_t i,
           bool accumulate);
  static void multiply(context& c, tensor_ref slopes, tensor_ref values, float* dweight, extent_t o, extent_t i,
                       bool accumulate);
  /// [1]: the end of the only group of rows.
  tensor_argument end_of_rows(context& c, extent_t t);

  std::optional<scratch<std::int64_t>> end_;
  std::int64_t known_end_ = -1;
  // Rounded dy of the last of_weight(), and the operator count at that time: the following of_input() reuses it.
  std::optional<scratch<bf16>> kept_;
  const float* slopes_ = nullptr;
  std::uint64_t after_ = 0;
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void pack_weight(context& c, std::byte* packed, weight_format format, const float* weight, extent_t o,
                               extent_t i) {
  if (format == weight_format::int8) refuse_int8();
  for_pieces(o, i, most_elements, [&](extent_t first, extent_t n) {
    const auto from = c.view(weight + first * i, {n * i});
    if (n * i == 0) return;
    if (format == weight_format::bfloat16)
      c.cast(from, c.view(reinterpret_cast<bf16*>(packed) + first * i, {n * i}));
    else
      c.copy(c.view(reinterpret_cast<float*>(packed) + first * i, {n * i}), from);
  });
}

RLCORE_INLINE void linear_forward(context& c, float* y, const float* x, const std::byte* packed, weight_format format,
                                  const float* bias, extent_t t, extent_t o, extent_t i) {
  if (format == weight_format::int8) refuse_int8();
  for_pieces(t, std::max(o, i), most_elements, [&](extent_t first, extent_t n) {
    if (n * o == 0) return;
    const auto to = c.rows(y + first * o, n, o);
    if (i == 0) {
      c.fill(to, 0);
    } else if (format == weight_format::bfloat16) {
      const auto rounded = c.converted<bf16>(x + first * i, n * i);
      c.multiply(c.rows(rounded.data(), n, i), c.view(reinterpret_cast<const bf16*>(packed), {i, o}, {1, i}), to);
    } else {
      c.multiply(c.rows(x + first * i, n, i), c.view(reinterpret_cast<const float*>(packed), {i, o}, {1, i}), to);
    }
    if (bias != nullptr) c.add(to, c.view(bias, {o}), to);
  });
}

RLCORE_INLINE void product_gradients::of_weight(context& c, float* dweight, const float* dy, const float* x, extent_t t,
                                                extent_t o, extent_t i, bool accumulate) {
  kept_.reset();
  if (o * i == 0) return;
  if (t == 0) {
    if (!accumulate) c.fill(c.rows(dweight, o, i), 0);
    return;
  }
  for_pieces(t, std::max(o, i), most_elements, [&](extent_t first, extent_t n) {
    add(c, dweight, dy + first * o, x + first * i, n, o, i, accumulate || first > 0);
  });
  after_ = c.operations;
}

RLCORE_INLINE void product_gradients::of_input(context& c, const op::linear_backward_input& a) {
  const extent_t t = a.rows, o = a.outputs, i = a.inputs;
  if (t * i == 0) return;
  if (o == 0) {
    if (!a.accumulate) c.fill(c.rows(a.dx, t, i), 0);
    return;
  }
  const bool known = kept_ && after_ == c.operations && slopes_ == a.dy && kept_->size() == t * o;
  std::optional<scratch<bf16>> rounded;
  if (known) rounded = std::move(kept_);
  kept_.reset();
  std::optional<scratch<bf16>> narrow;
  const bf16* weight = a.format == weight_format::bfloat16 ? reinterpret_cast<const bf16*>(a.packed) : nullptr;
  if (c.rounds() && weight == nullptr) {
    narrow = c.converted<bf16>(a.weight, o * i);
    weight = narrow->data();
  }
  for_pieces(t, std::max(o, i), most_elements, [&](extent_t first, extent_t n) {
    std::optional<scratch<float>> product;
    if (a.accumulate) product = c.take<float>(n * i);
    const auto to = c.rows(a.dx + first * i, n, i);
    const auto result = c.rows(a.accumulate ? product->data() : a.dx + first * i, n, i);
    if (c.rounds()) {
      if (!known) rounded = c.converted<bf16>(a.dy + first * o, n * o);
      c.multiply(c.rows(rounded->data(), n, o), c.rows(weight, o, i), result);
    } else {
      c.multiply(c.rows(a.dy + first * o, n, o), c.rows(a.weight, o, i), result);
    }
    if (a.accumulate) c.add(to, result, to);
  });
}

RLCORE_INLINE void product_gradients::add(context& c, float* dweight, const float* dy, const float* x, extent_t t,
                                          extent_t o, extent_t i, bool accumulate) {
  const auto to = c.rows(dweight, o, i);
  if (c.rounds()) {
    kept_ = c.converted<bf16>(dy, t * o);
    slopes_ = dy;
    const auto values = c.converted<bf16>(x, t * i);
    if (c.op().aclnnGroupedMatmulAdd) {
      if (!accumulate) c.q.zero(dweight, static_cast<std::size_t>(o * i) * sizeof(float));
      c.run(c.op().aclnnGroupedMatmulAdd, c.rows(kept_->data(), t, o), c.rows(values.data(), t, i), end_of_rows(c, t),
            to, true, false, std::int64_t{2});
    } else {
      multiply(c, c.view(kept_->data(), {o, t}, {1, o}), c.rows(values.data(), t, i), dweight, o, i, accumulate);
    }
  } else {
    multiply(c, c.view(dy, {o, t}, {1, o}), c.rows(x, t, i), dweight, o, i, accumulate);
  }
}

RLCORE_INLINE void product_gradients::multiply(context& c, tensor_ref slopes, tensor_ref values, float* dweight,
                                               extent_t o, extent_t i, bool accumulate) {
  const auto to = c.rows(dweight, o, i);
  if (!accumulate) return c.multiply(slopes, values, to);
  const auto product = c.take<float>(o * i);
  c.multiply(slopes, values, c.rows(product.data(), o, i));
  c.add(to, c.rows(product.data(), o, i), to);
}

RLCORE_INLINE tensor_argument product_gradients::end_of_rows(context& c, extent_t t) {
  if (!end_) end_ = c.take<std::int64_t>(1);
  const std::int64_t wanted = t;
  if (known_end_ != wanted) c.q.upload(end_->data(), &wanted, sizeof wanted);
  known_end_ = wanted;
  return c.view(end_->data(), {1});
}

}  // namespace ascend::kernels
RLCORE_END
#endif
