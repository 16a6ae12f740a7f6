// Text output of the plan program, without its command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/planning/print.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// Full report for one model on one number of devices: the best layout, `count` of those that fit, why others do not.
std::string plan_text(const model_shape& m, const workload& w, const cluster& c, std::int64_t devices,
                      const wishes& wanted, std::size_t count);

/// The best layout of each model on each number of devices, one row each.
aligned_table plan_table(const std::vector<model_shape>& models, const workload& w, const cluster& c,
                         const std::vector<std::int64_t>& devices, const wishes& wanted);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

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
  out += memory_text(best.memory, c) + "\n";
  const traffic t(m, best.layout, best.work, c);
  std::vector<std::pair<std::string, std::vector<transfer>>> stages{{"update", t.update()}};
  if (w.old_log_probs) stages.push_back({"log-probs", t.scoring()});
  if (w.reference != reference_form::none)
    stages.push_back({"reference", t.scoring(w.reference == reference_form::whole)});
  stages.push_back({"weight sync", t.weight_sync()});
  out += traffic_text(stages, c) + "\n" + times_text(best.times, w);
  if (r.fitting.size() > 1) out += "\n" + candidates_text(r.fitting, count);
  return out + too_large_text(r, c) + reasons;
}

RLCORE_INLINE aligned_table plan_table(const std::vector<model_shape>& models, const workload& w, const cluster& c,
                                       const std::vector<std::int64_t>& devices, const wishes& wanted) {
  aligned_table t;
  t.add({"model", "devices", "layout", "GB/device", "state GB", "update s", "log-probs s", "rollout s", "step s"});
  for (const model_shape& m : models)
    for (const std::int64_t n : devices) {
      const search_result r = search_layouts(m, w, c, n, wanted);
      if (r.fitting.empty()) {
        t.add({m.name, std::to_string(n),
               r.too_large.empty() ? r.impossible.front()
                                   : "does not fit: " + giga(r.too_large.front().memory.peak()) + " GB of " +
                                         giga(c.memory * c.usable_share),
               "", "", "", "", "", ""});
        continue;
      }
      const candidate& x = r.fitting.front();
      t.add({m.name, std::to_string(n), x.layout.text(), giga(x.memory.peak()), giga(x.memory.state),
             short_number(x.times.update), short_number(x.times.old_log_probs + x.times.reference),
             short_number(x.times.rollout + x.times.weight_sync), short_number(x.times.step())});
    }
  return t;
}

}  // namespace trainer::planning
RLCORE_END
#endif
