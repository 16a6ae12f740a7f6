// Programs that are killed while they run.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"

namespace program {

/// Starts a program and kills it (SIGKILL) as soon as `now` says so; false if it ended before.
template <class When>
bool kill_when(const std::string& name, std::vector<std::string> words, When&& now) {
  std::string path = path_of(name).string();
  std::vector<char*> argv{path.data()};
  for (std::string& a : words) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execv(path.c_str(), argv.data());
    _exit(127);
  }
  for (int i = 0; i < 120'000 && waitpid(child, nullptr, WNOHANG) == 0; ++i) {
    if (now()) {
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      return WIFSIGNALED(status);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return false;
}

/// Kills a run that writes to `folder` as `now` says, and before it has made `end`. Where this process was too late for
/// that, it begins anew.
template <class When>
bool kill_in(const std::filesystem::path& folder, const std::filesystem::path& end, const std::string& name,
             const std::vector<std::string>& words, When&& now) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::filesystem::remove_all(folder);
    if (kill_when(name, words, now) && !std::filesystem::exists(end)) return true;
  }
  return false;
}

}  // namespace program
