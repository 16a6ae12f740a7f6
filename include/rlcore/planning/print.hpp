// Prints a plan as text and aligned tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/aligned_table.hpp"
#include "rlcore/planning/search.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// Bytes as a number of GB (10^9), to three digits.
inline std::string giga(double x) { return short_number(x / 1e9); }

/// 7615616512 as 7,615,616,512.
std::string grouped(std::int64_t n);

/// The model's parameters by part, and the constant c of the cost s^2 + c s of a sequence of s tokens.
std::string parameters_text(const model_shape& m);

/// One line: devices, memory and bandwidths, with the source of the numbers.
std::string cluster_text(const cluster& c, std::int64_t devices);

/// The uses of one device's memory in GB while training and while sampling, and its capacity.
std::string memory_text(const memory_need& n, const cluster& c);

/// The collectives of each stage: calls, MB each, GB that a device sends in all, and seconds.
std::string traffic_text(const std::vector<std::pair<std::string, std::vector<transfer>>>& stages, const cluster& c);

/// The seconds of each stage of a step.
std::string times_text(const stage_times& t, const workload& w);

/// The first `count` layouts: memory of a device in GB and seconds of a step.
std::string candidates_text(const std::vector<candidate>& list, std::size_t count);

/// For each stage of ZeRO: the layout that comes closest, and the uses of its memory.
std::string too_large_text(const search_result& r, const cluster& c);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n), out;
  for (std::size_t k = 0; k < digits.size(); ++k) {
    if (k > 0 && (digits.size() - k) % 3 == 0) out += ',';
    out += digits[k];
  }
  return out;
}

RLCORE_INLINE std::string parameters_text(const model_shape& m) {
  aligned_table t;
  t.add({"parameters", ""});
  t.add({"embedding", grouped(m.embedding_parameters())});
  t.add({"a layer, of " + std::to_string(m.layers), grouped(m.layer_parameters())});
  t.add({m.tied ? "final norm (the head is the embedding)" : "final norm and head", grouped(m.head_parameters())});
  if (m.tower) t.add({"vision tower", grouped(m.tower_parameters())});
  t.add({"all", grouped(m.parameters())});
  if (m.experts > 0) t.add({"met by one token", grouped(m.active_parameters())});
  t.add({"a sequence costs s^2 + c s, c =", grouped(static_cast<std::int64_t>(parallel::cost_constant(m.layer())))});
  return t.text();
}

RLCORE_INLINE std::string cluster_text(const cluster& c, std::int64_t devices) {
  std::string out = std::to_string(devices) + " x " + c.name + " (" + c.source + "): " + giga(c.memory) + " GB, " +
                    giga(c.memory_bandwidth) + " GB/s";
  if (c.measured.empty())
    out += ", " + short_number(c.peak / 1e12) + " TFLOP/s of which training reaches " +
           short_number(100 * c.training_share) + " %";
  out += "; " + std::to_string(c.devices_per_node) + " a node at " + giga(c.node_bandwidth) + " GB/s";
  if (devices > c.devices_per_node) out += ", nodes at " + giga(c.network_bandwidth) + " GB/s a device";
  return out + "\n";
}

RLCORE_INLINE std::string memory_text(const memory_need& n, const cluster& c) {
  aligned_table t;
  t.add({"GB per device", "training", "sampling"});
  const auto row = [&](const char* name, double training, double sampling) {
    if (training > 0 || sampling > 0) t.add({name, giga(training), giga(sampling)});
  };
  row("weights, gradients, moments (fp32)", n.state, n.state);
  row("reference model", n.reference, n.reference);
  row("weights in use", n.weights, n.rollout_weights);
  row("gradients on their way", n.gradients, 0);
  row("activations", n.activations, 0);
  row("logits", n.logits, 0);
  row("keys and values", 0, n.cache);
  row("together", n.training(), n.sampling());
  row("there are", c.memory * c.usable_share, c.memory * c.usable_share);
  return t.text();
}

