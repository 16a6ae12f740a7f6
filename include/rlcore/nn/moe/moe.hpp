// Mixture of experts (MoE) layer (Shazeer et al. 2017; Qwen3-MoE); dispatch to experts of other ranks, and combine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/nn/moe/routing.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Slots are sorted by expert, and ranks hold consecutive experts, so the rows for one rank are contiguous. Rows arrive
/// ordered by source rank, expert and row, and return to the same slots. Every product is over the rows of one expert
/// and one source, in the order of a serial pass of the source. So all values, and the gradient of each source's leaf,
/// have the bits of that serial pass.
template <class Device>
struct expert_visit {
  const pass<Device>& p;
  routing& r;
  std::span<const mlp> each;  ///< experts from number `first` on
  extent_t first, layer, hidden, width;

  /// rows [slots, hidden]: inputs on entry, outputs of their experts on return. The workspace stores the activations
  /// for the backward.
  void forward(float* rows) const {
    expert_group& g = *p.expert;
    Device& device = p.device;
    const auto ranks = static_cast<std::size_t>(g.size()), n = static_cast<std::size_t>(r.experts);
    visitors& v = r.visit;
    std::vector<std::int64_t>& local = g.counts;
    local.resize(n), v.counts.resize(ranks * n);
    for (std::size_t e = 0; e < n; ++e) local[e] = r.begin[e + 1] - r.begin[e];
    g.all_gather(std::span<const std::int64_t>(local), std::span<std::int64_t>(v.counts));
    v.rows = count_rows(g, v);
    v.x = p.space.template take<float>(v.rows * hidden);
    v.gate_up = p.space.template take<float>(v.rows * 2 * width);
    v.activated = p.space.template take<float>(v.rows * width);
    float* out = p.space.template take<float>(v.rows * hidden);
    exchange_rows(device, g, rows, g.rows_sent, v.x, g.rows_received, hidden);
    for_pieces(v, [&](const mlp& m, std::size_t, extent_t, extent_t at, extent_t count) {
      if (count > 0) m.gate_up.forward(p, v.gate_up + at * 2 * width, v.x + at * hidden, count);
    });
    device.run(op::swiglu_forward{.y = v.activated, .gate_up = v.gate_up, .rows = v.rows, .width = width});
    for_pieces(v, [&](const mlp& m, std::size_t, extent_t, extent_t at, extent_t count) {
      if (count > 0) m.down.forward(p, out + at * hidden, v.activated + at * width, count);
    });
    exchange_rows(device, g, out, g.rows_received, rows, g.rows_sent, hidden);
  }

  /// rows [slots, hidden]: the gradient of the layer's output for each slot on entry, of its input on return; factors
  /// [2, slots]: the weights, then the gradients of the weights. `zero(m)` clears the gradient of an expert without
  /// rows of this rank.
  template <class Zero>
  void backward(float* rows, float* factors, Zero&& zero) const {
    expert_group& g = *p.expert;
    Device& device = p.device;
    visitors& v = r.visit;
    count_rows(g, v);
    const typename workspace<Device>::scope scope(p.space);
    const extent_t received = v.rows, slots = r.slots();
    float *dout = p.space.template take<float>(received * hidden),
          *slopes = p.space.template take<float>(received * width), *f = p.space.template take<float>(2 * received);
    exchange_rows(device, g, rows, g.rows_sent, dout, g.rows_received, hidden);
    exchange_rows(device, g, factors, g.rows_sent, f, g.rows_received, 1);
    for_pieces(v, [&](const mlp& m, std::size_t source, extent_t e, extent_t at, extent_t count) {
      const bool mine = source == static_cast<std::size_t>(g.rank());
      if (count == 0) {
        if (mine && !p.experts_together) zero(m);
        return;
      }
      pass<Device> part = p;
      if (p.experts_together) {
        part.first = false;
      } else if (!mine) {
        float* base = p.source_gradients ? p.source_gradients[source] : nullptr;
        part.first = false;
        part.gradients = {};
        if (base) part.gradients = {base + place_of(e, m), m.gate_up.weight};
      }
      float *d = dout + at * hidden, *slope = slopes + at * width, *activated = v.activated + at * width,
            *gate_up = v.gate_up + at * 2 * width;
      device.run(op::linear_backward_input{.dx = slope,
                                           .dy = d,
                                           .weight = p.weights + m.down.weight,
                                           .rows = count,
                                           .outputs = hidden,
                                           .inputs = width});
      device.run(op::dot_rows{.y = f + received + at, .a = slope, .b = activated, .rows = count, .width = width});
      device.run(op::scale_rows{.y = slope, .x = slope, .factor = f + at, .rows = count, .width = width});
      device.run(op::scale_rows{.y = d, .x = d, .factor = f + at, .rows = count, .width = hidden});
      m.down.backward(part, nullptr, d, activated, count);
      device.run(
          op::swiglu_backward{.dgate_up = gate_up, .dy = slope, .gate_up = gate_up, .rows = count, .width = width});
      m.gate_up.backward(part, d, gate_up, v.x + at * hidden, count);
    });
    if (std::ssize(each) == r.experts)  // experts of other ranks, until their gradients arrive
      for (extent_t e = 0; e < r.experts; ++e)
        if (const slice local = own_experts(); e < local.begin || e >= local.end)
          zero(each[static_cast<std::size_t>(e)]);
    exchange_rows(device, g, dout, g.rows_received, rows, g.rows_sent, hidden);
    exchange_rows(device, g, f + received, g.rows_received, factors + slots, g.rows_sent, 1);
  }

