// The cases that npu_golden records: every operator of rlcore's list, in the types that the npu device gives it.
//
// Bounds are what the documented arithmetic allows, in units in the last place of the output's type. None of them has
// been measured on hardware.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden_case.hpp"
#include "rlcore/core/random.hpp"

namespace golden {

class case_set {
 public:
  /// `record(case)` runs it and keeps its results, which later cases may start from.
  explicit case_set(std::function<void(golden_case&)> record) : record_(std::move(record)) {}

  void all() {
    for (const char* type : {"float32", "bfloat16"}) {
      elementwise(type);
      softmax(type);
      layers(type);
      attention(type);
    }
    comparisons();
    movement();
    indexing();
    order();
    products();
    optimizer();
  }

 private:
  using numbers = std::vector<double>;

  // The parts of a case.
  static std::int64_t elements(const shape& s) {
    std::int64_t n = 1;
    for (const std::int64_t extent : s) n *= extent;
    return n;
  }
  json put(const std::string& name, const char* role, const std::string& type, const shape& s, const numbers& values) {
    given_[name] = make_tensor(type_named(type), s, values);
    return {{"tensor", name}, {"role", role}, {"type", type}, {"shape", s}};
  }
  json in(const std::string& name, const std::string& type, const shape& s, const numbers& values) {
    return put(name, "in", type, s, values);
  }
  json in(const std::string& name, const std::string& type, const shape& s, double scale = 1) {
    return put(name, "in", type, s, normal(elements(s), scale));
  }
  json inout(const std::string& name, const std::string& type, const shape& s, double scale = 1) {
    return put(name, "inout", type, s, normal(elements(s), scale));
  }
  /// An input or output of an earlier case.
  json again(const std::string& name, const tensor& t) {
    given_[name] = t;
    return {{"tensor", name}, {"role", "in"}, {"type", rlcore::ascend::name_of(t.type)}, {"shape", t.shape}};
  }
  static json out(const std::string& name, const std::string& type, const shape& s) {
    return {{"tensor", name}, {"role", "out"}, {"type", type}, {"shape", s}};
  }
  static json view(json a, const shape& extents, const shape& strides, std::int64_t offset = 0) {
    a["view"] = extents;
    a["strides"] = strides;
    a["offset"] = offset;
    return a;
  }
  static json scalar(double value, const std::string& type = "float32") { return {{"scalar", value}, {"type", type}}; }
  numbers normal(std::int64_t n, double scale) {
    const rlcore::random_key key = rlcore::random_key{2026}.child(++drawn_);
    numbers v;
    for (std::int64_t i = 0; i < n; ++i) v.push_back(scale * key.normal(static_cast<std::uint32_t>(i)));
    return v;
  }
  numbers integers(std::int64_t n, std::uint32_t below) {
    const rlcore::random_key key = rlcore::random_key{2026}.child(++drawn_);
    numbers v;
    for (std::int64_t i = 0; i < n; ++i) v.push_back(key.below(below, static_cast<std::uint32_t>(i)));
    return v;
  }
  numbers positive(std::int64_t n) {
    numbers v = normal(n, 2);
    for (double& x : v) x = std::exp(x);
    return v;
  }
  /// `ulps`: a number, or one for each output.
  void add(const std::string& name, const char* op, json arguments, json ulps, bool rms = false, int from_cann = 0) {
    golden_case c{{{"name", name},
                   {"operator", op},
                   {"arguments", std::move(arguments)},
                   {"ulps", std::move(ulps)},
                   {"relative_to", rms ? "rms" : "value"}},
                  std::exchange(given_, {}),
                  {}};
    if (from_cann > 0) c.description["from_cann"] = from_cann;
    record_(c);
    last_ = std::move(c);
  }
  /// Float is held to `single` units, bfloat16 to one: its rounding hides the rest.
  static double bound(const std::string& type, double single) { return type == "float32" ? single : 1; }

