// Matmul, batched matmul and grouped matmul of aclnn, on top of the cube.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/emulator/execution.hpp"
#include "rlcore/emulator/numerics/cube.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"
#include "rlcore/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// The last two dimensions of a view as one matrix per index of the dimensions before them. A view that is transposed
/// in memory is read in memory order, as the cube does.
struct matrix_operand {
  tensor view;
  bool transposed = false;

  /// `t` has at least two dimensions.
  matrix_operand(tensor t);
  std::int64_t rows() const { return view.shape[view.shape.size() - (transposed ? 1 : 2)]; }
  std::int64_t columns() const { return view.shape[view.shape.size() - (transposed ? 2 : 1)]; }
  extents batch() const { return {view.shape.begin(), view.shape.end() - 2}; }
};

/// The types of a product: the operand type in the multiplication, whether operands become HF32, and the type to which
/// the sum is rounded before it is cast to the output type.
struct product_types {
  data_type operands = data_type::float32, result = data_type::float32;
  bool hf32 = false;
  int group() const { return operands == data_type::float32 ? 8 : 16; }
};

/// How aclnn writes the cube's sums to `out`.
enum class product_path : unsigned char {
  plain,    ///< aclnnMatmul by a matrix or a vector
  batched,  ///< aclnnBatchMatMul, and aclnnMatmul by three dimensions or more
  dot       ///< aclnnMatmul of two vectors
};

/// The rules of A2 and A3. bfloat16 is documented not to mix with other types; float16 with float32 is float32; floats
/// become HF32 (allow_hf32, use_hf32) or float16 (use_float16) on request. Before CANN 8.5 a plain product has the type
/// of its first operand and is refused if `out` has another type. From then on a plain product of 16-bit operands with
/// a float32 `out` is not rounded in between (8.5 rounds with use_float16); a batched one is until 9.1.
product_types types_of_product(planner& p, const tensor& a, const tensor& b, const tensor& out, cube_math math,
                               product_path path);

/// The values of an operand as the cube multiplies them.
template <class Real>
std::span<const Real> cube_values(execution& e, const tensor& t, const product_types& types, bool hf32) {
  const auto values = e.read<Real>(t);
  if constexpr (std::is_same_v<Real, float>) {
    const bool down = types.operands == data_type::float16 && t.type == data_type::float32;
    if (!hf32 && !down) return values;
    float* converted = e.take<float>(values.size());
    std::copy(values.begin(), values.end(), converted);
    const std::span<float> operand(converted, values.size());
    if (down) round_values(operand, data_type::float16, rounding::nearest_even, e.overflow);
    if (hf32)
      for (float& x : operand) x = to_hf32(x, e.machine.hf32_ties);
    return operand;
  } else {
    return values;
  }
}

/// The position, in matrices, of the operand of each of `count` products in a tensor with leading dimensions `shape`.
/// Dimensions of extent 1 are repeated along `batch`.
std::vector<std::int64_t> matrix_positions(const extents& shape, const extents& batch, std::int64_t count);

/// out = a b for every index of the dimensions before the last two, which are repeated where an operand has extent 1 or
/// lacks them. With a single plain matrix b, all rows of a are one product.
kernel plan_product(planner& p, const tensor& left, const tensor& right, tensor out, cube_math math, product_path path);

/// self of 1 to 6 dimensions times mat2 of 1 to 6, as torch.matmul multiplies.
kernel aclnnMatmul(planner& p, input self, input mat2, output out, cube_math math);

/// [B, M, K] times [B, K, N]; one of the two B may be 1.
kernel aclnnBatchMatMul(planner& p, input self, input mat2, output out, cube_math math);

/// y[g] += x[rows of group g]^T weight[rows of group g], where group g ends at row group_list[g]: x is [K, M], weight
/// [K, N], both float16 or bfloat16, y [G, M, N] or [G M, N] in float32. The sums of the cube are added to y without
/// being rounded to 16 bits. Only transposeX = true, transposeWeight = false and groupType = 2 (along K) exist.
kernel aclnnGroupedMatmulAdd(planner& p, input x, input weight, input group_list, output y, bool transpose_x,
                             bool transpose_weight, std::int64_t group_type);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE matrix_operand::matrix_operand(tensor t) : view(std::move(t)) {
  const std::size_t r = view.shape.size();
  transposed = view.strides[r - 2] == 1 && view.strides[r - 1] != 1 && view.shape[r - 2] > 1;
  if (!transposed) return;
  std::swap(view.shape[r - 2], view.shape[r - 1]);
  std::swap(view.strides[r - 2], view.strides[r - 1]);
}

