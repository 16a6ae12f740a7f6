// Searches a plan and prints it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/planning/search.hpp"

RLCORE_BEGIN
namespace train::planning {

/// The first column is flush left, the others flush right; the first row is the heading.
struct aligned_table {
  std::vector<std::vector<std::string>> rows;

  /// Appends a row of cells; rows may differ in length.
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  std::string text() const;
  /// The same as Markdown.
  std::string markdown() const;
};

/// Three digits that mean something: 0.0123, 1.23, 12.3, 123, 12345.
std::string short_number(double x);

/// Bytes as a number of GiB, to three digits.
inline std::string gibi(double x) { return short_number(x / (1 << 30)); }

/// 7615616512 as 7,615,616,512.
std::string grouped(std::int64_t n);

/// The model's parameters by part, and the constant c of the cost s^2 + c s of a sequence of s tokens.
std::string parameters_text(const model_shape& m);

/// One line: devices, memory and bandwidths, with the source of the numbers.
std::string cluster_text(const cluster& c, std::int64_t devices);

/// The uses of one device's memory in GiB while training and, if it samples, while sampling, and its capacity.
std::string memory_text(const memory_need& n, const workload& w, const cluster& c);

/// With stages of a pipeline their layers, how long they wait, and of which of them the tables are. Else
/// nothing.
std::string stages_text(const model_shape& m, const candidate& x);

/// The collectives of each stage: calls, MiB each, GiB that a device sends in all, and seconds.
std::string traffic_text(const std::vector<std::pair<std::string, std::vector<transfer>>>& stages, const cluster& c);

/// The seconds of each stage of a step.
std::string times_text(const stage_times& t, const workload& w);

/// The first `count` layouts: memory of a device in GiB and seconds of a step.
std::string candidates_text(const std::vector<candidate>& list, std::size_t count);

/// For each stage of ZeRO: the layout that comes closest, and the uses of its memory.
std::string too_large_text(const search_result& r, const cluster& c);

/// Full report for one model on one number of devices: the best layout, `count` of those that fit, why others do not.
std::string plan_text(const model_shape& m, const workload& w, const cluster& c, std::int64_t devices,
                      const wishes& wanted, std::size_t count);

/// The best layout of each model on each number of devices, one row each.
aligned_table plan_table(const std::vector<model_shape>& models, const workload& w, const cluster& c,
                         const std::vector<std::int64_t>& devices, const wishes& wanted);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE std::string aligned_table::text() const {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (k == width.size()) width.push_back(0);
      width[k] = std::max(width[k], row[k].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string blanks(width[k] - row[k].size(), ' ');
      line += (k == 0 ? " " : "  ") + (k == 0 ? row[k] + blanks : blanks + row[k]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

RLCORE_INLINE std::string aligned_table::markdown() const {
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += "|";
    for (const std::string& cell : rows[r]) out += " " + cell + " |";
    out += "\n";
    if (r == 0) {
      out += "|";
      for (std::size_t k = 0; k < rows[r].size(); ++k) out += k == 0 ? "---|" : "---:|";
      out += "\n";
    }
  }
  return out;
}

RLCORE_INLINE std::string short_number(double x) {
  char text[32];
  const double size = x < 0 ? -x : x;
  const int digits = size == 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
  std::snprintf(text, sizeof(text), "%.*f", digits, x);
  return text;
}

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
  std::string out = std::to_string(devices) + " x " + c.name + " (" + c.source + "): " + gibi(c.memory) + " GiB, " +
                    short_number(c.memory_bandwidth / 1e9) + " GB/s";
  if (c.measured.empty())
    out += ", " + short_number(c.peak / 1e12) + " TFLOP/s of which training reaches " +
           short_number(100 * c.training_share) + " %";
  out += "; " + std::to_string(c.devices_per_node) + " a node at " + short_number(c.node_bandwidth / 1e9) + " GB/s";
  if (devices > c.devices_per_node) out += ", nodes at " + short_number(c.network_bandwidth / 1e9) + " GB/s a device";
  return out + "\n";
}

RLCORE_INLINE std::string memory_text(const memory_need& n, const workload& w, const cluster& c) {
  aligned_table t;
  const auto row = [&](const char* name, double training, double sampling) {
    if (training > 0 || sampling > 0) t.add({name, gibi(training), gibi(sampling)});
  };
  t.add({"GiB per device", "training", w.samples ? "sampling" : "evaluation"});
  row("program, tokenizer, rows", n.program, n.program);
  row(w.lora_rank > 0 ? "weights, adapters and their moments (fp32)" : "weights, gradients, moments (fp32)", n.state,
      n.state - n.released);
  row("reference model", n.reference, n.reference);
  row("weights in use", n.weights, n.rollout_weights);
  row("gradients of leaves and layers", n.gradients, 0);
  row("activations", n.activations, n.passes - n.sampled_logits);
  row("logits", n.logits, n.sampled_logits);
  row("messages between stages", n.messages, 0);
  row("keys and values", 0, n.cache);
  row("together", n.training(), n.sampling());
  row("there are", c.memory * c.usable_share, c.memory * c.usable_share);
  return t.text();
}

RLCORE_INLINE std::string stages_text(const model_shape& m, const candidate& x) {
  const parallel::pipeline_division& d = x.layout.pipeline;
  if (d.stages == 1) return {};
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  std::string keys;
  const auto add = [&](bool set, const std::string& text) {
    if (set) keys += (keys.empty() ? "" : " ") + text;
  };
  const parallel::division_names names;
  add(d.first.has_value(), names.first + "=" + number(d.first.value_or(0)));
  add(d.last.has_value(), names.last + "=" + number(d.last.value_or(0)));
  add(d.account_for_embedding, names.embedding + "=True"), add(d.account_for_loss, names.loss + "=True");
  const auto layers = parallel::divide_layers(m.layers, d);
  std::string out = "stages of " + parallel::division_text(layers, d.stages) + " layers";
  if (!keys.empty()) out += " (" + keys + ")";
  out += "; they wait " + short_number(100 * x.times.idle) + " % of the time of an update's passes\n";
  const bool same = x.memory.stage == x.times.stage;
  return out +
         (same ? "memory, bytes and compute are those of stage " + number(x.memory.stage)
               : "memory is that of stage " + number(x.memory.stage) + ", bytes and compute are those of stage " +
                     number(x.times.stage)) +
         ", the busiest of 0 to " + number(d.stages - 1) + "\n\n";
}

RLCORE_INLINE std::string traffic_text(const std::vector<std::pair<std::string, std::vector<transfer>>>& stages,
                                       const cluster& c) {
  static constexpr const char* names[] = {"all_gather", "reduce_scatter",   "all_reduce",
                                          "all_to_all", "all_to_all + sum", "shift"};
  aligned_table t;
  t.add({"bytes per step", "collective", "ranks", "calls", "MiB each", "GiB sent", "s", ""});
  for (const auto& [stage, list] : stages)
    for (const transfer& x : list)
      t.add({stage + ": " + x.name, names[static_cast<int>(x.kind)], std::to_string(x.group.size),
             short_number(x.calls), short_number(x.bytes / (1 << 20)), gibi(x.sent()),
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
  if (w.samples) row("weight sync", t.weight_sync, "");
  if (w.samples)
    row("rollout", t.rollout,
        std::to_string(w.response_length) + " passes of " + short_number(1e3 * t.per_token) + " ms, " +
            std::to_string(t.together) + " sequences together" +
            (t.waves > 1 ? ", " + std::to_string(t.waves) + " times" : ""));
  if (w.old_log_probs) row("old log-probs", t.old_log_probs, "");
  if (w.reference != reference_form::none) row("reference log-probs", t.reference, "");
  row("update", t.update,
      "compute " + short_number(t.update_compute) + ", traffic that may overlap " + short_number(t.update_hidden) +
          ", other traffic " + short_number(t.update_exposed) + ", optimizer " + short_number(t.optimizer) +
          (t.idle > 0 ? ", waiting for other stages " + short_number(t.update_waits) : ""));
  row("step", t.step(), "");
  // The last column is text: flush left.
  std::size_t widest = 0;
  for (const auto& r : out.rows) widest = std::max(widest, r[2].size());
  for (auto& r : out.rows) r[2].resize(widest, ' ');
  return out.text();
}

RLCORE_INLINE std::string candidates_text(const std::vector<candidate>& list, std::size_t count) {
  aligned_table t;
  t.add({"layouts that fit", "GiB/device", "state GiB", "update s", "log-probs s", "rollout s", "step s"});
  for (std::size_t k = 0; k < std::min(count, list.size()); ++k) {
    const candidate& x = list[k];
    t.add({x.layout.text(), gibi(std::max(x.memory.training(), x.memory.least_sampling())), gibi(x.memory.state),
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
    const auto others = std::count_if(r.too_large.begin(), r.too_large.end(), same) - 1;
    const bool sampling = n.least_sampling() > n.training();
    const std::string stage = !sampling ? "training" : n.cache_of_one > 0 ? "sampling" : "evaluating";
    out += "  " + first->layout.text() + ": " + gibi(n.peak()) + " GiB of " + gibi(c.memory * c.usable_share) +
           (first->layout.stages() > 1 ? " in stage " + std::to_string(n.stage) : "") + " while " + stage + " (state " +
           gibi(n.state) + ", weights in use " + gibi(sampling ? n.rollout_weights : n.weights) +
           ", activations and logits " + gibi(sampling ? n.passes : n.activations + n.logits) +
           (sampling ? n.cache_of_one > 0 ? ", one sequence " + gibi(n.cache_of_one) : ""
                     : ", gradients " + gibi(n.gradients)) +
           (n.reference > 0 ? ", reference " + gibi(n.reference) : "") + ")" +
           (others == 0 ? ""
                        : "; so " + std::string(others == 1 ? "does" : "do") + " " + std::to_string(others) +
                              (others == 1 ? " other layout" : " other layouts") + " of zero" + std::to_string(zero)) +
           "\n";
  }
  return out.empty() ? out : "\ntoo large, and the closest of each kind\n" + out;
}

RLCORE_INLINE std::string plan_text(const model_shape& m, const workload& w, const cluster& c, std::int64_t devices,
                                    const wishes& wanted, std::size_t count) {
  const search_result r = search_layouts(m, w, c, devices, wanted);
  std::string out = m.name + " on " + cluster_text(c, devices) + "\n" + parameters_text(m);
  std::string reasons;
  for (std::size_t k = 0; k < std::min<std::size_t>(r.impossible.size(), 5); ++k)
    reasons += "  " + r.impossible[k] + "\n";
  if (!reasons.empty()) reasons = "\nnot possible\n" + reasons;
  if (r.fitting.empty() && r.too_large.empty()) throw config_error("no such layout: " + r.impossible.front());
  const bool fits = !r.fitting.empty();
  const candidate& best = fits ? r.fitting.front() : r.too_large.front();
  const batches b(best.layout, best.work);
  out += "\n" + std::string(fits ? "best" : "nothing fits; closest") + ": " + best.layout.text() + "; an update is " +
         std::to_string(b.micro) + " micro-batches of " + std::to_string(b.micro_rows) + " sequences for each of " +
         std::to_string(best.layout.data) +
         " data ranks (rlcore.gradient_leaves=" + std::to_string(b.leaves * best.layout.data) + ")\n\n";
  out += stages_text(m, best);
  out += memory_text(best.memory, best.work, c) + "\n";
  const pipeline_part part = pipeline_parts(m, best.layout)[static_cast<std::size_t>(best.times.stage)];
  const traffic t(m, best.layout, best.work, c, part);
  std::vector<std::pair<std::string, std::vector<transfer>>> stages{{"update", t.update()}};
  if (w.old_log_probs) stages.push_back({"log-probs", t.scoring()});
  if (w.reference != reference_form::none)
    stages.push_back({"reference", t.scoring(w.reference == reference_form::whole)});
  if (w.samples) stages.push_back({"weight sync", t.weight_sync()});
  out += traffic_text(stages, c) + "\n" + times_text(best.times, w);
  if (r.fitting.size() > 1) out += "\n" + candidates_text(r.fitting, count);
  return out + too_large_text(r, c) + reasons;
}

RLCORE_INLINE aligned_table plan_table(const std::vector<model_shape>& models, const workload& w, const cluster& c,
                                       const std::vector<std::int64_t>& devices, const wishes& wanted) {
  aligned_table t;
  t.add({"model", "devices", "layout", "GiB/device", "state GiB", "update s", "log-probs s", "rollout s", "step s"});
  for (const model_shape& m : models)
    for (const std::int64_t n : devices) {
      const search_result r = search_layouts(m, w, c, n, wanted);
      if (r.fitting.empty()) {
        t.add({m.name, std::to_string(n),
               r.too_large.empty() ? r.impossible.front()
                                   : "does not fit: " + gibi(r.too_large.front().memory.peak()) + " GiB of " +
                                         gibi(c.memory * c.usable_share),
               "", "", "", "", "", ""});
        continue;
      }
      const candidate& x = r.fitting.front();
      t.add({m.name, std::to_string(n), x.layout.text(), gibi(x.memory.peak()), gibi(x.memory.state),
             short_number(x.times.update), short_number(x.times.old_log_probs + x.times.reference),
             short_number(x.times.rollout + x.times.weight_sync), short_number(x.times.step())});
    }
  return t;
}

}  // namespace train::planning
RLCORE_END
#endif
