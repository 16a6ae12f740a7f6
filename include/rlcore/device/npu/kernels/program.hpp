// Executes a traced program with operators over whole arrays: one or two per step, and one select per result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/npu/kernels/context.hpp"
#include "rlcore/objective/traced/run.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Whether a step is one operator, possibly with a constant from memory; other steps are expanded. Clamp requires
/// numbers as bounds.
bool is_operator(const traced_program& p, const traced_step& s);

/// One pass of a program over some rows. The result of a step is kept until the last step that reads it has been
/// enqueued; then the queue reuses its memory. A step whose operands have one value per row computes one value per row.
class program_pass {
 public:
  /// `constants`: the numbers of the program's steps in device memory, one per step, followed by a 0.
  program_pass(const context& c, const traced_program& p, const program_arrays<float>& arrays, const float* constants,
               extent_t first, extent_t rows)
      : c_(c), p_(p), arrays_(arrays), constants_(constants), first_(first), rows_(rows), values_(p.steps.size()) {}

  /// Enqueues all steps, and the results.
  void run();

 private:
  /// The address and strides of a value; a stride is 0 where the value repeats.
  struct place {
    const float* numbers = nullptr;  ///< of a number
    const bool* truths = nullptr;    ///< of a truth value
    extent_t rows = 1, width = 1, row_stride = 0, token_stride = 0;
    std::optional<scratch<float>> own_numbers{};
    std::optional<scratch<bool>> own_truths{};
  };

  static place input_place(const program_input<float>& x, extent_t first, extent_t rows, extent_t width);
  template <class T>
  tensor_argument view(const T* data, const place& v) const {
    return c_.view(data, {v.rows, v.width}, {v.rows == 1 ? v.width : v.row_stride, v.width == 1 ? 1 : v.token_stride});
  }
  tensor_argument number(const place& v) const { return view(v.numbers, v); }
  tensor_argument truth(const place& v) const { return view(v.truths, v); }
  /// A number in device memory: that of step i, or the 0 after them.
  tensor_argument constant(std::size_t i) const { return c_.view(constants_ + i, {1, 1}); }
  tensor_argument zero() const { return constant(p_.steps.size()); }

  const place& operand(const traced_step& s, std::size_t k) const { return values_[s.operands[k]]; }
  bool is_constant(const traced_step& s, std::size_t k) const {
    return p_.steps[s.operands[k]].what == operation::constant;
  }
  float constant_of(const traced_step& s, std::size_t k) const {
    return static_cast<float>(p_.steps[s.operands[k]].number);
  }

  /// Memory for the result of step s, as large as its largest operand.
  template <class T>
  place room(const traced_step& s) const {
    place v;
    for (std::size_t k = 0; k < form_of(s.what).operands; ++k)
      v.rows = std::max(v.rows, operand(s, k).rows), v.width = std::max(v.width, operand(s, k).width);
    v.row_stride = v.width, v.token_stride = 1;
    scratch<T> memory = c_.take<T>(v.rows * v.width);
    if constexpr (std::is_same_v<T, bool>)
      v.truths = memory.data(), v.own_truths.emplace(std::move(memory));
    else
      v.numbers = memory.data(), v.own_numbers.emplace(std::move(memory));
    return v;
  }

  void make(std::size_t i);

  void compare(const traced_step& s, const tensor_argument& out) const;

  void compute(const traced_step& s, const tensor_argument& out) const;

  /// The results where slots count, 0 where they do not.
  void write_results() const;
  /// Writes a result whose value and mask both repeat over slots.
  void narrow_result(const place& live, const place& v, const tensor_argument& out) const;

  const context& c_;
  const traced_program& p_;
  const program_arrays<float>& arrays_;
  const float* constants_;
  extent_t first_, rows_;
  std::vector<place> values_;
};

