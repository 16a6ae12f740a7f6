// Expert parallel layer: dispatch of rows to the experts of other ranks, and combine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/layer/mlp.hpp"
#include "rlcore/nn/model/activations.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/nn/moe/routing.hpp"

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
    exchange_rows(device, g, rows, g.there, v.x, g.here, hidden);
    for_pieces(v, [&](const mlp& m, std::size_t, extent_t, extent_t at, extent_t count) {
      if (count > 0) m.gate_up.forward(p, v.gate_up + at * 2 * width, v.x + at * hidden, count);
    });
    device.run(op::swiglu_forward{.y = v.activated, .gate_up = v.gate_up, .rows = v.rows, .width = width});
    for_pieces(v, [&](const mlp& m, std::size_t, extent_t, extent_t at, extent_t count) {
      if (count > 0) m.down.forward(p, out + at * hidden, v.activated + at * width, count);
    });
    exchange_rows(device, g, out, g.here, rows, g.there, hidden);
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
    exchange_rows(device, g, rows, g.there, dout, g.here, hidden);
    exchange_rows(device, g, factors, g.there, f, g.here, 1);
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
    exchange_rows(device, g, dout, g.here, rows, g.there, hidden);
    exchange_rows(device, g, f + received, g.here, factors + slots, g.there, 1);
  }

 private:
  slice own_experts() const { return p.expert->experts_of(p.expert->rank(), r.experts); }
  std::size_t place_of(extent_t e, const mlp& m) const {
    const slice local = own_experts();
    return static_cast<std::size_t>((layer * local.size() + e - local.begin) * 3 * m.down.inputs * m.down.outputs);
  }
  /// Sets g.there to the number of rows sent to each rank and g.here to the number received from it. Returns the sum of
  /// g.here.
  extent_t count_rows(expert_group& g, const visitors& v) const {
    const auto ranks = static_cast<std::size_t>(g.size()), n = static_cast<std::size_t>(r.experts);
    const slice local = own_experts();
    g.here.assign(ranks, 0), g.there.assign(ranks, 0);
    extent_t rows = 0;
    for (std::size_t s = 0; s < ranks; ++s) {
      const slice theirs = g.experts_of(static_cast<int>(s), r.experts);
      for (std::int64_t e = theirs.begin; e < theirs.end; ++e)
        g.there[s] +=
            static_cast<std::size_t>(v.counts[static_cast<std::size_t>(g.rank()) * n + static_cast<std::size_t>(e)]);
      for (std::int64_t e = local.begin; e < local.end; ++e)
        g.here[s] += static_cast<std::size_t>(v.counts[s * n + static_cast<std::size_t>(e)]);
      rows += static_cast<extent_t>(g.here[s]);
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
