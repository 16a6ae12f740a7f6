// The sockets of a server: many clients, and those that misbehave.
#include "rlcore/serving/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serving/running_server.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using namespace std::chrono_literals;
using scripted::becomes_true;
using scripted::post_request;
using scripted::raw_socket;
using scripted::running_server;
using testing::HasSubstr;
using testing::StartsWith;

const std::string json_type = "application/json", prompt = R"({"prompt": "hi", "max_tokens": 20})";

TEST(http_server, answers_on_both_loopbacks_under_one_port) {
  running_server s;
  EXPECT_THAT(s.sockets->url(), StartsWith("http://127.0.0.1:"));
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
  raw_socket c(s.port());
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
  EXPECT_EQ(c.Delete("/v1/models")->get_header_value("Allow"), "GET, HEAD");
  EXPECT_EQ(c.Put("/ping", "x", "text/plain")->get_header_value("Allow"), "GET, HEAD, POST");
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

/// httplib decodes %41 in the values of headers.
TEST(http_server, a_key_is_compared_as_it_was_sent) {
  running_server s({}, {"secret-%41", "a+b"});
  auto c = s.client();
  const auto status = [&](const std::string& key) {
    return c.Get("/v1/models", {{"Authorization", "Bearer " + key}})->status;
  };
  EXPECT_EQ(status("secret-%41"), 200);
  EXPECT_EQ(status("a+b"), 200);
  for (const char* wrong : {"secret-A", "secret%2D%41", "secret-%2541", "a%2Bb", "a b"})
    EXPECT_EQ(status(wrong), 401) << wrong;
}

/// A browser sends it for any page, and such a page needs no leave to send a form or an empty POST.
TEST(http_server, requests_of_foreign_pages_change_nothing) {
  running_server s({.allowed_origins = {"http://good"}});
  auto c = s.client();
  const std::string own = "127.0.0.1:" + std::to_string(s.port());
  const auto status = [&](const httplib::Headers& headers, const char* path = "/v1/completions") {
    const auto r = c.Post(path, headers, R"({"prompt": "hi", "max_tokens": 1})", "application/json");
    return r ? r->status : 0;
  };
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"Origin", "http://" + own}}), 200) << "the server's own page";
  EXPECT_EQ(status({{"Origin", "http://good"}}), 200);
  EXPECT_EQ(status({{"Origin", "http://localhost:80"}, {"Host", "localhost:80"}}), 200);
  EXPECT_EQ(status({{"Origin", "http://[::1]:80"}, {"Host", "[::1]:80"}}), 200);
  EXPECT_EQ(status({{"Origin", "http://bad"}}), 403);
  EXPECT_EQ(status({{"Origin", "null"}}), 403);
  EXPECT_EQ(status({{"Origin", "http://bad"}}, "/tokenize"), 403);
  EXPECT_EQ(status({{"Origin", "http://127.0.0.1:1"}}), 403) << "another server of this machine";
  EXPECT_EQ(status({{"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_EQ(status({{"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://" + own}}), 200);
  // A name that somebody made to point to this machine.
  EXPECT_EQ(status({{"Origin", "http://bad:8000"}, {"Host", "bad:8000"}}), 403);
  const auto r = c.Post("/v1/completions", {{"Origin", "http://bad"}}, "{}", "application/json");
  EXPECT_EQ(nlohmann::json::parse(r->body)["error"]["message"],
            "a page of http://bad sends this request; the server takes its requests with --allowed-origins http://bad");
  EXPECT_EQ(c.Get("/v1/models", {{"Origin", "http://bad"}})->status, 200) << "its browser does not show it the answer";
}

TEST(http_server, what_the_head_decides_needs_no_body) {
  running_server s({}, {"secret"});
  const auto answer = [&](const std::string& head) {
    const scripted::raw_socket c(s.port());
    c.send(head + "Host: x\r\nContent-Length: 100000\r\n\r\n{");
    const std::string all = c.read();
    EXPECT_FALSE(c.timed_out);
    return all.substr(0, 12);
  };
  EXPECT_EQ(answer("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"), "HTTP/1.1 401");
  EXPECT_EQ(answer("POST /nowhere HTTP/1.1\r\n"), "HTTP/1.1 404");
  EXPECT_EQ(answer("PUT /health HTTP/1.1\r\n"), "HTTP/1.1 405");
  EXPECT_EQ(answer("POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Type: text/plain\r\n"),
            "HTTP/1.1 400");
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
  ASSERT_TRUE(refused) << "the rest of the body is read before the answer is";
  EXPECT_EQ(refused->status, 413);
  EXPECT_EQ(c.Post("/v1/completions", prompt, json_type.c_str())->status, 200);
}

TEST(http_server, bodies_beyond_the_room_for_them_wait) {
  std::atomic<int> inside = 0, most = 0, good = 0;
  running_server s({.bytes_in_flight = 2 * prompt.size()}, {}, false, [&](const serving::http_request&) {
    for (int now = ++inside, before = most; now > before && !most.compare_exchange_weak(before, now);) continue;
    std::this_thread::sleep_for(20ms);
    --inside;
    return serving::http_response();
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      auto c = s.client();
      for (int k = 0; k < 3; ++k) {
        const auto r = c.Post("/v1/completions", prompt, json_type.c_str());
        good += r && r->status == 200;
      }
    });
  for (auto& c : clients) c.join();
  EXPECT_EQ(good, 24);
  EXPECT_EQ(most, 2);
}

TEST(http_server, a_client_that_leaves_cancels_its_request) {
  running_server s({}, {}, true);
  const std::string body = R"({"prompt": "hi", "n": 3, "max_tokens": 500})";
  const std::string streamed = R"({"prompt": "hi", "n": 3, "max_tokens": 500, "stream": true})";
  for (const std::string& request : {body, streamed}) {
    const std::size_t before = s.house.engine.cancelled();
    {
      raw_socket c(s.port());
      c.send(post_request(request));
      ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 3; }));
    }
    EXPECT_TRUE(becomes_true([&] { return s.house.engine.cancelled() == before + 3; }));
    EXPECT_TRUE(becomes_true([&] { return s.house.shared.requests == 0; }));
  }
  const std::string counted = s.client().Get("/metrics")->body;
  EXPECT_THAT(counted, HasSubstr("vllm:request_success_total{model_name=\"tiny\",finished_reason=\"abort\"} 6\n"));
  EXPECT_THAT(counted, HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 2\n"));
}

TEST(http_server, other_requests_are_answered_while_many_wait) {
  running_server s({}, {}, true);
  std::vector<std::unique_ptr<raw_socket>> waiting;
  const std::string body = R"({"prompt": "hi", "max_tokens": 500})";
  for (int i = 0; i < 200; ++i) {
    waiting.push_back(std::make_unique<raw_socket>(s.port()));
    waiting.back()->send(post_request(body));
  }
  ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 200; }));
  EXPECT_EQ(s.client().Get("/v1/models")->status, 200);
  EXPECT_THAT(s.client().Get("/metrics")->body, HasSubstr("vllm:num_requests_running{model_name=\"tiny\"} 200\n"));
  EXPECT_EQ(s.client().Get("/load")->body, R"({"server_load":200})");
}

