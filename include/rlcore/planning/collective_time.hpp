// The time of a collective, from a measured table or from bandwidths and latencies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/cluster.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// n bytes are the whole result of an all_gather, and the data of each rank otherwise. reduce_scatter sums in the
/// network; ordered_sum is an all_to_all and a local sum in a fixed order; shift sends to the next rank.
enum class collective { all_gather, reduce_scatter, all_reduce, all_to_all, ordered_sum, shift };

/// `size` ranks, each `stride` devices after the one before.
struct rank_group {
  std::int64_t size = 1, stride = 1;
};

/// The bytes that a rank sends to others for a collective of n bytes, on average over the group.
inline double sent_bytes(collective kind, const rank_group& g, double n) noexcept {
  const double share = g.size == 1 ? 0 : static_cast<double>(g.size - 1) / static_cast<double>(g.size);
  if (kind == collective::shift) return g.size == 1 ? 0 : n;
  return (kind == collective::all_reduce ? 2 : 1) * share * n;
}

/// The seconds of a collective of n bytes. It is hierarchical where the sum or its order permits: inside the node,
/// across nodes, inside again. all_to_all and ordered_sum send each piece straight to its rank. A step costs the
/// latency of its level.
double seconds(const cluster& c, collective kind, const rank_group& g, double n);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE double seconds(const cluster& c, collective kind, const rank_group& g, double n) {
  if (g.size <= 1 || n <= 0) return 0;
  const auto f = [](std::int64_t x) { return static_cast<double>(x); };
  if (const measured_rank* table = c.table(g.size); table != nullptr && table->ranks > 1) {
    const double same = f(g.size - 1) / f(g.size) * f(table->ranks) / f(table->ranks - 1);
    const curve &gather = table->all_gather, &sum = table->ordered_sum;
    if (!gather.empty() && !sum.empty()) {
      if (kind == collective::shift) return gather.at(n * f(table->ranks) / f(table->ranks - 1));
      if (kind == collective::all_reduce) return gather.at(n * same) + sum.at(n * same);
      return (kind == collective::all_gather || kind == collective::all_to_all ? gather : sum).at(n * same);
    }
  }
  const std::int64_t inside = std::clamp<std::int64_t>(c.devices_per_node / g.stride, 1, g.size);
  const double near_by = f(inside), across = f(g.size) / near_by;  // devices of a node, nodes
  const double link = c.inside(inside), net = c.network_bandwidth;
  const double local_latency = c.node_latency * std::ceil(std::log2(near_by));
  const double net_latency = across > 1 ? c.network_latency * std::ceil(std::log2(across)) : 0;
  const double one_way =
      local_latency + net_latency + n * (near_by - 1) / near_by / link + n / near_by * (across - 1) / across / net;
  const double straight =
      local_latency + net_latency + n * (near_by - 1) / f(g.size) / link + n * (f(g.size) - near_by) / f(g.size) / net;
  const double local_sum = 1.5 * n / c.memory_bandwidth;  // read all, write one part
  switch (kind) {
    case collective::all_gather:
      return one_way;
    case collective::reduce_scatter:
      return one_way + local_sum;
    case collective::all_reduce:
      return 2 * one_way + local_sum;
    case collective::all_to_all:
      return straight;
    case collective::ordered_sum:
      return straight + local_sum;
    case collective::shift:
      return across > 1 ? c.network_latency + n / net : c.node_latency + n / c.inside(2);
  }
  return 0;
}

}  // namespace trainer::planning
RLCORE_END
#endif