RLCORE_INLINE product_types types_of_product(planner& p, const tensor& a, const tensor& b, const tensor& out,
                                             cube_math math, product_path path) {
  const int cann = p.machine.cann_version;
  if ((a.type == data_type::bfloat16) != (b.type == data_type::bfloat16))
    p.refuse(invalid_parameter, std::string("a product of ") + name_of(a.type) + " and " + name_of(b.type));
  const int request = static_cast<int>(math);
  if (request == 4 || request == 5)
    p.refuse(invalid_parameter,
             "cubeMathType " + std::to_string(request) +
                 (cann < 80500 || (cann >= 90100 && request == 5)
                      ? " is none of CANN " + std::to_string(cann / 10000) + '.' + std::to_string(cann / 100 % 100)
                      : " is not modelled"));
  if (request < 0 || request > 5) p.refuse(invalid_parameter, "cubeMathType " + std::to_string(request));
  const bool empty = a.size() == 0 || b.size() == 0;
  if (cann < 80500 && path == product_path::plain && !empty && out.type != a.type) {
    const bool checked = a.type == data_type::float32 && out.type == data_type::float16 && math == cube_math::keep;
    p.refuse(checked ? invalid_parameter : null_inside, std::string("a product that begins with ") + name_of(a.type) +
                                                            " is not copied into " + name_of(out.type) +
                                                            " before CANN 8.5");
  }
  product_types t;
  t.operands = a.type == b.type ? a.type : data_type::float32;
  if (t.operands == data_type::float32) {
    t.hf32 = math == cube_math::allow_hf32 || math == cube_math::use_hf32;
    if (math == cube_math::use_float16) t.operands = data_type::float16;
  }
  const bool wide = cann >= 90100 || (cann >= 80500 && path == product_path::plain && math != cube_math::use_float16);
  t.result = out.type == data_type::float32 && wide ? data_type::float32 : t.operands;
  return t;
}

RLCORE_INLINE std::vector<std::int64_t> matrix_positions(const extents& shape, const extents& batch,
                                                         std::int64_t count) {
  if (batch.empty()) return {0};
  tensor t;
  t.shape = shape;
  t.strides = row_major(shape);
  const tensor spread = expanded(t, batch);
  std::vector<std::int64_t> at(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = batch.size(); d-- > 0; rest /= batch[d])
      at[static_cast<std::size_t>(i)] += rest % batch[d] * spread.strides[d];
  }
  return at;
}

RLCORE_INLINE kernel plan_product(planner& p, const tensor& left, const tensor& right, tensor out, cube_math math,
                                  product_path path) {
  const product_types types = types_of_product(p, left, right, out, math, path);
  matrix_operand a(left), b(right);
  if (a.columns() != b.rows())
    p.refuse(invalid_parameter, "shapes " + printed(left.shape) + " and " + printed(right.shape) + " do not multiply");
  extents batch;
  if (!broadcast(a.batch(), b.batch(), batch))
    p.refuse(invalid_parameter,
             "shapes " + printed(left.shape) + " and " + printed(right.shape) + " have no common leading dimensions");
  std::int64_t m = a.rows(), count = product(batch);
  const std::int64_t n = b.columns(), k = a.columns();
  if (product(b.batch()) == 1 && !a.transposed && a.batch() == batch) {
    m *= count;
    count = 1;
    batch.clear();
  }
  cube_order order{types.group(), {}, p.machine.threads};
  if (count == 1 && k > 0) {
    order.part_ends =
        split_k({m, n, k, types.operands == data_type::float32 ? 4 : 2, a.transposed, b.transposed, types.hf32},
                p.machine.cores);
    if (order.part_ends.size() > 1) p.workspace = static_cast<std::uint64_t>(m * n) * 4 * order.part_ends.size();
  }
  const std::vector<std::int64_t> first = matrix_positions(a.batch(), batch, count),
                                  second = matrix_positions(b.batch(), batch, count);
  const bool hf32 = types.hf32 && k != 1;  // a product with K = 1 runs on the vector unit
  return in_working_precision(p.machine, [=, out = std::move(out)](execution& e, auto kind) {
    using real = decltype(kind);
    const auto x = cube_values<real>(e, a.view, types, hf32), y = cube_values<real>(e, b.view, types, hf32);
    const auto z = e.result<real>(out);
    if (z.empty()) return;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const real* u = x.data() + first[i] * m * k;
      const real* v = y.data() + second[i] * k * n;
      cube::multiply(order, m, n, k, a.transposed ? matrix<real>{u, 1, m} : matrix<real>{u, k, 1},
                     b.transposed ? matrix<real>{v, 1, k} : matrix<real>{v, n, 1},
                     z.data() + static_cast<std::int64_t>(i) * m * n);
    }
    if constexpr (std::is_same_v<real, float>)
      if (types.result != out.type) round_values(z, types.result, rounding::nearest_even, e.overflow);
    e.store(out, std::span<const real>(z));
  });
}

