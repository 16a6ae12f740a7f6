// Mixture of experts (MoE) layer (Shazeer et al. 2017; Qwen3-MoE).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/mlp.hpp"
#include "rlcore/nn/model/activations.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/moe/expert_visit.hpp"
#include "rlcore/nn/moe/routing.hpp"

RLCORE_BEGIN
namespace nn {

/// y = sum over the chosen experts e of a row, by ascending e, of weight_e mlp_e(x); see routing for the choice. Each
/// expert's product runs over its rows, sorted: a row's output, and the order in which rows add to an expert's
/// gradient, do not depend on other rows of the pass. Under expert parallelism each rank computes its own experts
/// (expert_visit.hpp).
struct moe {
  linear router;
  std::vector<mlp> each;                 ///< experts from first_expert: all, or those of this rank
  extent_t first_expert = 0, layer = 0;  ///< layer: index among layers with experts
  extent_t chosen = 0;
  bool renormalise = false;

  explicit operator bool() const noexcept { return !each.empty(); }
  extent_t experts() const { return router.outputs; }
  extent_t hidden() const { return router.inputs; }
  extent_t width() const { return each.front().width(); }

  /// Device memory for t tokens, t * chosen slots. `rows`, `slopes`, `factors` and `logits` are shared by all layers.
  template <class Device>
  moe_activations take(workspace<Device>& space, extent_t t) const {
    const extent_t n = t * chosen;
    moe_activations a;
    a.routes = &space.take_routing();
    a.gate_up = space.template take<float>(n * 2 * width());
    a.activated = space.template take<float>(n * width());
    a.rows = space.take_shared(n * (hidden() + width() + 2) + t * experts());
    a.slopes = a.rows + n * hidden();
    a.factors = a.slopes + n * width();
    a.logits = a.factors + 2 * n;
    return a;
  }

  /// y [tokens, hidden] from x [tokens, hidden]; p.routed, if set, counts the choices. Throws std::logic_error if
  /// experts are missing without an expert group.
  template <class Device>
  void forward(const pass<Device>& p, const moe_activations& a, float* y, const float* x) const {
    if (!p.expert && std::ssize(each) != experts())
      throw std::logic_error("rlcore: a model with a part of the experts runs without workspace::experts");
    Device& device = p.device;
    const extent_t t = p.tokens, h = hidden(), w = width();
    routing& r = *a.routes;
    router.forward(p, a.logits, x, t);
    r.renormalise = renormalise;
    r.resize(t, experts(), chosen);
    device.download(r.probability.data(), a.logits, r.probability.size() * sizeof(float));
    r.route();
    if (p.routed) p.routed->add(r);
    const extent_t n = r.slots();
    const std::int32_t* rows = p.space.take_copy(r.row.data(), n);
    device.upload(a.factors, r.factor.data(), r.factor.size() * sizeof(float));
    device.run(op::gather_rows{.y = a.rows, .x = x, .x_rows = t, .ids = rows, .count = n, .width = h});
    if (p.expert) {
      visit(p, r).forward(a.rows);
    } else {
      for_experts(r, [&](const mlp& m, extent_t first, extent_t count) {
        m.gate_up.forward(p, a.gate_up + first * 2 * w, a.rows + first * h, count);
      });
      device.run(op::swiglu_forward{.y = a.activated, .gate_up = a.gate_up, .rows = n, .width = w});
      for_experts(r, [&](const mlp& m, extent_t first, extent_t count) {
        m.down.forward(p, a.rows + first * h, a.activated + first * w, count);
      });
    }
    device.run(op::scale_rows{.y = a.rows, .x = a.rows, .factor = a.factors, .rows = n, .width = h});
    device.fill_zero(y, static_cast<std::size_t>(t * h) * sizeof(float));
    device.run(op::scatter_add_rows{.y = y, .x = a.rows, .ids = {rows, t}, .count = n, .width = h});
  }

