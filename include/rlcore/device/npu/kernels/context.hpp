// Context of the NPU kernels: a queue, the compute type, and short names for operators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "rlcore/core/dtype.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/device/npu/kernels/memory.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
/// The kernels of the npu device policy, composed of Ascend's operators.
namespace ascend::kernels {

using tensor_ref = const tensor_argument&;  ///< a tensor for the duration of a call

/// The largest tensor that is passed to one operator, and the largest temporary of kernels over logits.
inline constexpr extent_t most_elements = (extent_t{1} << 31) - 1, most_temporary = extent_t{1} << 26;

/// Calls f(first row, rows) for pieces of t rows of w elements, with at most `most` elements per piece.
template <class F>
void for_pieces(extent_t t, extent_t w, extent_t most, F&& f) {
  const extent_t piece = std::max<extent_t>(1, most / std::max<extent_t>(1, w));
  for (extent_t first = 0; first < t; first += piece) f(first, std::min(piece, t - first));
}

/// One queue, the type of products, and the allocations of the device. Its functions enqueue one operator each, unless
/// noted; they throw what queue::run() throws.
struct context {
  queue& q;
  rlcore::compute compute = rlcore::compute::bfloat16;
  allocations memory = {};

  /// Operators and transfers so far: values derived from device memory are still valid if the count has not changed.
  mutable std::uint64_t operations = 0;

  const operator_calls& op() const noexcept { return q.table().op; }
  /// Runs an operator with its arguments in Ascend's order, see queue::run().
  template <class... A, class... B>
  void run(const operator_call<A...>& operation, B&&... arguments) const {
    ++operations;
    q.run(operation, std::forward<B>(arguments)...);
  }
  bool rounds() const noexcept { return compute == rlcore::compute::bfloat16; }
  /// Whether a product of these bf16 matrices may have a float result, which is then not rounded: from CANN 8.5 on.
  /// False if the version is unknown, and before 9.1 for shapes that 8.5 passes to an older kernel, MatMulV2, which may
  /// not support it.
  bool wide_product(tensor_ref a, tensor_ref b) const noexcept {
    const int cann = q.device().session()->known().cann_version;
    const auto usual = [](extent_t inner) { return inner <= 65535 && (inner >= 128 || inner % 16 == 0); };
    return cann >= 90100 || (cann >= 80500 && usual(a.innermost()) && usual(b.innermost()));
  }
  /// The permitted conversion of float inputs of products.
  cube_math cube() const noexcept { return compute == rlcore::compute::hf32 ? cube_math::allow_hf32 : cube_math::keep; }
  /// Rows of w elements from p to the end of its allocation.
  template <class T>
  extent_t rows_from(const T* p, extent_t w) const {
    return static_cast<extent_t>(memory.from(p).bytes() / sizeof(T)) / w;
  }

  /// A tensor at p; row-major without strides.
  template <class T>
  tensor_argument view(const T* p, const dimensions& shape, const dimensions& strides = {}) const {
    return q.tensor(p, shape, strides);
  }
  /// A tensor [t, w] at p, without gaps between its rows.
  template <class T>
  tensor_argument rows(const T* p, extent_t t, extent_t w) const {
    return q.tensor(p, {t, w});
  }
  /// rows(p, t, w) of memory given only by its start address. Throws std::invalid_argument if it ends before.
  template <class T>
  tensor_argument table(const T* p, extent_t t, extent_t w) const {
    if (rows_from(p, w) < t)
      throw std::invalid_argument("rlcore: npu: a table of " + std::to_string(t) + " rows of " + std::to_string(w) +
                                  " elements that leaves its memory");
    return rows(p, t, w);
  }
  /// A tensor [t, w] at p, whose rows begin `row` elements apart.
  template <class T>
  tensor_argument rows(const T* p, extent_t t, extent_t w, extent_t row) const {
    return q.tensor(p, {t, w}, {row, 1});
  }
  /// Memory for n elements, for the duration of a scope.
  template <class T>
  scratch<T> take(extent_t n) const {
    return q.take<T>(n);
  }

