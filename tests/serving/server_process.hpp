// openai_server as a process, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "support/program.hpp"

extern char** environ;

/// openai_server on a free port, until stop() or the end.
class server_process {
 public:
  explicit server_process(const std::filesystem::path& model, std::vector<std::string> more = {}) {
    std::vector<std::string> words{program::path_of("openai_server").string(),
                                   "--model",
                                   model.string(),
                                   "--port",
                                   "0",
                                   "--served-model-name",
                                   "auto",
                                   "--max-num-seqs",
                                   "24",
                                   "--kv-cache-memory-bytes",
                                   "16M",
                                   "--rlcore-log-interval",
                                   "0"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, (place_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&files, 2, (place_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    if (posix_spawn(&process_, words[0].c_str(), &files, nullptr, arguments.data(), environ) != 0) process_ = -1;
    posix_spawn_file_actions_destroy(&files);
    for (int i = 0; i < 6000 && process_ > 0; ++i) {
      const std::string out = scratch::read(place_ / "out");
      const std::size_t at = out.find("ready    http://127.0.0.1:");
      if (at != out.npos && out.find('\n', at) != out.npos) {
        port_ = std::atoi(out.c_str() + at + sizeof "ready    http://127.0.0.1:" - 1);
        return;
      }
      if (waitpid(process_, &status_, WNOHANG) == process_) process_ = -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "did not start: " << scratch::read(place_ / "err");
  }
  ~server_process() { stop(SIGKILL); }
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  void signal(int number) const { ::kill(process_, number); }
  /// The exit code.
  int stop(int number = SIGTERM) {
    if (process_ <= 0) return -1;
    signal(number);
    waitpid(process_, &status_, 0);
    process_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  httplib::Client client() const {
    httplib::Client c("127.0.0.1", port_);
    c.set_keep_alive(true);
    c.set_read_timeout(std::chrono::seconds(120));
    return c;
  }
  rlcore::serving::json post(const std::string& path, const std::string& body) const {
    const auto r = client().Post(path, body, "application/json");
    if (!r) return "no answer";
    return rlcore::serving::json::parse(r->body);
  }
  std::string text(const std::string& body) const { return post("/v1/completions", body)["choices"][0]["text"]; }

 private:
  scratch::folder place_;
  pid_t process_ = -1;
  int status_ = 0, port_ = 0;
};
