// The sockets of a server: many clients, and those that misbehave.
#include "rlcore/serving/http_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace {

namespace serving = rlcore::serving;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

const std::string json_type = "application/json", prompt = R"({"prompt": "hi", "max_tokens": 20})";

/// A server on a free port over a scripted engine.
struct running_server {
  scripted::house house;
  serving::service service;
  std::unique_ptr<serving::http_server> server;

  explicit running_server(serving::http_settings settings = {}, std::vector<std::string> keys = {},
                          bool endless = false)
      : service(house.shared, std::move(keys)) {
    house.engine.endless = endless;
    settings.port = 0;
    server = std::make_unique<serving::http_server>(std::move(settings),
                                                    [this](const serving::http_request& q) { return service(q); });
    server->start();
  }
  httplib::Client client(const std::string& host = "127.0.0.1") const {
    httplib::Client c(host, server->port());
    c.set_keep_alive(true);
    c.set_read_timeout(20s);
    return c;
  }
};

/// A connection that says what it likes.
class raw_socket {
 public:
  explicit raw_socket(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }
  ~raw_socket() { ::close(socket_); }
  raw_socket(const raw_socket&) = delete;
  raw_socket& operator=(const raw_socket&) = delete;
  void send(const std::string& text) const { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// Everything until the server closes, or `enough` bytes.
  std::string read(std::size_t enough = 1 << 20) const {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 1; n > 0 && all.size() < enough;) {
      n = ::recv(socket_, buffer, sizeof buffer, 0);
      if (n > 0) all.append(buffer, static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  int socket_;
};

bool becomes_true(const std::function<bool()>& what) {
  for (int i = 0; i < 1000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(http_server, answers_on_both_loopbacks_under_one_port) {
  running_server s;
  EXPECT_THAT(s.server->url(), StartsWith("http://127.0.0.1:"));
  auto four = s.client();
  EXPECT_EQ(four.Get("/v1/models")->status, 200);
  auto six = s.client("::1");
  const auto r = six.Get("/health");
  if (!r) GTEST_SKIP() << "this machine has no ::1";
  EXPECT_EQ(r->status, 200);
}

TEST(http_server, keeps_a_connection_for_many_requests) {
  running_server s;
  auto c = s.client();
  for (int i = 0; i < 50; ++i) {
    const auto r = c.Post("/v1/completions", prompt, json_type.c_str());
    ASSERT_TRUE(r);
    ASSERT_EQ(r->status, 200);
  }
}

TEST(http_server, an_error_speaks_in_the_status_line) {
  running_server s;
  raw_socket c(s.server->port());
  c.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 14\r\n"
      "Connection: close\r\n\r\n{\"prompt\": \"\"}");
  EXPECT_THAT(c.read(), StartsWith("HTTP/1.1 400 Bad Request: prompt: a prompt is empty"));
}

TEST(http_server, unknown_paths_and_wrong_methods) {
  running_server s;
  auto c = s.client();
  EXPECT_EQ(c.Get("/nowhere")->body, R"({"detail":"Not Found"})");
  EXPECT_EQ(c.Get("/v1/completions")->status, 405);
  EXPECT_EQ(c.Put("/v1/models", "x", "text/plain")->status, 405);
  EXPECT_EQ(c.Options("/v1/models")->status, 405);
  const auto head = c.Head("/v1/models");
  EXPECT_EQ(head->status, 200);
  EXPECT_TRUE(head->body.empty());
  EXPECT_EQ(c.Post("/ping", "", "text/plain")->status, 200);
}

TEST(http_server, keys_guard_what_is_under_v1) {
  running_server s({}, {"secret", "other"});
  auto c = s.client();
  EXPECT_EQ(c.Get("/v1/models")->status, 401);
  EXPECT_EQ(c.Get("/v1/models")->body, R"({"error":"Unauthorized"})");
  EXPECT_EQ(c.Get("/health")->status, 200);
  EXPECT_EQ(c.Get("/v1/models", {{"Authorization", "Bearer secre"}})->status, 401);
  EXPECT_EQ(c.Get("/v1/models", {{"Authorization", "Bearer other"}})->status, 200);
}

TEST(http_server, pages_of_other_origins_need_leave) {
  running_server s({.allowed_origins = {"http://good"}});
  auto c = s.client();
  EXPECT_EQ(c.Get("/v1/models", {{"Origin", "http://good"}})->get_header_value("Access-Control-Allow-Origin"),
            "http://good");
  EXPECT_FALSE(c.Get("/v1/models", {{"Origin", "http://bad"}})->has_header("Access-Control-Allow-Origin"));
}

TEST(http_server, a_body_that_is_too_large_is_refused_and_the_next_one_answered) {
  running_server s({.body_limit = 1000});
  auto c = s.client();
  const auto refused = c.Post("/v1/completions", std::string(2000, ' '), json_type.c_str());
  EXPECT_EQ(refused->status, 413);
  EXPECT_EQ(refused->get_header_value("Connection"), "close");
  EXPECT_EQ(c.Post("/v1/completions", prompt, json_type.c_str())->status, 200);
}

TEST(http_server, bodies_beyond_the_room_for_them_wait) {
  running_server s({.bytes_in_flight = 2 * prompt.size()});
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&] {
      auto c = s.client();
      for (int k = 0; k < 5; ++k) {
        const auto r = c.Post("/v1/completions", prompt, json_type.c_str());
        good += r && r->status == 200;
      }
    });
  for (auto& c : clients) c.join();
  EXPECT_EQ(good, 80);
}

TEST(http_server, a_client_that_never_ends_its_headers_or_its_body_is_dropped) {
  running_server s({.header_deadline = 1s, .body_deadline = 1s});
  raw_socket headers(s.server->port()), body(s.server->port());
  headers.send("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  body.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) headers.send("a"), std::this_thread::sleep_for(200ms);
  headers.read(), body.read();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_EQ(s.client().Get("/health")->status, 200);
}

TEST(http_server, what_is_no_http_is_refused) {
  running_server s;
  for (const std::string& bytes : {std::string("nonsense\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(100, '\0'),
                                   "GET / HTTP/1.1\r\n" + std::string(20000, 'a') + "\r\n\r\n",
                                   "GET /" + std::string(20000, 'a') + " HTTP/1.1\r\n\r\n"}) {
    raw_socket c(s.server->port());
    c.send(bytes);
    c.send("\r\n\r\n");
  }
  EXPECT_EQ(s.client().Get("/health")->status, 200);
}

TEST(http_server, a_client_that_leaves_cancels_its_request) {
  running_server s({}, {}, true);
  const std::string body = R"({"prompt": "hi", "n": 3, "max_tokens": 500})";
  const std::string streamed = R"({"prompt": "hi", "n": 3, "max_tokens": 500, "stream": true})";
  for (const std::string& request : {body, streamed}) {
    const std::size_t before = s.house.engine.cancelled();
    {
      raw_socket c(s.server->port());
      c.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
             std::to_string(request.size()) + "\r\n\r\n" + request);
      ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 3; }));
    }
    EXPECT_TRUE(becomes_true([&] { return s.house.engine.cancelled() == before + 3; }));
    EXPECT_TRUE(becomes_true([&] { return s.house.shared.requests == 0; }));
  }
}