 private:
  slice own_experts() const { return p.expert->experts_of(p.expert->rank(), r.experts); }
  std::size_t place_of(extent_t e, const mlp& m) const {
    const slice local = own_experts();
    return static_cast<std::size_t>((layer * local.size() + e - local.begin) * 3 * m.down.inputs * m.down.outputs);
  }
  /// Sets g.rows_sent to the number of rows sent to each rank and g.rows_received to the number received from it.
  /// Returns the sum of g.rows_received.
  extent_t count_rows(expert_group& g, const visitors& v) const {
    const auto ranks = static_cast<std::size_t>(g.size()), n = static_cast<std::size_t>(r.experts);
    const slice local = own_experts();
    g.rows_received.assign(ranks, 0), g.rows_sent.assign(ranks, 0);
    extent_t rows = 0;
    for (std::size_t s = 0; s < ranks; ++s) {
      const slice theirs = g.experts_of(static_cast<int>(s), r.experts);
      for (std::int64_t e = theirs.begin; e < theirs.end; ++e)
        g.rows_sent[s] +=
            static_cast<std::size_t>(v.counts[static_cast<std::size_t>(g.rank()) * n + static_cast<std::size_t>(e)]);
      for (std::int64_t e = local.begin; e < local.end; ++e)
        g.rows_received[s] += static_cast<std::size_t>(v.counts[s * n + static_cast<std::size_t>(e)]);
      rows += static_cast<extent_t>(g.rows_received[s]);
    }
    return rows;
  }
  /// Calls f(expert, source rank, number of the expert, first row here, rows) in the order of the rows.
  template <class F>
  void for_pieces(const visitors& v, F&& f) const {
    const slice local = own_experts();
    extent_t at = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p.expert->size()); ++s)
      for (std::int64_t e = local.begin; e < local.end; ++e) {
        const extent_t count = v.counts[s * static_cast<std::size_t>(r.experts) + static_cast<std::size_t>(e)];
        f(each[static_cast<std::size_t>(e - first)], s, e, at, count);
        at += count;
      }
  }
};

/// y = sum over the chosen experts e of a row, by ascending e, of weight_e mlp_e(x); see routing for the choice. Each
/// expert's product runs over its rows, sorted: a row's output, and the order in which rows add to an expert's
/// gradient, do not depend on other rows of the pass. Under expert parallelism each rank computes its own experts
/// (expert_visit); so do tensor ranks that divide them (partition::experts_by_tensor), and gather the results.
struct moe {
  linear router;
  std::vector<mlp> each;                 ///< experts from first_expert: all, or those of this rank
  extent_t first_expert = 0, layer = 0;  ///< layer: index among layers with experts
  extent_t chosen = 0;
  bool renormalise = false;
  bool by_tensor = false;  ///< partition::experts_by_tensor

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

