// perf/pipeline_idle: how long the stages of a pipeline wait for each other.
#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/telemetry/metrics.hpp"

RLCORE_BEGIN
namespace train {

/// Time that this rank has waited for the other stages, step by step: in receives of passes, and in all exchanges of
/// world::pipeline(), where the end of a schedule waits.
class pipeline_idle {
 public:
  /// Sets perf/pipeline_idle after a step of so many seconds: the mean share of the stages. A collective call of the
  /// ranks of w.pipeline(); does nothing without stages.
  void operator()(parallel::world& w, double step, metrics& out) {
    if (w.pipeline().size() == 1) return;
    double waited = 0;
    for (const parallel::any_communicator* group : {&w.forwards(), &w.backwards()})
      waited += group->counters().of(parallel::collective::receive).seconds;
    waited += w.pipeline().counters().total().seconds;
    const double share = step > 0 ? (waited - before_) / step : 0;
    before_ = waited;
    parallel::meet_stages(w);
    const std::vector<double> all = parallel::gather_parts(w.pipeline(), std::span<const double>(&share, 1));
    out.set("perf/pipeline_idle", std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()));
  }

 private:
  double before_ = 0;
};

}  // namespace train
RLCORE_END
