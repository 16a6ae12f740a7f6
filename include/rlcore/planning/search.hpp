// Layout search: possible layouts with memory and time, best first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/stage_times.hpp"

RLCORE_BEGIN
namespace train::planning {

/// The settings that the caller has fixed. The search covers the rest: the sizes of the mesh are powers of two.
struct wishes {
  std::optional<std::int64_t> data, context, tensor, expert, zero, rollout_tensor, shard_ranks;
  std::optional<std::int64_t> stages;  ///< empty: 1; 0: searched
  layout others;                       ///< settings that are not searched, among them how layers are divided
};

/// A layout with its memory and time.
struct candidate {
  planning::layout layout;
  workload work;  ///< with fewer tokens per micro-batch if it does not fit otherwise
  memory_need memory;
  stage_times times;
  bool fits = false;

  /// The number of axes in use. Of two layouts that take about as long, the one with fewer axes wins.
  int axes() const noexcept {
    return (layout.context > 1) + (layout.tensor > 1) + (layout.expert > 1) + (layout.rollout_tensor != layout.tensor) +
           (layout.shard_ranks > 0) + (layout.stages() > 1);
  }
};

/// All layouts compatible with the wishes, grouped by outcome.
struct search_result {
  std::vector<candidate> fitting;       ///< the best first, then by time
  std::vector<candidate> too_large;     ///< by memory
  std::vector<std::string> impossible;  ///< reasons, each once
};

/// The same layout with the usual number of leaves (batches) instead of one for each micro-batch.
inline layout with_large_leaves(layout l) {
  l.leaf_of_micro = false;
  return l;
}

/// The division `d`; where it says nothing of the ends and the stages cannot have equally many layers, with
/// parallel::suggested_ends().
parallel::pipeline_division searched_division(const model_shape& m, parallel::pipeline_division d);

/// All layouts compatible with the wishes, possible or not.
std::vector<layout> open_layouts(const model_shape& m, const workload& w, const cluster& c, std::int64_t devices,
                                 const wishes& wanted);

/// Rates all layouts of `devices` compatible with the wishes. Times within 2 % count as equal.
search_result search_layouts(const model_shape& m, const workload& w, const cluster& c, std::int64_t devices,
                             const wishes& wanted);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE parallel::pipeline_division searched_division(const model_shape& m, parallel::pipeline_division d) {
  const bool says_nothing = !d.first && !d.last && !d.account_for_embedding && !d.account_for_loss;
  if (says_nothing && m.layers % d.stages != 0)
    if (const auto ends = parallel::suggested_ends(m.layers, d.stages)) d.first = ends->first, d.last = ends->second;
  return d;
}

RLCORE_INLINE std::vector<layout> open_layouts(const model_shape& m, const workload& w, const cluster& c,
                                               std::int64_t devices, const wishes& wanted) {
  using list = std::vector<std::int64_t>;
  const auto sizes = [&](std::optional<std::int64_t> fixed, std::int64_t largest) {
    if (fixed) return list{*fixed};
    list powers;
    for (std::int64_t n = 1; n <= std::min(largest, devices); n *= 2) powers.push_back(n);
    return powers;
  };
  const std::int64_t node = std::min<std::int64_t>(c.devices_per_node, 16);
  std::vector<layout> out;
  const bool searched = wanted.stages == 0;
  std::vector<parallel::pipeline_division> pipelines;
  for (const std::int64_t stages :
       searched ? sizes({}, std::min<std::int64_t>(m.layers, 32)) : list{wanted.stages.value_or(1)}) {
    parallel::pipeline_division d = wanted.others.pipeline;
    d.stages = static_cast<int>(stages);
    pipelines.push_back(stages == 1 ? parallel::pipeline_division() : searched ? searched_division(m, d) : d);
  }
  for (const parallel::pipeline_division& pipeline : pipelines)
    for (const std::int64_t tensor : sizes(wanted.tensor, node))
      for (const std::int64_t context : sizes(wanted.context, 32))
        for (const std::int64_t expert : sizes(wanted.expert, m.experts > 0 ? m.experts : 1)) {
          const bool chosen =
              (context == 1 || wanted.context) && (tensor == 1 || wanted.tensor) && (pipeline.stages == 1 || !searched);
          const std::int64_t others = tensor * context * pipeline.stages;
          if (!wanted.data && !chosen && devices % others != 0) continue;
          layout l = wanted.others;
          l.pipeline = pipeline;
          l.tensor = tensor, l.context = context, l.expert = expert;
          l.data = wanted.data.value_or(std::max<std::int64_t>(1, devices / others));
          list rollouts = !wanted.rollout_tensor        ? list{tensor}
                          : *wanted.rollout_tensor == 0 ? sizes({}, m.experts > 0 ? 32 : node)  // which divide experts
                                                        : list{*wanted.rollout_tensor};
          if (rollouts.size() > 1)
            std::erase_if(rollouts, [&](std::int64_t n) {
              return m.heads % n != 0 || (m.kv_heads % n != 0 && n % m.kv_heads != 0);
            });
          const list zeros = wanted.zero ? list{*wanted.zero} : l.stages() > 1 ? list{0, 1} : list{0, 1, 2, 3};
          for (const std::int64_t rollout : rollouts)
            for (const std::int64_t zero : zeros) {
              l.zero = static_cast<int>(zero), l.rollout_tensor = rollout;
              if (l.summed() == 1 && zero > 0 && !wanted.zero) continue;  // nothing to shard over
              // Over all ranks, or over those of a node.
              list shared{wanted.shard_ranks.value_or(0)};
              const std::int64_t inside = c.devices_per_node / tensor;
              if (!wanted.shard_ranks && zero > 0 && l.expert_parts() == 1 && inside > 1 && inside % context == 0 &&
                  inside < l.summed() && l.summed() % inside == 0)
                shared.push_back(inside);
              for (const std::int64_t n : shared)
                for (const bool one_each : {false, true}) {
                  l.shard_ranks = n, l.leaf_of_micro = one_each;
                  if (one_each && (zero < 3 || batches(l, w).leaves == batches(with_large_leaves(l), w).leaves))
                    continue;
                  out.push_back(l);
                }
            }
        }
  return out;
}

RLCORE_INLINE search_result search_layouts(const model_shape& m, const workload& w, const cluster& c,
                                           std::int64_t devices, const wishes& wanted) {
  search_result result;
  for (const layout& l : open_layouts(m, w, c, devices, wanted)) {
    if (const std::string why = check_layout(l, m, w, devices); !why.empty()) {
      if (std::find(result.impossible.begin(), result.impossible.end(), why) == result.impossible.end())
        result.impossible.push_back(why);
      continue;
    }
    candidate x{l, w, memory_of(m, l, w, c), {}, false};
    const auto fits = [&] { return x.memory.peak() <= c.memory * c.usable_share; };
    while (!fits() && x.work.micro_tokens * l.context > w.length()) {
      x.work.micro_tokens = std::max(x.work.micro_tokens / 2, (w.length() + l.context - 1) / l.context);
      x.memory = memory_of(m, l, x.work, c);
    }
    x.times = times_of(m, l, x.work, c, x.memory);
    x.fits = fits();
    (x.fits ? result.fitting : result.too_large).push_back(x);
  }
  std::stable_sort(result.fitting.begin(), result.fitting.end(),
                   [](const candidate& a, const candidate& b) { return a.times.step() < b.times.step(); });
  std::stable_sort(result.too_large.begin(), result.too_large.end(),
                   [](const candidate& a, const candidate& b) { return a.memory.peak() < b.memory.peak(); });
  if (!result.fitting.empty()) {
    const double limit = 1.02 * result.fitting.front().times.step();
    std::size_t best = 0;
    for (std::size_t k = 1; k < result.fitting.size() && result.fitting[k].times.step() <= limit; ++k)
      if (result.fitting[k].axes() < result.fitting[best].axes()) best = k;
    std::rotate(result.fitting.begin(), result.fitting.begin() + static_cast<std::ptrdiff_t>(best),
                result.fitting.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return result;
}

}  // namespace train::planning
RLCORE_END
#endif