  void elementwise(const std::string& t) {
    const shape s{3, 5, 17};
    const auto name = [&](const char* op) { return std::string(op) + "_" + t; };
    const auto binary = [&](const char* op, const char* full, double ulps, bool alpha, bool rms = false) {
      json a = json::array({in("x", t, s), in("y", t, s)});
      if (alpha) a.push_back(scalar(0.5));
      a.push_back(out("z", t, s));
      add(name(op), full, a, ulps, rms);
    };
    binary("add", "aclnnAdd", bound(t, 1), true);  // alpha may be fused with the sum
    binary("sub", "aclnnSub", bound(t, 1), true);
    binary("mul", "aclnnMul", bound(t, 0), false);
    binary("div", "aclnnDiv", 1, false);
    binary("maximum", "aclnnMaximum", 0, false);
    binary("silu_backward", "aclnnSiluBackward", bound(t, 16), false, true);
    add(name("add_row"), "aclnnAdd", {in("x", t, s), in("y", t, {17}), scalar(1), out("z", t, s)}, bound(t, 0));
    const auto unary = [&](const char* op, const char* full, double ulps, bool only_positive) {
      const numbers v = only_positive ? positive(elements(s)) : normal(elements(s), 3);
      add(name(op), full, {in("x", t, s, v), out("y", t, s)}, ulps);
    };
    unary("exp", "aclnnExp", bound(t, 4), false);
    unary("log", "aclnnLog", bound(t, 8), true);
    unary("neg", "aclnnNeg", 0, false);
    unary("sqrt", "aclnnSqrt", 1, true);
    unary("sigmoid", "aclnnSigmoid", bound(t, 8), false);
    unary("silu", "aclnnSilu", bound(t, 8), false);
    add(name("muls"), "aclnnMuls", {in("x", t, s), scalar(1.7), out("y", t, s)}, bound(t, 0));
    add(name("adds"), "aclnnAdds", {in("x", t, s), scalar(1.7), scalar(1), out("y", t, s)}, bound(t, 0));
    add(name("clamp"), "aclnnClamp", {in("x", t, s), scalar(-0.5), scalar(1), out("y", t, s)}, 0);
    add(name("where"), "aclnnSWhere",
        {in("c", "bool", s, integers(elements(s), 2)), in("x", t, s), in("y", t, s), out("z", t, s)}, 0);
    add(name("masked_fill"), "aclnnInplaceMaskedFillScalar",
        {inout("x", t, s), in("m", "bool", s, integers(elements(s), 2)), scalar(-2.5)}, 0);
    add(name("fill"), "aclnnInplaceFillScalar", {inout("x", t, s), scalar(0.3)}, 0);
    add(name("zero"), "aclnnInplaceZero", json::array({inout("x", t, s)}), 0);
  }

  void comparisons() {
    const shape s{4, 33};
    const numbers x = integers(elements(s), 5), y = integers(elements(s), 5);
    const json z = out("z", "bool", s);
    for (const char* t : {"float32", "int32", "int64"}) {
      const std::string of = std::string("_") + t;
      for (const auto& [name, op] :
           {std::pair{"lt_scalar", "aclnnLtScalar"}, {"ge_scalar", "aclnnGeScalar"}, {"eq_scalar", "aclnnEqScalar"}})
        add(name + of, op, {in("x", t, s, x), scalar(2, t), z}, 0);
      add("le_tensor" + of, "aclnnLeTensor", {in("x", t, s, x), in("y", t, s, y), z}, 0);
      add("lt_tensor" + of, "aclnnLtTensor", {in("x", t, s, x), in("y", t, s, y), z}, 0);
    }
    add("logical_and", "aclnnLogicalAnd",
        {in("x", "bool", s, integers(elements(s), 2)), in("y", "bool", s, integers(elements(s), 2)), z}, 0);
    const double infinite = std::numeric_limits<double>::infinity();
    add("is_finite", "aclnnIsFinite",
        {in("x", "float32", {5}, {0, infinite, -infinite, std::nan(""), 3e38}), out("z", "bool", {5})}, 0);
  }

  void movement() {
    const shape s{6, 40};
    const auto cast = [&](const char* from, const char* to, const numbers& v) {
      add(std::string("cast_") + from + "_to_" + to, "aclnnCast", {in("x", from, s, v), to, out("y", to, s)}, 0);
    };
    numbers ties;  // halfway between neighbouring bfloat16, of either parity
    for (int i = 0; i < 240; ++i)
      ties.push_back(std::ldexp(1 + (2 * (i % 120) + 1) / 256.0, i / 24 - 5) * (i % 2 ? 1 : -1));
    cast("float32", "bfloat16", ties);
    cast("float32", "float16", normal(240, 1000));
    cast("bfloat16", "float32", normal(240, 1));
    cast("int32", "float32", integers(240, 1u << 30));
    cast("int64", "float32", integers(240, 1000));
    cast("bool", "float32", integers(240, 2));
    cast("int32", "int64", integers(240, 1u << 30));
    add("copy_from_columns", "aclnnInplaceCopy",
        {inout("x", "float32", {6, 10}), view(in("y", "float32", s), {6, 10}, {40, 1}, 7)}, 0);
    add("copy_rounds", "aclnnInplaceCopy", {inout("x", "bfloat16", s), in("y", "float32", s)}, 0);
    add("permute", "aclnnPermute", {in("x", "bfloat16", {3, 4, 5}), {2, 0, 1}, out("y", "bfloat16", {5, 3, 4})}, 0);
    add("cat", "aclnnCat",
        {{{"list", {in("a", "float32", {3, 4}), in("b", "float32", {3, 9})}}}, 1, out("y", "float32", {3, 13})}, 0);
    add("triu", "aclnnTriu", {in("x", "float32", {7, 9}), 1, out("y", "float32", {7, 9})}, 0);
    add("arange", "aclnnArange", {scalar(0, "int64"), scalar(50, "int64"), scalar(1, "int64"), out("y", "int64", {50})},
        0);
  }

