// Opens the log of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/training/earlier_run.hpp"

RLCORE_BEGIN
namespace trainer {

/// What a run logs to.
struct log_settings {
  std::vector<std::string> names;  ///< console, file, tensorboard
  std::string events_folder;       ///< of event files; empty: none, or as `names` say
  console_style style = console_style::automatic;
};

/// The word of rlcore.console; automatic where the program does not have the key.
inline console_style console_style_of(const options& opt) {
  if (opt.known().find("rlcore.console") == nullptr) return console_style::automatic;
  return named_console_style(opt.find<std::string>("rlcore.console").value_or(""));
}

/// Opens the log of a run in `root` that goes on after `resumed_step` (negative: that begins), and says what became of
/// an earlier run there. Ranks other than the `first` keep the rows and write nothing. Throws file_error.
inline void open_log(std::optional<logger>& log, const options& opt, const log_settings& settings,
                     const std::filesystem::path& root, std::int64_t resumed_step, bool first) {
  if (!first) {
    log.emplace(std::vector<std::string>{"file"}, std::filesystem::path());
    return;
  }
  log.emplace(settings.names, root, resumed_step, checkpoint::expand_home(settings.events_folder).string(),
              settings.style);
  if (const std::string note = earlier_run_note(opt, *log, root, resumed_step); !note.empty())
    say("%s\n", note.c_str());
}

}  // namespace trainer
RLCORE_END
