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

/// openai_server as a process, until it ends by itself or with this object. What it prints is kept.
class server_program {
 public:
  explicit server_program(const std::vector<std::string>& flags) {
    std::vector<std::string> words{program::path_of("openai_server").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, (place_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&files, 2, (place_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawnattr_t attributes;  // a job in the background has SIGINT ignored
    posix_spawnattr_init(&attributes);
    sigset_t as_usual;
    sigemptyset(&as_usual);
    for (const int number : {SIGINT, SIGTERM}) sigaddset(&as_usual, number);
    posix_spawnattr_setsigdefault(&attributes, &as_usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (posix_spawn(&process_, words[0].c_str(), &files, &attributes, arguments.data(), environ) != 0) process_ = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }
  ~server_program() { stop(SIGKILL); }
  server_program(const server_program&) = delete;
  server_program& operator=(const server_program&) = delete;

  pid_t id() const noexcept { return process_; }
  std::string out() const { return scratch::read(place_ / "out"); }
  std::string err() const { return scratch::read(place_ / "err"); }
  void signal(int number) const { ::kill(process_, number); }
  bool runs() {
    if (process_ > 0 && waitpid(process_, &status_, WNOHANG) == process_) process_ = -1;
    return process_ > 0;
  }
  /// The exit code.
  int stop(int number = SIGTERM) {
    if (process_ <= 0) return -1;
    signal(number);
    waitpid(process_, &status_, 0);
    process_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  /// How it ends in this time: "exit code 143", "signal 15" or "not at all".
  std::string end_within(std::chrono::milliseconds longest) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (runs() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (process_ > 0) return "not at all";
    return WIFEXITED(status_) ? "exit code " + std::to_string(WEXITSTATUS(status_))
                              : "signal " + std::to_string(WTERMSIG(status_));
  }

 private:
  scratch::folder place_;
  pid_t process_ = -1;
  int status_ = 0;
};

/// The same on a free port, ready for requests.
class server_process : public server_program {
 public:
  explicit server_process(const std::filesystem::path& model, const std::vector<std::string>& more = {})
      : server_program(flags(model, more)) {
    const std::string ready = "ready    http://127.0.0.1:";
    for (int i = 0; i < 6000 && runs(); ++i) {
      const std::string printed = out();
      const std::size_t at = printed.find(ready);
      if (at != printed.npos && printed.find('\n', at) != printed.npos) {
        port_ = std::atoi(printed.c_str() + at + ready.size());
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "did not start: " << err();
  }

  int port() const noexcept { return port_; }
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
  /// Whether so many requests are being answered at some moment of the next 20 seconds.
  bool has_load(int requests) const {
    const std::string wanted = R"({"server_load":)" + std::to_string(requests) + "}";
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    httplib::Client c = client();
    do
      if (const auto r = c.Get("/load"); r && r->body == wanted) return true;
    while (std::chrono::steady_clock::now() < end);
    return false;
  }

 private:
  static std::vector<std::string> flags(const std::filesystem::path& model, const std::vector<std::string>& more) {
    std::vector<std::string> words{"--model",
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
    return words;
  }

  int port_ = 0;
};