RLCORE_INLINE kernel aclnnMatmul(planner& p, input self, input mat2, output out, cube_math math) {
  tensor a = p.in(self, float_types), b = p.in(mat2, float_types), c = p.out(out, float_types);
  for (const tensor* t : {&a, &b})
    p.require(t->rank() >= 1 && t->rank() <= 6,
              "operands of " + std::to_string(t->rank()) + " dimensions, 1 to 6 expected");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) {
    a.shape.insert(a.shape.begin(), 1);
    a.strides.insert(a.strides.begin(), a.shape[1]);
  }
  if (column) {
    b.shape.push_back(1);
    b.strides.push_back(1);
  }
  extents shape;
  if (!broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2}, shape))
    p.refuse(invalid_parameter,
             "shapes " + printed(a.shape) + " and " + printed(b.shape) + " have no common leading dimensions");
  if (!row) shape.push_back(a.shape[a.shape.size() - 2]);
  if (!column) shape.push_back(b.shape.back());
  p.require_shape(c, shape, "out");
  const product_path path = row && column  ? product_path::dot
                            : b.rank() > 2 ? product_path::batched
                                           : product_path::plain;
  return plan_product(p, a, b, std::move(c), math, path);
}

RLCORE_INLINE kernel aclnnBatchMatMul(planner& p, input self, input mat2, output out, cube_math math) {
  tensor a = p.in(self, float_types), b = p.in(mat2, float_types), c = p.out(out, float_types);
  p.require(a.rank() == 3 && b.rank() == 3,
            "shapes " + printed(a.shape) + " and " + printed(b.shape) + ", 3 dimensions expected");
  p.require(a.shape[0] == b.shape[0] || a.shape[0] == 1 || b.shape[0] == 1,
            "batches of " + std::to_string(a.shape[0]) + " and " + std::to_string(b.shape[0]));
  p.require_shape(c, {a.shape[0] == 1 ? b.shape[0] : a.shape[0], a.shape[1], b.shape[2]}, "out");
  return plan_product(p, a, b, std::move(c), math, product_path::batched);
}

RLCORE_INLINE kernel aclnnGroupedMatmulAdd(planner& p, input x, input weight, input group_list, output y,
                                           bool transpose_x, bool transpose_weight, std::int64_t group_type) {
  const types sixteen{data_type::float16, data_type::bfloat16};
  const tensor a = p.in(x, sixteen), b = p.in(weight, sixteen), ends = p.in(group_list, {data_type::int64});
  const tensor c = p.out(y, {data_type::float32});
  constexpr aclnnStatus shapes = 561002;
  p.require(a.type == b.type, std::string("x is ") + name_of(a.type) + ", weight " + name_of(b.type));
  p.require(transpose_x && !transpose_weight && group_type == 2,
            "only transposeX = true, transposeWeight = false and groupType = 2 are supported");
  p.require(c.contiguous(), "y is not contiguous");
  const auto shape_text = [&] { return printed(a.shape) + ", " + printed(b.shape) + " and " + printed(c.shape); };
  if (a.rank() != 2 || b.rank() != 2 || a.shape[0] != b.shape[0] || ends.rank() != 1 || a.size() == 0 || b.size() == 0)
    p.refuse(shapes, "x, weight, y of shapes " + shape_text());
  const std::int64_t k = a.shape[0], m = a.shape[1], n = b.shape[1], groups = ends.shape[0];
  if (c.shape != extents{groups, m, n} && c.shape != extents{groups * m, n})
    p.refuse(shapes, "x, weight, y of shapes " + shape_text() + " for " + std::to_string(groups) + " groups");
  const cube_order order{16, {}, p.machine.threads};
  return in_working_precision(p.machine, [=](execution& e, auto kind) {
    using real = decltype(kind);
    const auto left = e.read<real>(a), right = e.read<real>(b), old = e.read<real>(c);
    const auto last = e.read<std::int64_t>(ends);
    const auto z = e.result<real>(c, true);
    real* sums = e.take<real>(static_cast<std::size_t>(m * n));
    std::int64_t begin = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t end = last[static_cast<std::size_t>(g)];
      if (end < begin || end > k || (g + 1 == groups && end != k))
        throw outcome_error{errors::core_exception, "aclnnGroupedMatmulAdd: group " + std::to_string(g) +
                                                        " ends at row " + std::to_string(end) + ", behind " +
                                                        std::to_string(begin) + " of " + std::to_string(k)};
      cube::multiply(order, m, n, end - begin, matrix<real>{left.data() + begin * m, 1, m},
                     matrix<real>{right.data() + begin * n, n, 1}, sums);
      for (std::int64_t i = 0; i < m * n; ++i)
        z[static_cast<std::size_t>(g * m * n + i)] = old[static_cast<std::size_t>(g * m * n + i)] + sums[i];
      begin = end;
    }
    e.store(c, std::span<const real>(z));
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
