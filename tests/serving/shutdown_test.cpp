// How the program ends: what signals do to requests and to clients that stall.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "serving/adapter_folder.hpp"
#include "serving/running_server.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::json;
using namespace std::chrono_literals;
using scripted::becomes_true;
using scripted::post_request;
using scripted::raw_socket;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

struct shutdown_of_a_server : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path at(const std::string& name) { return *place / name; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    std::filesystem::create_directories(at("model"));
    tiny_model::save_tokenizer(at("model"));
    tiny_model::save_weights(at("model"), 3);
    save_adapter(at("adapter"), at("model"), 1);
  }
  static void TearDownTestSuite() { place.reset(); }

  static std::vector<std::string> timeout(const char* seconds, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--shutdown-timeout", seconds});
    return more;
  }
  static std::vector<std::string> with_adapter() {
    return {"--enable-lora", "--max-loras", "1", "--lora-modules", "adapter=" + at("adapter").string()};
  }
};

const std::string short_request = R"({"prompt": "a", "max_tokens": 5, "ignore_eos": true})";

/// A request that takes much longer than all of these tests; `more` are further fields.
std::string long_request(const std::string& more = "") {
  return R"({"prompt": "a", "max_tokens": 1000, "ignore_eos": true, "n": 1000)" + more + "}";
}

/// Sends the headers of a request; when this returns, the server is reading its body.
void announce(const raw_socket& client, const std::string& body, const std::string& path = "/v1/completions") {
  const std::string size = std::to_string(body.size());
  client.send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + size +
              "\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(client.read_to("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
}

/// A client that has stopped reading an answer, which the server goes on writing.
void stop_reading(const raw_socket& client, const server_process& s) {
  client.send(post_request(R"({"prompt": "a", "max_tokens": 1000, "ignore_eos": true, "n": 6, "logprobs": 20,
      "stream": true})"));
  EXPECT_THAT(client.read_to(R"("finish_reason":)"), StartsWith("HTTP/1.1 200"));
  const auto has = [&](const std::string& line) {
    const auto r = s.client().Get("/metrics");
    return r && r->body.find(line) != std::string::npos;
  };
  EXPECT_TRUE(has(R"(finished_reason="length"} 0)")) << "no choice may have been written to its end";
  EXPECT_TRUE(becomes_true([&] {
    return has(R"(rlcore_num_requests_running{model_name="auto"} 0)") &&
           has(R"(rlcore_num_requests_waiting{model_name="auto"} 0)");
  })) << "everything is drawn";
  EXPECT_TRUE(s.has_load(1)) << "and waits for the client";
}

bool is_stopping(const server_process& s) {
  return becomes_true([&] { return s.err().find(" stopping: ") != std::string::npos; });
}

/// The signals that a process's threads hold back, by the numbers of the threads: the bit n - 1 is that of signal n.
std::map<pid_t, std::uint64_t> held_back(pid_t process) {
  std::map<pid_t, std::uint64_t> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    const std::string status = scratch::read(entry.path() / "status"), name = "\nSigBlk:\t";
    const std::size_t begin = status.find(name);
    if (begin != status.npos)
      all[std::atoi(entry.path().filename().c_str())] =
          std::stoull(status.substr(begin + name.size(), 16), nullptr, 16);
  }
  return all;
}

constexpr std::uint64_t ending_signals = std::uint64_t{1} << (SIGINT - 1) | std::uint64_t{1} << (SIGTERM - 1);

/// Whether all threads but the first hold the signals back that end a server; there are at least `fewest` of them.
void expect_one_thread_for_signals(pid_t process, std::size_t fewest) {
  std::size_t others = 0;
  for (const auto& [thread, signals] : held_back(process)) {
    if (thread == process) continue;
    ++others;
    EXPECT_EQ(signals & ending_signals, ending_signals) << "thread " << others;
  }
  EXPECT_GE(others, fewest);
}

