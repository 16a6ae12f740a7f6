// Pipeline schedules: 1F1B (Narayanan et al. 2019) and interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace parallel {

/// The forward or the backward of a pass (micro-batch) through a chunk of layers of a stage.
struct pipeline_action {
  bool forward = true;
  int chunk = 0, pass = 0;

  friend bool operator==(const pipeline_action&, const pipeline_action&) = default;
  /// "F3", or of several chunks "F0.3".
  std::string text(int chunks) const {
    return (forward ? "F" : "B") + (chunks > 1 ? std::to_string(chunk) + "." : std::string()) + std::to_string(pass);
  }
};

/// The size of a pipeline and of its work. With several chunks, passes go through a chunk in groups of `group` (0: as
/// many as stages).
struct pipeline_shape {
  int stages = 1, chunks = 1, passes = 0, group = 0;

  int passes_in_group() const noexcept { return group == 0 ? stages : group; }
  /// With several chunks whole groups: the missing passes are empty.
  int padded_passes() const noexcept {
    const int g = passes_in_group();
    return chunks == 1 ? passes : (passes + g - 1) / g * g;
  }
};

/// What stage `stage` does, in this order. Backwards of a chunk ascend. Throws config_error if a group has fewer passes
/// than there are stages.
std::vector<pipeline_action> stage_schedule(const pipeline_shape& shape, int stage);

/// What stage_schedule() lets run at the same time.
struct pipeline_times {
  double time = 0;             ///< from the first begin to the last end
  std::vector<double> busy{};  ///< of each stage
  std::vector<int> alive{};    ///< of each stage: most forwards whose backward has not ended

  /// The mean share of the time in which a stage waits.
  double idle() const noexcept {
    double sum = 0;
    for (const double b : busy) sum += b;
    return time > 0 ? 1 - sum / (time * static_cast<double>(busy.size())) : 0;
  }
};

/// The time of an action of a stage.
using action_time = std::function<double(int stage, const pipeline_action&)>;

/// Runs the lists of all stages: an action begins when its stage is free and its input has been sent. Throws
/// std::logic_error if the lists are not a schedule of `shape`: an action is missing or twice, a backward precedes its
/// forward, backwards of a chunk do not ascend, or stages wait for each other forever.
pipeline_times simulate(const pipeline_shape& shape, const std::vector<std::vector<pipeline_action>>& lists,
                        const action_time& time);

/// simulate() of stage_schedule().
pipeline_times simulate(const pipeline_shape& shape, const action_time& time);

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel::detail {

/// The forwards of a stage with several chunks, in their order.
RLCORE_INLINE std::vector<pipeline_action> interleaved_forwards(const pipeline_shape& s) {
  std::vector<pipeline_action> table;
  const int g = s.passes_in_group(), passes = s.padded_passes();
  for (int first = 0; first < passes; first += g)
    for (int chunk = 0; chunk < s.chunks; ++chunk)
      for (int pass = first; pass < first + g; ++pass) table.push_back({true, chunk, pass});
  return table;
}

/// What has been done of the lists.
class pipeline_run {
 public:
  explicit pipeline_run(const pipeline_shape& s)
      : shape_(s),
        virtual_stages_(s.stages * s.chunks),
        ends_(static_cast<std::size_t>(2 * virtual_stages_ * s.padded_passes()), -1.0),
        next_backward_(static_cast<std::size_t>(virtual_stages_), 0) {}

  /// When the input of an action is there, or a negative number.
  double ready(int stage, const pipeline_action& a) {
    const int k = a.chunk * shape_.stages + stage;
    if (a.forward) return k == 0 ? 0 : end(true, k - 1, a.pass);
    const double forward = end(true, k, a.pass);
    if (forward < 0) throw std::logic_error("rlcore: pipeline: a backward precedes its forward: " + name(stage, a));
    return k + 1 == virtual_stages_ ? forward : end(false, k + 1, a.pass);
  }
  void finish(int stage, const pipeline_action& a, double time) {
    const int k = a.chunk * shape_.stages + stage;
    double& noted = end(a.forward, k, a.pass);
    if (noted >= 0) throw std::logic_error("rlcore: pipeline: an action is there twice: " + name(stage, a));
    noted = time;
    if (!a.forward && next_backward_[static_cast<std::size_t>(k)]++ != a.pass)
      throw std::logic_error("rlcore: pipeline: backwards do not ascend: " + name(stage, a));
  }
  void check(int stage, const pipeline_action& a) const {
    if (a.chunk < 0 || a.chunk >= shape_.chunks || a.pass < 0 || a.pass >= shape_.padded_passes())
      throw std::logic_error("rlcore: pipeline: no such action: " + name(stage, a));
  }
  std::string name(int stage, const pipeline_action& a) const {
    return a.text(shape_.chunks) + " of stage " + std::to_string(stage);
  }

 private:
  double& end(bool forward, int virtual_stage, int pass) {
    const int row = virtual_stage * 2 + (forward ? 0 : 1);
    return ends_[static_cast<std::size_t>(row * shape_.padded_passes() + pass)];
  }

  pipeline_shape shape_;
  int virtual_stages_;
  std::vector<double> ends_;
  std::vector<int> next_backward_;
};

}  // namespace parallel::detail