  // out may be an input of the same shape and strides
  /// out = a + b.
  void add(tensor_ref a, tensor_ref b, tensor_ref out) const { run(op().aclnnAdd, a, b, q.scalar(1.0f), out); }
  /// out = a - b.
  void sub(tensor_ref a, tensor_ref b, tensor_ref out) const { run(op().aclnnSub, a, b, q.scalar(1.0f), out); }
  /// out = a + b of integers.
  void add_integers(tensor_ref a, tensor_ref b, tensor_ref out) const { run(op().aclnnAdd, a, b, q.scalar(1), out); }
  /// out = a - b of integers.
  void sub_integers(tensor_ref a, tensor_ref b, tensor_ref out) const { run(op().aclnnSub, a, b, q.scalar(1), out); }
  /// out = a b, element by element or with one factor.
  void mul(tensor_ref a, tensor_ref b, tensor_ref out) const { run(op().aclnnMul, a, b, out); }
  void mul(tensor_ref a, float factor, tensor_ref out) const { run(op().aclnnMuls, a, q.scalar(factor), out); }
  /// out = a + term.
  void add(tensor_ref a, float term, tensor_ref out) const {
    run(op().aclnnAdds, a, q.scalar(term), q.scalar(1.0f), out);
  }
  /// out = e^a.
  void exp(tensor_ref a, tensor_ref out) const { run(op().aclnnExp, a, out); }
  /// out = ln a.
  void log(tensor_ref a, tensor_ref out) const { run(op().aclnnLog, a, out); }
  /// out = max(a, least), and at most FLT_MAX.
  void at_least(tensor_ref a, float least, tensor_ref out) const {
    run(op().aclnnClamp, a, q.scalar(least), q.scalar(std::numeric_limits<float>::max()), out);
  }
  /// Every element of out = value.
  void fill(tensor_ref out, float value) const { run(op().aclnnInplaceFillScalar, out, q.scalar(value)); }
  /// out = condition ? a : b.
  void where(tensor_ref condition, tensor_ref a, tensor_ref b, tensor_ref out) const {
    run(op().aclnnSWhere, condition, a, b, out);
  }
  /// Copies between different strides or types, or broadcasts dimensions of extent 1.
  void copy(tensor_ref to, tensor_ref from) const { run(op().aclnnInplaceCopy, to, from); }
  /// Casts to a contiguous tensor of the same shape.
  void cast(tensor_ref from, tensor_ref to) const { run(op().aclnnCast, from, to.type(), to); }
  /// out = the sum of x in float along a dimension, which stays with extent 1 if `keep`.
  void sum(tensor_ref x, std::int64_t dimension, bool keep, tensor_ref out) const {
    run(op().aclnnReduceSum, x, q.ints({dimension}), keep, data_type::float32, out);
  }
  /// out = the largest of x along a dimension, which stays with extent 1 if `keep`.
  void largest(tensor_ref x, std::int64_t dimension, bool keep, tensor_ref out) const {
    run(op().aclnnAmax, x, q.ints({dimension}), keep, out);
  }
  /// y[k] = x[ids[k]] along dimension 0.
  void select(tensor_ref x, tensor_ref ids, tensor_ref y) const {
    run(op().aclnnIndexSelect, x, std::int64_t{0}, ids, y);
  }

  /// out[m,n] = a[m,k] b[k,n] of two floats or two bf16; the result of bf16 is rounded to bf16 unless wide_product().
  void multiply(tensor_ref a, tensor_ref b, tensor_ref out) const {
    if (a.type() == data_type::float32 || wide_product(a, b)) {
      run(op().aclnnMatmul, a, b, out, a.type() == data_type::float32 ? cube() : cube_math::keep);
      return;
    }
    const scratch<bf16> narrow = take<bf16>(out.shape().elements());
    const auto product = view(narrow.data(), out.shape());
    run(op().aclnnMatmul, a, b, product, cube_math::keep);
    cast(product, out);
  }

  /// n floats as T: rounded to bf16, or copied.
  template <class T>
  scratch<T> converted(const float* x, extent_t n) const {
    scratch<T> to = take<T>(n);
    convert(view(x, {n}), view(to.data(), {n}));
    return to;
  }
  /// Copies to a contiguous tensor of the same shape; casts if the types differ.
  void convert(tensor_ref from, tensor_ref to) const {
    if (from.type() == to.type())
      copy(to, from);
    else
      cast(from, to);
  }
};

}  // namespace ascend::kernels
RLCORE_END