/// program_executor::run_program. Uploads the program's numbers together; downloads nothing.
void run_program(const context& c, const traced_program& program, const program_arrays<float>& arrays);

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE bool is_operator(const traced_program& p, const traced_step& s) {
  const auto is_number = [&](std::size_t k) { return p.steps[s.operands[k]].what == operation::constant; };
  switch (s.what) {
    case operation::clamp:
      return is_number(1) && is_number(2) && !is_number(0);
    case operation::equal:
    case operation::min:
    case operation::max:
    case operation::abs:
    case operation::sign:
    case operation::expm1:
    case operation::log1p:
    case operation::excess:
    case operation::softplus:
    case operation::multiply_add:
      return false;
    default:
      return true;
  }
}

RLCORE_INLINE void program_pass::run() {
  std::vector<std::size_t> last(p_.steps.size());
  for (std::size_t i = 0; i < p_.steps.size(); ++i)
    for (std::size_t k = 0; k < form_of(p_.steps[i].what).operands; ++k) last[p_.steps[i].operands[k]] = i;
  for (const traced_result& r : p_.results) last[r.step] = p_.steps.size();
  for (std::size_t i = 0; i < p_.steps.size(); ++i) {
    make(i);
    for (std::size_t k = 0; k < form_of(p_.steps[i].what).operands; ++k)
      if (last[p_.steps[i].operands[k]] == i) values_[p_.steps[i].operands[k]] = {};
  }
  write_results();
}

RLCORE_INLINE auto program_pass::input_place(const program_input<float>& x, extent_t first, extent_t rows,
                                             extent_t width) -> place {
  place v;
  v.numbers = x.data + first * x.row_stride;
  v.rows = x.row_stride == 0 ? 1 : rows, v.width = x.token_stride == 0 ? 1 : width;
  v.row_stride = x.row_stride, v.token_stride = x.token_stride;
  return v;
}

RLCORE_INLINE void program_pass::make(std::size_t i) {
  const traced_step& s = p_.steps[i];
  if (s.what == operation::input) {
    values_[i] = input_place(arrays_.of(s), first_, rows_, arrays_.width);
  } else if (s.what == operation::constant) {
    values_[i].numbers = constants_ + i;
  } else if (s.what == operation::less || s.what == operation::less_equal || s.what == operation::logical_and ||
             s.what == operation::logical_or || s.what == operation::logical_not) {
    place v = room<bool>(s);
    compare(s, truth(v));
    values_[i] = std::move(v);
  } else {
    place v = room<float>(s);
    compute(s, number(v));
    values_[i] = std::move(v);
  }
}

RLCORE_INLINE void program_pass::compare(const traced_step& s, const tensor_argument& out) const {
  const operator_calls& op = c_.op();
  switch (s.what) {
    case operation::less:
      return c_.run(op.aclnnLtTensor, number(operand(s, 0)), number(operand(s, 1)), out);
    case operation::less_equal:
      return c_.run(op.aclnnLeTensor, number(operand(s, 0)), number(operand(s, 1)), out);
    case operation::logical_and:
      return c_.run(op.aclnnLogicalAnd, truth(operand(s, 0)), truth(operand(s, 1)), out);
    case operation::logical_or:  // of truth values
      return c_.run(op.aclnnMaximum, truth(operand(s, 0)), truth(operand(s, 1)), out);
    default:
      return c_.run(op.aclnnEqScalar, truth(operand(s, 0)), c_.q.scalar(false), out);
  }
}