RLCORE_INLINE std::string traffic_text(const std::vector<std::pair<std::string, std::vector<transfer>>>& stages,
                                       const cluster& c) {
  static constexpr const char* names[] = {"all_gather", "reduce_scatter",   "all_reduce",
                                          "all_to_all", "all_to_all + sum", "shift"};
  aligned_table t;
  t.add({"bytes per step", "collective", "ranks", "calls", "MB each", "GB sent", "s", ""});
  for (const auto& [stage, list] : stages)
    for (const transfer& x : list)
      t.add({stage + ": " + x.name, names[static_cast<int>(x.kind)], std::to_string(x.group.size),
             short_number(x.calls), short_number(x.bytes / 1e6), giga(x.sent()),
             short_number(x.calls * seconds(c, x.kind, x.group, x.bytes)),
             x.hidden && c.overlap > 0 ? "beside compute" : ""});
  return t.rows.size() == 1 ? "  no device sends anything\n" : t.text();
}

RLCORE_INLINE std::string times_text(const stage_times& t, const workload& w) {
  aligned_table out;
  const auto row = [&](const std::string& name, double s, const std::string& remark) {
    out.add({name, short_number(s), " " + remark});
  };
  out.add({"seconds per step", "", ""});
  row("weight sync", t.weight_sync, "");
  row("rollout", t.rollout,
      std::to_string(w.response_length) + " passes of " + short_number(1e3 * t.per_token) + " ms, " +
          std::to_string(t.together) + " sequences together" +
          (t.waves > 1 ? ", " + std::to_string(t.waves) + " times" : ""));
  if (w.old_log_probs) row("old log-probs", t.old_log_probs, "");
  if (w.reference != reference_form::none) row("reference log-probs", t.reference, "");
  row("update", t.update,
      "compute " + short_number(t.update_compute) + ", traffic that may overlap " + short_number(t.update_hidden) +
          ", other traffic " + short_number(t.update_exposed) + ", optimizer " + short_number(t.optimizer));
  row("step", t.step(), "");
  // The last column is text: flush left.
  std::size_t widest = 0;
  for (const auto& r : out.rows) widest = std::max(widest, r[2].size());
  for (auto& r : out.rows) r[2].resize(widest, ' ');
  return out.text();
}

RLCORE_INLINE std::string candidates_text(const std::vector<candidate>& list, std::size_t count) {
  aligned_table t;
  t.add({"layouts that fit", "GB/device", "state GB", "update s", "log-probs s", "rollout s", "step s"});
  for (std::size_t k = 0; k < std::min(count, list.size()); ++k) {
    const candidate& x = list[k];
    t.add({x.layout.text(), giga(std::max(x.memory.training(), x.memory.least_sampling())), giga(x.memory.state),
           short_number(x.times.update), short_number(x.times.old_log_probs + x.times.reference),
           short_number(x.times.rollout + x.times.weight_sync), short_number(x.times.step())});
  }
  return t.text();
}

RLCORE_INLINE std::string too_large_text(const search_result& r, const cluster& c) {
  std::string out;
  for (int zero = 0; zero <= 3; ++zero) {
    const auto same = [&](const candidate& x) { return x.layout.zero == zero; };
    const auto first = std::find_if(r.too_large.begin(), r.too_large.end(), same);
    if (first == r.too_large.end()) continue;
    const memory_need& n = first->memory;
    const bool sampling = n.least_sampling() > n.training();
    out += "  " + first->layout.text() + ": " + giga(n.peak()) + " GB of " + giga(c.memory * c.usable_share) +
           " while " + (sampling ? "sampling (state " : "training (state ") + giga(n.state) + ", weights in use " +
           giga(sampling ? n.rollout_weights : n.weights) +
           (sampling ? ", one sequence " + giga(n.cache_of_one)
                     : ", activations " + giga(n.activations) + ", gradients " + giga(n.gradients)) +
           (n.reference > 0 ? ", reference " + giga(n.reference) : "") + "); so do " +
           std::to_string(std::count_if(r.too_large.begin(), r.too_large.end(), same)) + " layouts of zero" +
           std::to_string(zero) + "\n";
  }
  return out.empty() ? out : "\ntoo large, and the closest of each kind\n" + out;
}

}  // namespace trainer::planning
RLCORE_END
#endif