  void indexing() {
    const shape s{20, 16};
    for (const char* t : {"float32", "bfloat16"}) {
      const std::string of = std::string("_") + t;
      add("gather" + of, "aclnnGather",
          {in("x", t, s), 1, in("i", "int64", {20, 3}, integers(60, 16)), out("y", t, {20, 3})}, 0);
      add("index_select" + of, "aclnnIndexSelect",
          {in("x", t, s), 0, in("i", "int32", {11}, integers(11, 20)), out("y", t, {11, 16})}, 0);
    }
    add("index_add", "aclnnIndexAdd",
        {in("x", "float32", s), 0, in("i", "int32", {30}, integers(30, 20)), in("y", "float32", {30, 16}), scalar(1),
         out("z", "float32", s)},
        4, true);
    add("index_put", "aclnnIndexPutImpl",
        {inout("x", "float32", s),
         {{"list", {in("i", "int32", {3}, numbers{4, 0, 19})}}},
         in("y", "float32", {3, 16}),
         false,
         false},
        0);
  }

  void order() {
    const shape s{5, 60};
    add("reduce_sum_row", "aclnnReduceSum", {in("x", "float32", s), {1}, true, "float32", out("y", "float32", {5, 1})},
        16, true);
    add("reduce_sum_column", "aclnnReduceSum",
        {in("x", "float32", s), {0}, false, "float32", out("y", "float32", {60})}, 8, true);
    add("amax", "aclnnAmax", {in("x", "float32", s), {1}, true, out("y", "float32", {5, 1})}, 0);
    add("arg_max", "aclnnArgMax", {in("x", "float32", s), 1, true, out("y", "int64", {5, 1})}, 0);
    add("cumsum", "aclnnCumsum", {in("x", "float32", s), 1, "float32", out("y", "float32", s)}, 32, true);
    // Values of few kinds: equal ones stay in order.
    add("sort_stable", "aclnnSort",
        {in("x", "float32", s, integers(300, 9)), true, 1, true, out("y", "float32", s), out("i", "int64", s)}, 0);
    add("topk", "aclnnTopk",
        {in("x", "float32", s), 7, 1, true, true, out("y", "float32", {5, 7}), out("i", "int64", {5, 7})}, 0);
  }

  void softmax(const std::string& t) {
    const shape s{6, 50};
    add("softmax_" + t, "aclnnSoftmax", {in("x", t, s, 3), -1, out("y", t, s)}, bound(t, 32));
    const tensor p = last_.results.at("y");
    add("softmax_backward_" + t, "aclnnSoftmaxBackward", {in("dy", t, s), again("y", p), -1, out("dx", t, s)},
        bound(t, 32), true);
    add("log_softmax_" + t, "aclnnLogSoftmax", {in("x", t, s, 3), -1, out("y", t, s)}, bound(t, 32));
  }