TEST_F(shutdown_of_a_server, takes_no_time_without_requests) {
  for (const int number : {SIGINT, SIGTERM}) {
    server_process s(at("model"), timeout("300"));
    const raw_socket silent(s.port()), headers(s.port()), kept(s.port());
    headers.send("GET /health HTTP/1.1\r\n");
    kept.send("GET /health HTTP/1.1\r\n\r\n");
    EXPECT_THAT(kept.read_to("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
    s.signal(number);
    EXPECT_EQ(s.end_within(20s), "exit code " + std::to_string(128 + number));
    EXPECT_THAT(s.err(), HasSubstr(" stopping: "));
  }
}

TEST_F(shutdown_of_a_server, waits_for_a_body_that_still_comes) {
  server_process s(at("model"), timeout("300"));
  const raw_socket half(s.port());
  announce(half, short_request);
  half.send(short_request.substr(0, 10));
  s.signal(SIGTERM);
  ASSERT_TRUE(is_stopping(s));
  EXPECT_THAT(s.err(), HasSubstr(" stopping: 1 requests"));
  EXPECT_TRUE(s.runs());
  half.send(short_request.substr(10));
  const std::string answer = half.read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_EQ(s.end_within(20s), "exit code 143");
}

TEST_F(shutdown_of_a_server, does_not_wait_for_a_body_that_never_comes) {
  server_process s(at("model"), timeout("0.5"));
  const raw_socket half(s.port());
  announce(half, short_request);
  half.send("{");
  s.signal(SIGTERM);
  EXPECT_EQ(s.end_within(20s), "exit code 143");
  EXPECT_THAT(s.err(), HasSubstr(" stopping: 1 requests"));
}

TEST_F(shutdown_of_a_server, does_not_wait_for_a_client_that_does_not_read) {
  server_process s(at("model"), timeout("0.5"));
  const raw_socket deaf(s.port(), 4096);
  stop_reading(deaf, s);
  s.signal(SIGTERM);
  EXPECT_EQ(s.end_within(20s), "exit code 143");
}

TEST_F(shutdown_of_a_server, happens_at_once_by_the_second_signal) {
  for (const int second : {SIGINT, SIGTERM}) {
    server_process s(at("model"), timeout("300"));
    const raw_socket half(s.port()), deaf(s.port(), 4096);
    stop_reading(deaf, s);
    announce(half, short_request);
    s.signal(SIGTERM);
    ASSERT_TRUE(is_stopping(s));
    EXPECT_TRUE(s.runs());
    s.signal(second);
    EXPECT_EQ(s.end_within(20s), "exit code " + std::to_string(128 + second));
  }
}

TEST_F(shutdown_of_a_server, tells_streams_that_they_are_aborted) {
  server_process s(at("model"), timeout("0"));
  std::string events;
  std::thread client([&] {
    const auto r = s.client().Post("/v1/completions", long_request(R"(, "stream": true)"), "application/json");
    events = r ? r->body : "no answer";
  });
  EXPECT_TRUE(s.has_load(1));
  s.signal(SIGTERM);
  client.join();
  EXPECT_THAT(events, EndsWith("data: [DONE]\n\n"));
  std::vector<int> ends(1000);
  for (std::size_t begin = 0; (begin = events.find("data: {", begin)) != events.npos; ++begin) {
    const json choice = json::parse(events.substr(begin + 6, events.find("\n\n", begin) - begin - 6))["choices"][0];
    if (choice["finish_reason"] == "abort") ++ends[choice["index"].get<std::size_t>()];
  }
  EXPECT_EQ(ends.back(), 1) << "its turn was far away";
  EXPECT_LE(*std::max_element(ends.begin(), ends.end()), 1);
  EXPECT_EQ(s.end_within(20s), "exit code 143");
}

TEST_F(shutdown_of_a_server, aborts_what_comes_after_the_others_were_aborted) {
  std::string late;
  for (int i = 0; i < 5 && late.empty(); ++i) {  // it has two seconds, which are short on a busy machine
    server_process s(at("model"), timeout("0"));
    const raw_socket running(s.port()), half(s.port());
    running.send(post_request(long_request()));
    announce(half, short_request);
    EXPECT_TRUE(s.has_load(1));
    s.signal(SIGTERM);
    EXPECT_THAT(running.read_to("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
    half.send(short_request);
    late = half.read();
    EXPECT_EQ(s.end_within(20s), "exit code 143");
  }
  EXPECT_THAT(late, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(late, HasSubstr(R"("finish_reason":"abort")"));
}

TEST_F(shutdown_of_a_server, is_for_one_thread_to_hear_of) {
  std::vector<std::string> flags = with_adapter();
  flags.insert(flags.end(), {"--rlcore-threads", "2", "--rlcore-ranks", "2"});
  const server_process s(at("model"), flags);
  const raw_socket half(s.port());
  announce(half, short_request);
  EXPECT_FALSE(s.text(short_request).empty());
  expect_one_thread_for_signals(s.id(), 6);  // two devices', a rank's, the engine's, and for connections and requests
}

TEST_F(shutdown_of_a_server, ends_requests_of_adapters) {
  server_process s(at("model"), timeout("0", with_adapter()));
  json unloaded;
  std::thread client([&] { unloaded = s.post("/v1/completions", long_request(R"(, "model": "adapter")")); });
  EXPECT_TRUE(s.has_load(1));
  const auto r = s.client().Post("/v1/unload_lora_adapter", R"({"lora_name": "adapter"})", "application/json");
  EXPECT_TRUE(r && r->status == 200);
  const std::string next = json{{"lora_name", "next"}, {"lora_path", at("adapter")}}.dump();
  const raw_socket waits(s.port());  // for the place of the adapter that still answers
  announce(waits, next, "/v1/load_lora_adapter");
  waits.send(next);
  s.signal(SIGTERM);
  EXPECT_EQ(s.end_within(20s), "exit code 143");
  client.join();
  ASSERT_EQ(unloaded["choices"].size(), 1000u) << unloaded;
  EXPECT_EQ(unloaded["choices"].back()["finish_reason"], "abort");
}

TEST_F(shutdown_of_a_server, refuses_what_waits_for_a_sleeping_one) {
  std::vector<std::string> flags = with_adapter();
  flags.emplace_back("--enable-dev-endpoints");
  server_process s(at("model"), timeout("300", flags));
  EXPECT_EQ(s.client().Post("/sleep", "", "application/json")->status, 200);
  const std::string for_adapter = R"({"model": "adapter", "prompt": "a", "max_tokens": 5})";
  const raw_socket own(s.port()), adapter(s.port());
  announce(own, short_request);
  own.send(short_request);
  announce(adapter, for_adapter);
  adapter.send(for_adapter);
  s.signal(SIGTERM);
  for (const raw_socket* c : {&own, &adapter}) {
    const std::string answer = c->read();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("the server is stopping"));
  }
  EXPECT_EQ(s.end_within(20s), "exit code 143");
}

/// A file that nobody can open while this lives: whoever tries waits, for 45 seconds at most as Linux is set up.
class held_file {
 public:
  explicit held_file(const std::filesystem::path& name) : file_(::open(name.c_str(), O_RDWR | O_CLOEXEC)) {
    ::fcntl(file_, F_SETSIG, SIGURG);  // tells of the first who waits, and is ignored
    holds_ = ::fcntl(file_, F_SETLEASE, F_WRLCK) == 0;
  }
  ~held_file() { ::close(file_); }
  held_file(const held_file&) = delete;
  held_file& operator=(const held_file&) = delete;
  bool holds() const noexcept { return holds_; }
  /// Whether somebody comes to wait.
  bool is_wanted() const {
    return becomes_true([&] { return ::fcntl(file_, F_GETLEASE) != F_WRLCK; });
  }

 private:
  int file_;
  bool holds_;
};

/// Expects a signal to end a server that is opening a file of weights.
void expect_end_while_it_reads(const std::filesystem::path& file, std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--port", "0", "--rlcore-threads", "2"});
  for (const int number : {SIGINT, SIGTERM}) {
    const held_file weights(file);
    if (!weights.holds()) GTEST_SKIP() << "this file system has no leases";
    server_program s(flags);
    ASSERT_TRUE(weights.is_wanted());
    expect_one_thread_for_signals(s.id(), 1);
    s.signal(number);
    EXPECT_EQ(s.end_within(20s), "signal " + std::to_string(number));
  }
}

TEST_F(shutdown_of_a_server, happens_at_once_while_the_model_is_loaded) {
  for (const char* ranks : {"1", "2"})
    expect_end_while_it_reads(at("model") / "model.safetensors",
                              {"--model", at("model").string(), "--rlcore-ranks", ranks});
}

TEST_F(shutdown_of_a_server, happens_at_once_while_an_adapter_is_loaded) {
  std::vector<std::string> flags = with_adapter();
  flags.insert(flags.end(), {"--model", at("model").string(), "--kv-cache-memory-bytes", "16M"});
  expect_end_while_it_reads(at("adapter") / "adapter_model.safetensors", flags);
}

TEST_F(shutdown_of_a_server, comes_before_the_model_is_read_where_the_port_is_taken) {
  std::filesystem::copy(at("model"), at("broken"), std::filesystem::copy_options::recursive);
  scratch::write(at("broken") / "model.safetensors", "no weights");
  const server_process other(at("model"));
  const auto error_at = [&](int port) {
    const auto r = program::run("openai_server", {at("broken").string(), "--port", std::to_string(port)});
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    return r.err;
  };
  EXPECT_THAT(error_at(other.port()), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(other.port())));
  EXPECT_THAT(error_at(0), HasSubstr("model.safetensors")) << "with a free port the weights are the mistake";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