  /// y [tokens, hidden] from x [tokens, hidden], by p.choices where that has ids; p.routed, if set, counts the choices.
  /// Throws std::logic_error if experts are missing without an expert group.
  template <class Device>
  void forward(const pass<Device>& p, const moe_activations& a, float* y, const float* x) const {
    if (!p.expert && !by_tensor && std::ssize(each) != experts())
      throw std::logic_error("rlcore: a model with a part of the experts runs without workspace::experts");
    Device& device = p.device;
    const extent_t t = p.tokens, h = hidden(), w = width();
    routing& r = *a.routes;
    router.forward(p, a.logits, x, t);
    r.renormalise = renormalise;
    r.resize(t, experts(), chosen);
    device.download(r.probability.data(), a.logits, r.probability.size() * sizeof(float));
    r.route(p.choices, layer);
    if (p.routed) p.routed->add(r);
    const extent_t n = r.slots();
    const std::int32_t* rows = p.space.take_copy(r.row.data(), n);
    device.upload(a.factors, r.factor.data(), r.factor.size() * sizeof(float));
    device.run(op::gather_rows{.y = a.rows, .x = x, .x_rows = t, .ids = rows, .count = n, .width = h});
    if (p.expert) {
      visit(p, r).forward(a.rows);
    } else {
      const extent_t begin = r.begin[static_cast<std::size_t>(first_expert)],
                     end = r.begin[static_cast<std::size_t>(first_expert) + each.size()];
      for_experts(r, [&](const mlp& m, extent_t first, extent_t count) {
        m.gate_up.forward(p, a.gate_up + first * 2 * w, a.rows + first * h, count);
      });
      device.run(op::swiglu_forward{
          .y = a.activated + begin * w, .gate_up = a.gate_up + begin * 2 * w, .rows = end - begin, .width = w});
      for_experts(r, [&](const mlp& m, extent_t first, extent_t count) {
        m.down.forward(p, a.rows + first * h, a.activated + first * w, count);
      });
      if (by_tensor) gather_slots(p, r, a.rows);
    }
    device.run(op::scale_rows{.y = a.rows, .x = a.rows, .factor = a.factors, .rows = n, .width = h});
    device.fill_zero(y, static_cast<std::size_t>(t * h) * sizeof(float));
    device.run(op::scatter_add_rows{.y = y, .x = a.rows, .ids = {rows, t}, .count = n, .width = h});
  }

  /// dx from dy; dx may alias x. Overwrites the activations.
  template <class Device>
  void backward(const pass<Device>& p, const moe_activations& a, float* dx, const float* dy, const float* x) const {
    if (by_tensor) throw std::logic_error("rlcore: a part of a model that only samples has no backward");
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
    const extent_t* const begin = r.begin.data() + first_expert;
    for (std::size_t e = 0; e < each.size(); ++e)
      if (const extent_t n = begin[e + 1] - begin[e]; n > 0) f(each[e], begin[e], n);
  }
  /// All-gathers rows [slots, hidden], of which every tensor rank has those of its experts; slots are sorted by expert.
  template <class Device>
  void gather_slots(const pass<Device>& p, const routing& r, float* rows) const {
    tensor_group& group = *p.tensor;
    const auto h = static_cast<std::size_t>(hidden());
    const auto elements_before = [&](std::int64_t expert) {
      return static_cast<std::size_t>(r.begin[static_cast<std::size_t>(expert)]) * h;
    };
    group.elements.clear();
    for (int k = 0; k < group.size(); ++k) {
      const slice theirs = part_of(experts(), k, group.size());
      group.elements.push_back(elements_before(theirs.end) - elements_before(theirs.begin));
    }
    group.staged.resize(group.elements[static_cast<std::size_t>(group.rank())]);
    group.received.resize(static_cast<std::size_t>(r.slots()) * h);
    p.device.download(group.staged.data(), rows + elements_before(first_expert), group.staged.size() * sizeof(float));
    group.gather(std::span<const float>(group.staged), group.elements, std::span<float>(group.received));
    p.device.upload(rows, group.received.data(), group.received.size() * sizeof(float));
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

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template struct expert_visit<cpu>;
extern template struct expert_visit<any_device>;
}  // namespace nn
RLCORE_END
#endif