  void layers(const std::string& t) {
    const shape s{6, 64};
    add("rms_norm_" + t, "aclnnRmsNorm",
        {in("x", t, s), in("g", t, {64}), 1e-6, out("y", t, s), out("rstd", "float32", {6, 1})}, bound(t, 16));
    const tensor x = last_.given.at("x"), g = last_.given.at("g"), rstd = last_.results.at("rstd");
    add("rms_norm_grad_" + t, "aclnnRmsNormGrad",
        {in("dy", t, s), again("x", x), again("rstd", rstd), again("g", g), out("dx", t, s),
         out("dg", "float32", {64})},
        64, true);
    add("add_rms_norm_" + t, "aclnnAddRmsNorm",
        {in("a", t, s), in("b", t, s), in("g", t, {64}), 1e-6, out("y", t, s), out("rstd", "float32", {6, 1}),
         out("x", t, s)},
        // Whether the sum is rounded to bfloat16 before its mean is taken is not documented.
        {{"x", 0}, {"y", t == "float32" ? 16 : 2}, {"rstd", t == "float32" ? 16 : 8192}});
    add("swiglu_" + t, "aclnnSwiGlu", {in("x", t, {6, 128}), -1, out("y", t, s)}, bound(t, 16));
    add("swiglu_grad_" + t, "aclnnSwiGluGrad", {in("dy", t, s), in("x", t, {6, 128}), -1, out("dx", t, {6, 128})},
        bound(t, 32), true);
    add("rope_" + t, "aclnnRotaryPositionEmbedding",
        {in("x", t, {1, 6, 2, 32}), in("cos", t, {1, 6, 1, 32}), in("sin", t, {1, 6, 1, 32}), 0,
         out("y", t, {1, 6, 2, 32})},
        bound(t, 4), true);
  }

  void attention(const std::string& t) {
    const shape q{7, 4, 32}, k{7, 2, 32}, sums{7, 4, 8};
    const json mask{{"causal_mask", 2048}}, far = 2147483647, ends{3, 7};
    add("attention_" + t, "aclnnFlashAttentionVarLenScore",
        {in("q", t, q),
         in("k", t, k),
         in("v", t, k),
         nullptr,
         nullptr,
         nullptr,
         mask,
         nullptr,
         ends,
         ends,
         0.17,
         1.0,
         far,
         far,
         4,
         "TND",
         0,
         3,
         out("max", "float32", sums),
         out("sum", "float32", sums),
         out("none", t, {0}),
         out("y", t, q)},
        64, true);
    const tensors given = last_.given, results = last_.results;
    add("attention_grad_" + t, "aclnnFlashAttentionUnpaddingScoreGrad",
        {again("q", given.at("q")),
         again("k", given.at("k")),
         again("v", given.at("v")),
         in("dy", t, q),
         nullptr,
         nullptr,
         nullptr,
         mask,
         again("max", results.at("max")),
         again("sum", results.at("sum")),
         nullptr,
         again("y", results.at("y")),
         nullptr,
         ends,
         ends,
         0.17,
         1.0,
         far,
         far,
         4,
         "TND",
         0,
         3,
         out("dq", t, q),
         out("dk", t, k),
         out("dv", t, k),
         out("none", t, {0})},
        t == "float32" ? 256 : 4, true);
  }

  void products() {
    const auto product = [&](const std::string& name, const std::string& t, const std::string& to, int math,
                             double ulps, int from_cann = 0) {
      add(name, "aclnnMatmul", {in("a", t, {24, 96}), in("b", t, {96, 40}), out("c", to, {24, 40}), math}, ulps, true,
          from_cann);
    };
    product("matmul_float32", "float32", "float32", 0, 16);
    product("matmul_hf32", "float32", "float32", 3, 64);
    product("matmul_bfloat16", "bfloat16", "bfloat16", 0, 1);
    product("matmul_bfloat16_to_float32", "bfloat16", "float32", 0, 16, 80500);
    add("matmul_turned", "aclnnMatmul",
        {in("a", "bfloat16", {24, 96}), view(in("b", "bfloat16", {40, 96}), {96, 40}, {1, 96}),
         out("c", "bfloat16", {24, 40}), 0},
        1, true);
    add("batch_matmul", "aclnnBatchMatMul",
        {in("a", "bfloat16", {3, 9, 32}), in("b", "bfloat16", {3, 32, 11}), out("c", "bfloat16", {3, 9, 11}), 0}, 1,
        true);
    add("grouped_matmul_add", "aclnnGroupedMatmulAdd",
        {in("a", "bfloat16", {48, 32}), in("b", "bfloat16", {48, 64}), in("n", "int64", {1}, numbers{48}),
         inout("c", "float32", {32, 64}), true, false, 2},
        16, true);
  }

  void optimizer() {
    const shape s{200};
    json square = in("v", "float32", s, positive(200));
    square["role"] = "inout";
    add("adamw", "aclnnApplyAdamWV2",
        {inout("w", "float32", s), inout("m", "float32", s, 0.1), square, nullptr, in("g", "float32", s),
         in("step", "float32", {1}, numbers{4}), 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false},
        16, true);
  }

  std::function<void(golden_case&)> record_;
  tensors given_;
  golden_case last_;
  std::uint32_t drawn_ = 0;
};

}  // namespace golden