RLCORE_INLINE void program_pass::compute(const traced_step& s, const tensor_argument& out) const {
  const operator_calls& op = c_.op();
  const auto x = [&](std::size_t k) { return number(operand(s, k)); };
  switch (s.what) {
    case operation::add:
      if (is_constant(s, 1)) return c_.add(x(0), constant_of(s, 1), out);
      if (is_constant(s, 0)) return c_.add(x(1), constant_of(s, 0), out);
      return c_.add(x(0), x(1), out);
    case operation::subtract:
      if (is_constant(s, 1)) return c_.add(x(0), -constant_of(s, 1), out);
      return c_.sub(x(0), x(1), out);
    case operation::multiply:
      if (is_constant(s, 1)) return c_.mul(x(0), constant_of(s, 1), out);
      if (is_constant(s, 0)) return c_.mul(x(1), constant_of(s, 0), out);
      return c_.mul(x(0), x(1), out);
    case operation::divide:
      return c_.run(op.aclnnDiv, x(0), x(1), out);
    case operation::negate:
      return c_.run(op.aclnnNeg, x(0), out);
    case operation::select:
      return c_.where(truth(operand(s, 0)), x(1), x(2), out);
    case operation::clamp:
      return c_.run(op.aclnnClamp, x(0), c_.q.scalar(constant_of(s, 1)), c_.q.scalar(constant_of(s, 2)), out);
    case operation::exp:
      return c_.exp(x(0), out);
    case operation::log:
      return c_.log(x(0), out);
    case operation::sqrt:
      return c_.run(op.aclnnSqrt, x(0), out);
    case operation::sigmoid:
      return c_.run(op.aclnnSigmoid, x(0), out);
    default:
      throw std::logic_error("rlcore: npu: '" + std::string(form_of(s.what).text) + "' should have been expanded");
  }
}

RLCORE_INLINE void program_pass::write_results() const {
  std::optional<place> live;
  if (arrays_.live.data != nullptr) {
    const place x = input_place(arrays_.live, first_, rows_, arrays_.width);
    live.emplace();
    live->rows = x.rows, live->width = x.width, live->row_stride = x.width, live->token_stride = 1;
    live->own_truths.emplace(c_.take<bool>(x.rows * x.width));
    live->truths = live->own_truths->data();
    c_.run(c_.op().aclnnLtTensor, zero(), number(x), truth(*live));
  }
  for (std::size_t r = 0; r < p_.results.size(); ++r) {
    const place& v = values_[p_.results[r].step];
    const auto out = c_.view(arrays_.results[r] + first_ * arrays_.width, {rows_, arrays_.width});
    if (!live)
      c_.copy(out, number(v));
    else if (live->rows * live->width < rows_ * arrays_.width && v.rows * v.width < rows_ * arrays_.width)
      narrow_result(*live, v, out);
    else
      c_.where(truth(*live), number(v), zero(), out);
  }
}

RLCORE_INLINE void program_pass::narrow_result(const place& live, const place& v, const tensor_argument& out) const {
  const extent_t rows = std::max(live.rows, v.rows), width = std::max(live.width, v.width);
  const scratch<float> part = c_.take<float>(rows * width);
  const auto chosen = c_.view(part.data(), {rows, width});
  c_.where(truth(live), number(v), zero(), chosen);
  c_.copy(out, chosen);
}

RLCORE_INLINE void run_program(const context& c, const traced_program& program, const program_arrays<float>& arrays) {
  if (arrays.rows * arrays.width == 0) return;
  traced_program wanted = program;
  std::vector<float*> results;
  wanted.results.clear();
  for (std::size_t r = 0; r < program.results.size(); ++r)
    if (arrays.results[r] != nullptr)
      wanted.results.push_back(program.results[r]), results.push_back(arrays.results[r]);
  const traced_program p = expanded(wanted, is_operator);
  program_arrays<float> given = arrays;
  given.results = results;
  std::vector<float> numbers;
  for (const traced_step& s : p.steps) numbers.push_back(static_cast<float>(s.number));
  numbers.push_back(0);
  const scratch<float> constants = c.take<float>(static_cast<extent_t>(numbers.size()));
  c.q.upload(constants.data(), numbers.data(), numbers.size() * sizeof(float));
  for_pieces(arrays.rows, arrays.width, most_temporary,
             [&](extent_t first, extent_t rows) { program_pass(c, p, given, constants.data(), first, rows).run(); });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