TEST(http_server, other_requests_are_answered_while_many_wait) {
  running_server s({}, {}, true);
  std::vector<std::unique_ptr<raw_socket>> waiting;
  const std::string body = R"({"prompt": "hi", "max_tokens": 500})";
  for (int i = 0; i < 200; ++i) {
    waiting.push_back(std::make_unique<raw_socket>(s.server->port()));
    waiting.back()->send(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 200; }));
  EXPECT_EQ(s.client().Get("/v1/models")->status, 200);
  EXPECT_THAT(s.client().Get("/metrics")->body, HasSubstr("vllm:num_requests_running{model_name=\"tiny\"} 200\n"));
  EXPECT_EQ(s.client().Get("/load")->body, R"({"server_load":200})");
}

TEST(http_server, streams_arrive_event_by_event) {
  running_server s({}, {}, true);
  raw_socket c(s.server->port());
  const std::string request = R"({"prompt": "hi", "max_tokens": 500, "stream": true})";
  c.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, deflate, br\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(request.size()) + "\r\n\r\n" + request);
  const std::string begin = c.read(2000);
  EXPECT_THAT(begin, HasSubstr("Content-Type: text/event-stream; charset=utf-8\r\n"));
  EXPECT_THAT(begin, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(begin, HasSubstr("data: {"));
}

TEST(http_server, stops_when_the_running_requests_have_ended) {
  running_server s({}, {}, true);
  raw_socket c(s.server->port());
  c.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(prompt.size()) + "\r\n\r\n" + prompt);
  ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 1; }));
  std::atomic<bool> stopped = false;
  std::thread stopping([&] { s.server.reset(), stopped = true; });
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(stopped);
  s.house.engine.cancel(1);
  EXPECT_THAT(c.read(), HasSubstr(R"("finish_reason":"abort")"));
  stopping.join();
}

TEST(http_server, a_port_in_use_is_one_clear_line) {
  running_server s;
  try {
    serving::http_server second({.port = s.server->port()},
                                [](const serving::http_request&) { return serving::http_response(); });
    FAIL() << "two servers share a port";
  } catch (const rlcore::config_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("Address already in use; choose another with --port"));
  }
}

}  // namespace
