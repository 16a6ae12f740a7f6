// A cluster: machines, links, and their measured curves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train::planning {

/// y over x through points, both > 0, x ascending: log-log linear interpolation, no fit.
struct curve {
  /// One measurement.
  struct point {
    double x = 0, y = 0;
  };
  std::vector<point> points;

  bool empty() const noexcept { return points.empty(); }
  /// Extrapolates the first and the last segment outside the points; for times. Throws std::logic_error without points.
  double at(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    if (points.size() == 1 || x <= 0) return points.front().y;
    std::size_t k = 1;
    while (k + 1 < points.size() && points[k].x < x) ++k;
    const point &a = points[k - 1], &b = points[k];
    const double slope = std::log(b.y / a.y) / std::log(b.x / a.x);
    return a.y * std::exp(slope * std::log(x / a.x));
  }
  /// Holds the first and the last value outside the points; for rates.
  double held(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    return at(std::clamp(x, points.front().x, points.back().x));
  }
};

/// z over (x, y): a curve over y for each of several x, with straight lines between logarithms of x too; held outside.
struct surface {
  /// The curve over y at one x.
  struct row {
    double x = 0;
    curve over_y;
  };
  std::vector<row> rows;

  bool empty() const noexcept { return rows.empty(); }
  /// z at (x, y). Throws std::logic_error if there are no rows.
  double held(double x, double y) const {
    curve across;
    for (const row& r : rows) across.points.push_back({r.x, r.over_y.held(y)});
    return across.held(x);
  }
};

/// The measurements of `plan calibrate` on ranks of one machine that all do the same work at the same time.
struct measured_rank {
  std::int64_t ranks = 1;
  /// Operations per second of products [tokens, width] x [width, width], over tokens and width: with 4 MB of weights in
  /// turn, and with 96 MB.
  surface forward, backward_x, backward_w, cold_forward, cold_backward_x, cold_backward_w;
  /// Operations per second over the length of the sequences.
  curve attention_forward, attention_backward;
  /// Values per second over the values of a pass, rows x width: two norms, their sums and the residual's; the gate, by
  /// values of its output; rotary positions.
  curve norm_forward, norm_backward, gate_forward, gate_backward, rotate;
  double optimizer = 0, norm = 0, pack = 0, add = 0;  ///< parameters per second: AdamW, norm, packing, a sum of two
  double head = 0, head_backward = 0;                 ///< logits per second beside the products
  /// Seconds over the bytes of the gathered result, which are those of the input of a sum.
  curve all_gather, ordered_sum;
};

/// Figures that were not measured are public quotes or assumptions; `source` says which.
struct cluster {
  std::string name, source;
  std::int64_t devices_per_node = 8;
  double memory = 0;                                 ///< bytes of a device
  double memory_bandwidth = 0;                       ///< bytes per second
  double peak = 0;                                   ///< operations per second of products in the compute type
  double training_share = 0.4, scoring_share = 0.4;  ///< fraction of `peak` reached by training and scoring
  double decode_share = 0.6;                         ///< fraction of `memory_bandwidth` reached by decoding
  double layer_floor = 0;                            ///< minimum seconds of a decode pass per layer
  double value_bytes = 2;     ///< bytes of the compute type: packed weights, activations, keys and values
  double node_bandwidth = 0;  ///< bytes per second and direction of a device, to all others of its node together
  bool mesh = false;          ///< full mesh: two devices share only their direct link's bandwidth
  double node_latency = 5e-6;
  double network_bandwidth = 0;  ///< bytes per second and direction of a device between nodes
  double network_latency = 10e-6;
  double usable_share = 0.9;  ///< fraction of `memory`; the runtime needs the rest
  double overlap = 0.8;       ///< share of the traffic of weights and gradients that computation can hide
  std::vector<measured_rank> measured;

  /// Bandwidth of a device inside a group of `ranks` of its node.
  double inside(std::int64_t ranks) const noexcept {
    return mesh && ranks > 1 ? node_bandwidth * static_cast<double>(std::min(ranks, devices_per_node) - 1) /
                                   static_cast<double>(devices_per_node - 1)
                             : node_bandwidth;
  }
  /// The table of the nearest number of ranks, nullptr if nothing was measured.
  const measured_rank* table(std::int64_t ranks) const noexcept;
};

/// The figures are public quotes, and none has been verified here. Peak, memory and links come from vendors' data
/// sheets; shares and floors are assumptions. A device of A3 is one of the two dies of a package.
const std::vector<cluster>& known_clusters();

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE const measured_rank* cluster::table(std::int64_t ranks) const noexcept {
  const measured_rank* best = nullptr;
  for (const measured_rank& m : measured)
    if (best == nullptr || std::abs(m.ranks - ranks) < std::abs(best->ranks - ranks)) best = &m;
  return best;
}

RLCORE_INLINE const std::vector<cluster>& known_clusters() {
  static const std::vector<cluster> clusters = [] {
    const char* quotes = "quotes, not measured";
    constexpr double giga = 1e9, tera = 1e12, micro = 1e-6;
    std::vector<cluster> list;
    const auto add = [&](const char* name, std::int64_t node, double memory, double bandwidth, double peak,
                         double inside, bool mesh, double network, double floor) {
      cluster c;
      c.name = name, c.source = quotes, c.devices_per_node = node;
      c.memory = memory * giga, c.memory_bandwidth = bandwidth * tera, c.peak = peak * tera;
      c.node_bandwidth = inside * giga, c.mesh = mesh, c.network_bandwidth = network * giga;
      c.layer_floor = floor * micro;
      list.push_back(c);
    };
    add("910B", 8, 64, 1.6, 354, 196, true, 25, 100);
    add("A3", 384, 64, 1.6, 376, 196, false, 25, 100);
    add("A100", 8, 80, 2.0, 312, 300, false, 25, 60);
    add("H100", 8, 80, 3.35, 989, 450, false, 50, 60);
    add("H200", 8, 141, 4.8, 989, 450, false, 50, 60);
    add("cpu", 1, 512, 0.4, 4, 12.5, false, 12.5, 20);
    cluster& host = list.back();
    host.value_bytes = 4, host.training_share = host.scoring_share = 0.7, host.decode_share = 0.8;
    host.source = "an assumed host of 64 cores, fp32, 100 Gbit/s";
    host.overlap = 0;
    return list;
  }();
  return clusters;
}

}  // namespace train::planning
RLCORE_END
#endif