TEST(http_server, streams_arrive_event_by_event) {
  running_server s({}, {}, true);
  raw_socket c(s.port());
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
  raw_socket c(s.port());
  c.send(post_request(prompt));
  ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 1; }));
  std::atomic<bool> stopped = false;
  std::thread stopping([&] { s.server.reset(), stopped = true; });
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(stopped);
  s.house.engine.cancel(1);
  EXPECT_THAT(c.read(), HasSubstr(R"("finish_reason":"abort")"));
  stopping.join();
}

std::string why_not(const serving::http_settings& settings) {
  try {
    const serving::listening_sockets sockets(settings);
    return "it listens";
  } catch (const rlcore::config_error& e) {
    return e.what();
  }
}

TEST(http_server, where_it_cannot_listen_is_one_clear_line) {
  const running_server s;
  EXPECT_THAT(why_not({.port = s.port()}), HasSubstr("Address already in use; choose another with --port"));
  EXPECT_THAT(why_not({.host = "no.such.host.invalid", .port = 0}), StartsWith("--host no.such.host.invalid: "));
  EXPECT_THAT(why_not({.unix_socket = std::string(200, 'x')}), HasSubstr("the path has 200 bytes"));
  EXPECT_THAT(why_not({.unix_socket = "/nowhere/s"}), HasSubstr("choose another path with --uds"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