namespace parallel {

RLCORE_INLINE std::vector<pipeline_action> stage_schedule(const pipeline_shape& s, int stage) {
  const int behind = s.stages - stage - 1, g = s.passes_in_group();
  if (s.chunks > 1 && g < s.stages)
    throw config_error("microbatch_group_size_per_vp_stage=" + std::to_string(g) + ": expected at least the " +
                       std::to_string(s.stages) + " stages");
  std::vector<pipeline_action> forwards;
  if (s.chunks > 1)
    forwards = detail::interleaved_forwards(s);
  else
    for (int pass = 0; pass < s.passes; ++pass) forwards.push_back({true, 0, pass});
  const int all = static_cast<int>(forwards.size());
  const int warm_up = std::min(s.chunks > 1 ? 2 * behind + (s.chunks - 1) * g : behind, all);
  std::vector<pipeline_action> list;
  const auto add_backward = [&](int i) {
    pipeline_action a = forwards[static_cast<std::size_t>(i)];
    list.push_back({false, s.chunks - 1 - a.chunk, a.pass});
  };
  for (int i = 0; i < all; ++i) {
    list.push_back(forwards[static_cast<std::size_t>(i)]);
    if (i >= warm_up) add_backward(i - warm_up);
  }
  for (int i = all - warm_up; i < all; ++i) add_backward(i);
  return list;
}

RLCORE_INLINE pipeline_times simulate(const pipeline_shape& s, const std::vector<std::vector<pipeline_action>>& lists,
                                      const action_time& time) {
  const auto stages = static_cast<std::size_t>(s.stages);
  detail::pipeline_run run(s);
  pipeline_times out{0, std::vector<double>(stages), std::vector<int>(stages)};
  std::vector<double> now(stages);
  std::vector<std::size_t> done(stages);
  std::vector<int> alive(stages);
  for (std::size_t r = 0; r < stages; ++r) {
    const auto wanted = static_cast<std::size_t>(2 * s.chunks * s.padded_passes());
    if (lists.at(r).size() != wanted)
      throw std::logic_error("rlcore: pipeline: stage " + std::to_string(r) + " has " +
                             std::to_string(lists[r].size()) + " actions, expected " + std::to_string(wanted));
    for (const pipeline_action& a : lists[r]) run.check(static_cast<int>(r), a);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < stages; ++r) {
      const int stage = static_cast<int>(r);
      for (; done[r] < lists[r].size(); ++done[r], moved = true) {
        const pipeline_action& a = lists[r][done[r]];
        const double ready = run.ready(stage, a);
        if (ready < 0) break;
        const double taken = time(stage, a);
        now[r] = std::max(now[r], ready) + taken;
        out.busy[r] += taken;
        run.finish(stage, a, now[r]);
        out.time = std::max(out.time, now[r]);
        alive[r] += a.forward ? 1 : 0;
        out.alive[r] = std::max(out.alive[r], alive[r]);
        alive[r] -= a.forward ? 0 : 1;
      }
    }
  }
  for (std::size_t r = 0; r < stages; ++r)
    if (done[r] < lists[r].size())
      throw std::logic_error("rlcore: pipeline: stages wait for each other: " +
                             run.name(static_cast<int>(r), lists[r][done[r]]) + " never begins");
  return out;
}

RLCORE_INLINE pipeline_times simulate(const pipeline_shape& s, const action_time& time) {
  std::vector<std::vector<pipeline_action>> lists;
  for (int stage = 0; stage < s.stages; ++stage) lists.push_back(stage_schedule(s, stage));
  return simulate(s, lists, time);
}

}  // namespace parallel
RLCORE_END
#endif
