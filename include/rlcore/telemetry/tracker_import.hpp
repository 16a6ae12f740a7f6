// Experiment trackers without direct support: commands that import a run's metrics.jsonl.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// A word of a shell's command line: in single quotes unless it is plain.
std::string shell_word(std::string_view text);

}  // namespace detail

/// A command that sends the rows of `metrics`, the path of a metrics.jsonl, to `tracker` as the run `name` of
/// `project`; it needs the tracker's Python package. Empty for an unknown tracker.
std::string tracker_import(std::string_view tracker, std::string_view metrics, std::string_view project,
                           std::string_view name);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+@%,:=";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::string tracker_import(std::string_view tracker, std::string_view metrics, std::string_view project,
                                         std::string_view name) {
  const std::string each =
      " for d in map(json.loads, open(sys.argv[1])) for m in [{k: v for k, v in d.items() if v is not None}] for s in "
      "[m.pop('step')]]";
  std::string code;
  if (tracker == "wandb" || tracker == "trackio")
    code = "import json, sys, " + std::string(tracker) + " as t; r = t.init(project=sys.argv[2], name=sys.argv[3]); " +
           "[r.log(m, step=s)" + each + "; r.finish()";
  else if (tracker == "swanlab")
    code =
        "import json, sys, swanlab as t; t.init(project=sys.argv[2], experiment_name=sys.argv[3]); "
        "[t.log(m, step=s)" +
        each + "; t.finish()";
  else if (tracker == "mlflow")
    code =
        "import json, sys, mlflow as t; t.set_experiment(sys.argv[2]); t.start_run(run_name=sys.argv[3]); "
        "[t.log_metrics({k.replace('@', '_at_'): v for k, v in m.items()}, step=s)" +
        each + "; t.end_run()";
  else if (tracker == "clearml")
    code =
        "import json, sys, clearml; t = clearml.Task.init(project_name=sys.argv[2], task_name=sys.argv[3]); "
        "[t.get_logger().report_scalar(k.split('/')[0], k, v, s)" +
        each.substr(0, each.size() - 1) + " for k, v in m.items()]; t.close()";
  if (code.empty()) return code;
  return "python3 -c \"" + code + "\" " + detail::shell_word(metrics) + " " + detail::shell_word(project) + " " +
         detail::shell_word(name);
}

}  // namespace train
RLCORE_END
#endif
