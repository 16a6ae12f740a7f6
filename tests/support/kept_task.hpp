// The embedded task that quickstart makes, made once for all processes of a build: shards and suites share it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "run_files.hpp"

namespace program {

/// A folder that only its first user fills.
struct kept_task {
  std::filesystem::path folder;  ///< holds runs/
  result made;                   ///< of quickstart; code 0 where another process has made it
};

/// What `quickstart words` makes, in the folder `name` beside the tests. Made again by another quickstart or for other
/// words.
inline kept_task make_kept_task(const std::string& name, const arguments& words) {
  namespace fs = std::filesystem;
  kept_task task{fs::path(RLCORE_BIN_DIR) / ".." / "tests" / name, {}};
  fs::create_directories(task.folder);
  std::string maker = std::to_string(fs::last_write_time(path_of("quickstart")).time_since_epoch().count());
  for (const std::string& word : words) maker += " " + word;
  const int lock = open((task.folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  flock(lock, LOCK_EX);
  if (scratch::read(task.folder / "made_by") == maker) {
    task.made.code = 0;
  } else {
    fs::remove_all(task.folder / "runs");
    task.made = run("quickstart", words, "cd '" + task.folder.string() + "' &&");
    if (task.made.code == 0) scratch::write(task.folder / "made_by", maker);
  }
  close(lock);
  return task;
}

}  // namespace program
