// Opens the log of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/tracker_import.hpp"
#include "rlcore/train/files/run_settings.hpp"

RLCORE_BEGIN
namespace train {

/// Log destinations of a run.
struct log_settings {
  std::vector<std::string> names;  ///< console, file, tensorboard, and unsupported trackers
  std::string events_folder;       ///< folder of event files; empty: none, or set by `names`
  console_style style = console_style::automatic;
};

/// The style set by rlcore.console; automatic if the program lacks the key.
inline console_style console_style_of(const options& opt) {
  if (opt.known().find("rlcore.console") == nullptr) return console_style::automatic;
  return named_console_style(opt.find<std::string>("rlcore.console").value_or(""));
}

namespace detail {

/// Prints the run's files, and the commands to import it into unsupported trackers of trainer.logger.
void describe_log(const options& opt, const log_settings& settings, const logger& log);

}  // namespace detail

/// Opens the log of a run in `root`, resumed after `resumed_step` (negative: fresh run); prints its location and the
/// note about an earlier run. Ranks other than the `first` keep the rows and write nothing. Throws file_error.
void open_log(std::optional<logger>& log, const options& opt, const log_settings& settings,
              const std::filesystem::path& root, std::int64_t resumed_step, bool first);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE void describe_log(const options& opt, const log_settings& settings, const logger& log) {
  if (log.path().empty()) return;
  const std::string metrics = log.path().string(), events = log.events().string();
  say("log    %s\n", metrics.c_str());
  if (!events.empty()) say("       tensorboard --logdir %s\n", shell_word(events).c_str());
  const auto name_of = [&](const char* key, const char* flag) {
    const bool by_flag = opt.known().find(flag) != nullptr && (opt.known().find(key) == nullptr || opt.is_set(flag));
    return opt.find<std::string>(by_flag ? flag : key).value_or("run");
  };
  for (const std::string& name : settings.names) {
    if (name == "console" || name == "file" || name == "tensorboard") continue;
    const std::string command = tracker_import(name, metrics, name_of("trainer.project_name", "wandb_project"),
                                               name_of("trainer.experiment_name", "wandb_run_name"));
    say("note: %s is not written to; these files hold the run%s\n", name.c_str(),
        command.empty() ? "" : (", and this sends it there:\n  " + command).c_str());
  }
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void open_log(std::optional<logger>& log, const options& opt, const log_settings& settings,
                            const std::filesystem::path& root, std::int64_t resumed_step, bool first) {
  if (!first) {
    log.emplace(std::vector<std::string>{"file"}, std::filesystem::path());
    return;
  }
  log.emplace(settings.names, root, resumed_step, checkpoint::expand_home(settings.events_folder).string(),
              settings.style);
  detail::describe_log(opt, settings, *log);
  if (const std::string note = earlier_run_note(opt, *log, root, resumed_step); !note.empty())
    say("%s\n", note.c_str());
}

}  // namespace train
RLCORE_END
#endif