  /// dx from dy; dx may alias x. Overwrites the activations.
  template <class Device>
  void backward(const pass<Device>& p, const moe_activations& a, float* dx, const float* dy, const float* x) const {
    Device& device = p.device;
    const extent_t t = p.tokens, h = hidden(), n = t * chosen;
    routing& r = *a.routes;
    std::vector<std::int32_t>& index = p.space.index;
    std::vector<float>&slope = p.space.dweight, &factor = p.space.factor;
    index.clear(), factor.clear();
    for_experts_of(r, a.row, t, [&](std::size_t, extent_t, extent_t first, extent_t count) {
      for (auto s = static_cast<std::size_t>(first); s < static_cast<std::size_t>(first + count); ++s) {
        index.push_back(static_cast<std::int32_t>(r.row[s] - a.row));
        factor.push_back(r.factor[s]);
      }
    });
    const std::int32_t* rows = p.space.take_copy(index.data(), n);
    device.upload(a.factors, factor.data(), factor.size() * sizeof(float));
    device.run(op::gather_rows{.y = a.rows, .x = dy, .x_rows = t, .ids = rows, .count = n, .width = h});
    if (p.expert)  // all rows of the forward
      visit(p, r).backward(a.rows, a.factors, [&](const mlp& m) { zero(p, m); });
    else
      backward_here(p, a, x, rows);
    factor.resize(static_cast<std::size_t>(n));
    device.download(factor.data(), a.factors + n, factor.size() * sizeof(float));
    slope.resize(r.weight.size());
    for_experts_of(r, a.row, t, [&](std::size_t, extent_t at, extent_t first, extent_t count) {
      for (extent_t s = 0; s < count; ++s)
        slope[static_cast<std::size_t>(r.place[static_cast<std::size_t>(first + s)])] =
            factor[static_cast<std::size_t>(at + s)];
    });
    factor.resize(static_cast<std::size_t>(t * experts()));
    r.backward(factor, slope, p.balance, a.row, t);
    device.upload(a.logits, factor.data(), factor.size() * sizeof(float));
    router.backward(p, dx, a.logits, x, t);
    device.run(op::scatter_add_rows{.y = dx, .x = a.rows, .ids = {rows, t}, .count = n, .width = h});
  }

 private:
  template <class Device>
  expert_visit<Device> visit(const pass<Device>& p, routing& r) const {
    return {p, r, each, first_expert, layer, hidden(), width()};
  }
  /// a.rows and a.factors: as of expert_visit::backward.
  template <class Device>
  void backward_here(const pass<Device>& p, const moe_activations& a, const float* x, const std::int32_t* rows) const {
    Device& device = p.device;
    const extent_t t = p.tokens, h = hidden(), w = width(), n = t * chosen;
    const routing& r = *a.routes;
    for_experts_of(r, a.row, t, [&](std::size_t e, extent_t at, extent_t first, extent_t count) {
      const mlp& m = each[e];
      if (count == 0) return zero(p, m);
      float *dout = a.rows + at * h, *dactivated = a.slopes + at * w;
      const float* activated = a.activated + first * w;
      float* gate_up = a.gate_up + first * 2 * w;
      device.run(op::linear_backward_input{
          .dx = dactivated, .dy = dout, .weight = p.weights + m.down.weight, .rows = count, .outputs = h, .inputs = w});
      device.run(op::dot_rows{.y = a.factors + n + at, .a = dactivated, .b = activated, .rows = count, .width = w});
      device.run(op::scale_rows{.y = dactivated, .x = dactivated, .factor = a.factors + at, .rows = count, .width = w});
      device.run(op::scale_rows{.y = dout, .x = dout, .factor = a.factors + at, .rows = count, .width = h});
      m.down.backward(p, nullptr, dout, activated, count);
      device.run(
          op::swiglu_backward{.dgate_up = gate_up, .dy = dactivated, .gate_up = gate_up, .rows = count, .width = w});
    });
    device.run(op::gather_rows{.y = a.rows, .x = x, .x_rows = t, .ids = rows, .count = n, .width = h});
    for_experts_of(r, a.row, t, [&](std::size_t e, extent_t at, extent_t first, extent_t count) {
      if (count > 0) each[e].gate_up.backward(p, a.rows + at * h, a.gate_up + first * 2 * w, a.rows + at * h, count);
    });
  }
  /// Calls f(expert, first slot, slots) for experts with slots.
  template <class F>
  void for_experts(const routing& r, F&& f) const {
    for (std::size_t e = 0; e < each.size(); ++e)
      if (const extent_t n = r.begin[e + 1] - r.begin[e]; n > 0) f(each[e], r.begin[e], n);
  }
  /// f(number of an expert, slots before it in these rows, first slot of the forward, slots) for every expert.
  template <class F>
  void for_experts_of(const routing& r, extent_t row, extent_t t, F&& f) const {
    extent_t at = 0;
    for (std::size_t e = 0; e < static_cast<std::size_t>(r.experts); ++e) {
      const auto [first, end] = r.slots_of(static_cast<extent_t>(e), row, t);
      f(e, at, first, end - first);
      at += end - first;
    }
  }
  /// The gradient of an expert without rows.
  template <class Device>
  void zero(const pass<Device>& p, const mlp& m) const {
    if (!p.gradients || !p.first) return;
    for (const linear* l : {&m.gate_up, &m.down})
      p.device.fill_zero(p.gradients + l->weight, static_cast<std::size_t>(l->outputs * l->inputs) * sizeof(float));
  }
};

}  // namespace nn
RLCORE_END
