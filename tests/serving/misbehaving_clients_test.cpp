// Clients that stall, that frame their bodies badly or that take what is not theirs; and a system that refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "rlcore/serving/http_server.hpp"
#include "serving/running_server.hpp"

namespace RLCORE_TEST_ID {
namespace {

std::atomic<int> refusals = 0, refused_with = 0;
std::atomic<std::uint32_t> comes_from = 0;  // an IPv4 address, in the place of the true one

}  // namespace

/// The system's, but for the next `refusals` calls, and for the address.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  if (refusals > 0) {
    --refusals;
    errno = refused_with;
    return -1;
  }
  const int accepted = static_cast<int>(::syscall(SYS_accept4, socket, address, size, flags));
  if (accepted >= 0 && comes_from != 0) reinterpret_cast<sockaddr_in*>(address)->sin_addr.s_addr = comes_from;
  return accepted;
}

namespace {

namespace serving = rlcore::serving;
using namespace std::chrono_literals;
using scripted::becomes_true;
using scripted::post_request;
using scripted::raw_socket;
using scripted::running_server;
using testing::HasSubstr;
using testing::StartsWith;

const std::string question = R"({"prompt": "hi", "max_tokens": 20})";
const std::string json_head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const std::string chunked_head = json_head + "Transfer-Encoding: chunked\r\n\r\n";

/// How often `part` stands in `text`.
std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// What a connection is told until it ends.
std::string answer_to(const running_server& s, const std::string& bytes) {
  const raw_socket c(s.port());
  c.send(bytes);
  const std::string all = c.read();
  EXPECT_FALSE(c.timed_out) << "the connection stays open after: " << bytes.substr(0, 200);
  return all;
}

TEST(misbehaving_clients, that_never_end_their_headers_or_their_body_are_dropped) {
  const running_server s({.header_deadline = 1s, .body_deadline = 1s});
  const raw_socket headers(s.port()), body(s.port());
  headers.send("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  body.send(post_request("{", 100));
  for (int i = 0; i < 4; ++i) headers.send("a"), std::this_thread::sleep_for(200ms);
  EXPECT_EQ(headers.read(), "");
  EXPECT_THAT(body.read(), StartsWith("HTTP/1.1 400"));
  EXPECT_FALSE(headers.timed_out || body.timed_out);
}

TEST(misbehaving_clients, may_pause_in_a_body_and_have_an_end_for_all_of_it) {
  const running_server s({.header_deadline = 1s, .body_deadline = 4s});
  const std::string prompt = R"({"prompt": "hi", "max_tokens": 1})";
  const raw_socket pauses(s.port()), drips(s.port());
  const std::string request = post_request(prompt);
  pauses.send(request.substr(0, request.size() - 5));
  drips.send(post_request("{", 1000));
  std::atomic<bool> dropped{false};
  std::thread dripping([&] {
    while (!dropped) drips.send(" "), std::this_thread::sleep_for(100ms);
  });
  std::this_thread::sleep_for(2s);
  pauses.send(request.substr(request.size() - 5));
  EXPECT_THAT(pauses.read(20), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(drips.read(20), StartsWith("HTTP/1.1 400"));
  EXPECT_FALSE(pauses.timed_out || drips.timed_out);
  dropped = true;
  dripping.join();
}

TEST(misbehaving_clients, do_not_keep_others_from_asking_for_the_state) {
  running_server s({.threads = 2}, {}, true);
  const std::string endless = post_request(R"({"prompt": "hi", "max_tokens": 500, "stream": true})");
  const raw_socket first(s.port()), second(s.port()), third(s.port());
  for (const raw_socket* c : {&first, &second, &third}) c->send(endless);
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 3; }));
  auto c = s.client();
  for (const char* path : {"/health", "/v1/models", "/metrics"}) {
    const auto r = c.Get(path);
    ASSERT_TRUE(r) << path;
    EXPECT_EQ(r->status, 200);
  }
}

TEST(misbehaving_clients, hear_that_their_bytes_are_no_http) {
  const running_server s;
  const std::string end = "Connection: close\r\n\r\n";
  for (const std::string& bytes : {"nonsense\r\n" + end, "GET\r\n" + end, std::string(100, '\0') + "\r\n" + end,
                                   "GET / HTTP/1.1\r\n" + std::string(20000, 'a') + "\r\n" + end})
    EXPECT_THAT(answer_to(s, bytes), StartsWith("HTTP/1.1 400")) << bytes.substr(0, 40);
  EXPECT_THAT(answer_to(s, "GET /" + std::string(20000, 'a') + " HTTP/1.1\r\n" + end), StartsWith("HTTP/1.1 414"));
}

TEST(misbehaving_clients, have_so_much_room_for_headers_and_no_more) {
  const running_server s;
  const std::string begin = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
  std::string many;
  while (many.size() < 60000) many += "X-A: b\r\n";
  EXPECT_THAT(answer_to(s, begin + many + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer_to(s, begin + many + many + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(answer_to(s, begin + "X-A: " + std::string(100000, 'a')), StartsWith("HTTP/1.1 431"));
}

TEST(misbehaving_clients, with_unfinished_bodies_hold_nobody_up) {
  const running_server s({.body_limit = 10000, .bytes_in_flight = 40000});
  std::vector<std::unique_ptr<raw_socket>> half;
  for (int i = 0; i < 8; ++i) {
    half.push_back(std::make_unique<raw_socket>(s.port()));
    half.back()->send(i % 2 == 0 ? post_request("{", 9000) : chunked_head + "2000\r\n{");
  }
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 8; }));
  auto c = s.client();
  c.set_read_timeout(5s);
  for (int i = 0; i < 5; ++i) {
    const auto r = c.Post("/v1/completions", question + std::string(9000, ' '), "application/json");
    ASSERT_TRUE(r);
    EXPECT_EQ(r->status, 200);
  }
}

TEST(misbehaving_clients, leave_room_for_the_body_that_began_first) {
  const running_server s({.body_limit = 10000, .bytes_in_flight = 20000});
  const std::string body = question + std::string(9900 - question.size(), ' ');
  std::vector<std::unique_ptr<raw_socket>> clients;
  for (int i = 0; i < 6; ++i) {  // all together 60 % more than the room
    clients.push_back(std::make_unique<raw_socket>(s.port()));
    clients.back()->send(post_request(body.substr(0, 6000), body.size()));
  }
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 6; }));
  for (auto& c : clients) c->send(body.substr(6000));
  for (auto& c : clients) EXPECT_THAT(c->read(15), StartsWith("HTTP/1.1 200"));
}

TEST(misbehaving_clients, chunks_are_joined_however_they_are_cut) {
  const running_server s;
  for (std::size_t cut = 1; cut < question.size(); cut += 7) {
    char first[20], second[20];
    std::snprintf(first, sizeof first, "%zx", cut);
    std::snprintf(second, sizeof second, "%zX", question.size() - cut);
    const raw_socket c(s.port());
    const std::string bytes = chunked_head + first + "; x=y\r\n" + question.substr(0, cut) + "\r\n" + second + "\r\n" +
                              question.substr(cut) + "\r\n0\r\nTrailer: a\r\n\r\nGET /version HTTP/1.1\r\n" +
                              "Connection: close\r\n\r\n";
    c.send(bytes.substr(0, chunked_head.size() + cut));
    std::this_thread::sleep_for(5ms);
    c.send(bytes.substr(chunked_head.size() + cut));
    const std::string all = c.read();
    EXPECT_EQ(count_of("HTTP/1.1 200", all), 2u) << all;
    EXPECT_THAT(all, HasSubstr("Hello, world"));
  }
}

TEST(misbehaving_clients, a_post_without_length_has_no_body) {
  const running_server s;
  EXPECT_THAT(answer_to(s, "POST /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST(misbehaving_clients, no_body_is_taken_for_the_next_request) {
  const running_server s({.body_limit = 1000});
  const std::string length = "Content-Length: 20\r\n", body = "GET / HTTP/1.1\r\nA: ..",
                    next = "GET /version HTTP/1.1\r\nConnection: close\r\n\r\n";
  // A request that its head decides ends the connection: its body is not read.
  for (const auto& [head, answers] :
       {std::pair{"GET /health HTTP/1.1\r\n", 2u},
        {"DELETE /v1/models HTTP/1.1\r\n", 1u},
        {"POST /v1/completions HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n", 1u},
        {"OPTIONS /v1/models HTTP/1.1\r\n", 1u}}) {
    const std::string all = answer_to(s, head + length + "\r\n" + body.substr(0, 20) + next);
    EXPECT_EQ(count_of("HTTP/1.1 ", all), answers) << all;
    EXPECT_EQ(count_of(R"({"version")", all), answers - 1) << all;
    EXPECT_EQ(count_of("EXCEPTION", all), 0u) << all;
  }
  EXPECT_THAT(answer_to(s, "GET /health HTTP/1.1\r\nContent-Length: 2000\r\nConnection: close\r\n\r\n" +
                               std::string(2000, 'x')),
              StartsWith("HTTP/1.1 413"));
}

TEST(misbehaving_clients, unclear_bodies_end_the_connection) {
  const running_server s;
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  for (const std::string& rest :
       {"Content-Length: 3\r\n" + chunked + "\r\n0\r\n\r\n",
        std::string("Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}"), std::string("Content-Length: three\r\n\r\n{}"),
        std::string("Content-Length: -1\r\n\r\n{}"), std::string("Transfer-Encoding: gzip\r\n\r\n{}"),
        chunked + "\r\nxyz\r\n{}", chunked + "\r\n2\r\n{}}\r\n0\r\n\r\n"}) {
    const std::string all = answer_to(s, json_head + rest);
    EXPECT_THAT(all, StartsWith("HTTP/1.1 400")) << rest;
    EXPECT_EQ(count_of("HTTP/1.1", all), 1u) << rest;
  }
}

TEST(misbehaving_clients, heads_that_a_proxy_may_read_otherwise_end_the_connection) {
  const running_server s;
  const std::string second = "GET /version HTTP/1.1\r\nConnection: close\r\n\r\n", line = "POST /tokenize HTTP/1.1\r\n",
                    length = "Content-Length: " + std::to_string(second.size()) + "\r\n";
  for (const std::string& head : {line + "Content-Length : " + length.substr(16),
                                  line + " " + length,
                                  line + "X: a\n" + length,
                                  line + "X: a\r" + length,
                                  line + "X: a\r\n\t" + length,
                                  line + length + length,
                                  line + ": x\r\n" + length,
                                  line + "X\r\n" + length,
                                  line + "X: " + std::string(1, '\0') + "\r\n" + length,
                                  line + "Content-Length: %3" + "5\r\n",
                                  line + "Content-Length: +5\r\n",
                                  line + "Content-Length: 5, 5\r\n",
                                  line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                                  line + "Transfer-Encoding: chunke%64\r\n",
                                  line + "Transfer-Encoding: chunked\r\n" + length,
                                  std::string("POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n"),
                                  line + "Host: a\r\nHost: b\r\n",
                                  "\r\n" + line + length,
                                  "POST /tokenize  HTTP/1.1\r\n" + length,
                                  "POST\t/tokenize HTTP/1.1\r\n" + length,
                                  "POST /tokenize HTTP/1.1 \r\n" + length,
                                  "PO(ST /tokenize HTTP/1.1\r\n" + length,
                                  "POST /tokenize HTTP/2.0\r\n" + length}) {
    const std::string all = answer_to(s, head + "\r\n" + second);
    EXPECT_THAT(all, StartsWith("HTTP/1.1 400 Bad Request: ")) << head;
    EXPECT_EQ(count_of("HTTP/1.1 200", all), 0u) << head;
  }
}

TEST(misbehaving_clients, heads_that_are_only_odd_are_answered) {
  const running_server s;
  for (const char* odd :
       {"x-a:b\r\n", "X-A:\t b \t\r\n", "X-A:\r\n", "X-A: \xc3\xa9 %zz\r\n", "!#$%&'*+-.^_`|~: b\r\n", "HOST: x\r\n"})
    EXPECT_THAT(answer_to(s, "GET /version HTTP/1.1\r\n" + std::string(odd) + "connection: close\r\n\r\n"),
                StartsWith("HTTP/1.1 200"))
        << odd;
}

TEST(misbehaving_clients, that_compress_a_body_hear_that_nobody_reads_it) {
  const running_server s;
  auto c = s.client();
  const auto refused =
      c.Post("/v1/completions", {{"Content-Encoding", "gzip"}}, std::string(1 << 20, 'x'), "application/json");
  ASSERT_TRUE(refused) << "the body is taken before the answer is given";
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(c.Get("/version")->status, 200);
}

TEST(misbehaving_clients, get_whole_answers_whatever_range_they_name) {
  const running_server s;
  EXPECT_THAT(answer_to(s, "GET /version HTTP/1.1\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n"),
              testing::EndsWith("\"}"));
}

TEST(misbehaving_clients, that_say_nothing_have_no_thread) {
  const running_server s({.threads = 2});
  std::vector<std::unique_ptr<raw_socket>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<raw_socket>(s.port()));
    if (i % 2 == 0) silent.back()->send("GET /health HTTP/1.1\r\nX-");
    if (i % 3 == 0) silent.back()->send("a: b\r\n\r\n"), silent.back()->read(12);
  }
  auto c = s.client();
  c.set_read_timeout(5s);
  const auto r = c.Get("/health");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->status, 200);
}

TEST(misbehaving_clients, stalled_bodies_give_their_threads_up_when_others_wait) {
  const running_server s({.threads = 2, .body_window = 1s});
  const raw_socket first(s.port()), second(s.port());
  for (const raw_socket* c : {&first, &second}) c->send(post_request("{", 100));
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 2; }));
  EXPECT_EQ(s.client().Post("/v1/completions", question, "application/json")->status, 200);
}

TEST(misbehaving_clients, bodies_that_drip_give_their_threads_up_when_others_wait) {
  const running_server s({.threads = 2, .body_window = 1s});
  const raw_socket first(s.port()), second(s.port());
  for (const raw_socket* c : {&first, &second}) c->send(post_request("{", 100000));
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 2; }));
  std::atomic<bool> ended{false};
  std::thread dripping([&] {
    for (; !ended; std::this_thread::sleep_for(50ms))
      for (const raw_socket* c : {&first, &second}) c->send("          ");
  });
  EXPECT_EQ(s.client().Post("/v1/completions", question, "application/json")->status, 200);
  ended = true;
  dripping.join();
}

TEST(misbehaving_clients, without_a_key_have_no_thread_for_a_body) {
  const running_server s({.threads = 2}, {"secret"});
  std::vector<std::unique_ptr<raw_socket>> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<raw_socket>(s.port()));
    slow.back()->send(post_request("{", 100));
  }
  for (const auto& c : slow) EXPECT_THAT(c->read(12), StartsWith("HTTP/1.1 401"));
  auto c = s.client();
  c.set_read_timeout(5s);
  const auto r = c.Post("/v1/completions", {{"Authorization", "Bearer secret"}}, question, "application/json");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->status, 200);
}

/// Of four threads a client has three at most: by its address, or by what a trusted proxy says of it.
TEST(misbehaving_clients, leave_a_quarter_of_the_threads_to_others) {
  for (const bool proxy : {false, true}) {
    const running_server s({.threads = 4, .trusted_proxies = {proxy ? "192.0.2.1" : "192.0.2.77"}});
    std::vector<std::unique_ptr<raw_socket>> all;
    const auto ask = [&](const std::string& body, const std::string& forwarded = "") {
      all.push_back(std::make_unique<raw_socket>(s.port()));
      std::string request = post_request(body, question.size());
      if (!forwarded.empty()) request.insert(request.find("Host"), "X-Forwarded-For: " + forwarded + "\r\n");
      all.back()->send(request);
      return all.back().get();
    };
    comes_from = htonl(0xc0000201);  // 192.0.2.1
    for (int i = 0; i < 6; ++i) ask("{", i % 2 == 0 ? "198.51.100.7" : "1.1.1.1, 198.51.100.7:80" + std::to_string(i));
    ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 6; }));
    if (!proxy) comes_from = htonl(0xc0000202);
    for (int i = 0; i < 3; ++i)
      EXPECT_THAT(ask(question, proxy ? "198.51.100.8" : "198.51.100.7")->read(12), StartsWith("HTTP/1.1 200"))
          << proxy;
    comes_from = 0;
  }
}

TEST(misbehaving_clients, a_connection_that_the_system_refuses_is_not_the_last_one) {
  std::vector<std::string> logged;
  {
    const running_server s({.log = [&](const std::string& line) { logged.push_back(line); }});
    for (const int why : {ECONNABORTED, ENFILE, ENOMEM, EPROTO}) {
      refused_with = why, refusals = 2;
      EXPECT_EQ(s.client().Get("/health")->status, 200) << why;
      EXPECT_EQ(refusals, 0);
    }
  }
  EXPECT_THAT(logged, testing::ElementsAre(HasSubstr("cannot accept a connection: Too many open files in system")));
}

/// While one lives, no thread can be started.
class no_more_threads {
 public:
  no_more_threads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~no_more_threads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  no_more_threads(const no_more_threads&) = delete;
  no_more_threads& operator=(const no_more_threads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(misbehaving_clients, have_so_many_connections_from_another_machine_and_no_more) {
  const running_server s({.connections_per_address = 3});
  std::vector<std::unique_ptr<raw_socket>> open;
  const auto answered = [&] {
    open.push_back(std::make_unique<raw_socket>(s.port()));
    open.back()->send("GET /health HTTP/1.1\r\n\r\n");
    return open.back()->read(12) == "HTTP/1.1 200";
  };
  comes_from = htonl(0xc0000201);  // 192.0.2.1
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(answered());
  EXPECT_FALSE(answered());
  EXPECT_FALSE(open.back()->timed_out) << "it is closed";
  comes_from = htonl(0xc0000202);
  EXPECT_TRUE(answered()) << "another address has its own number";
  comes_from = 0;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(answered()) << "this machine has as many as it likes";
  comes_from = htonl(0xc0000201);
  open.erase(open.begin(), open.begin() + 3);
  EXPECT_TRUE(becomes_true(answered)) << "places come back";
  comes_from = 0;
}

TEST(misbehaving_clients, are_answered_by_the_threads_that_there_are) {
  const running_server s;
  std::vector<std::unique_ptr<raw_socket>> clients;
  const no_more_threads from_here_on;
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<raw_socket>(s.port()));
    clients.back()->send(post_request("{", question.size()));
  }
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 20; }));
  for (const auto& c : clients) c->send(question.substr(1));
  for (const auto& c : clients) EXPECT_THAT(c->read(15), StartsWith("HTTP/1.1 200"));
}

TEST(misbehaving_clients, keep_no_server_from_its_end) {
  const running_server s({}, {}, true);
  const raw_socket half(s.port()), deaf(s.port(), 4096), headers(s.port());
  headers.send("GET /health HTTP/1.1\r\n");
  half.send(post_request("{", 100));
  deaf.send(post_request(R"({"prompt": "hi", "max_tokens": 500, "n": 20, "stream": true})"));
  ASSERT_TRUE(becomes_true([&] { return s.house.engine.load().running == 20; }));
  ASSERT_TRUE(becomes_true([&] { return s.server->busy() == 2; }));
  s.server->stop();
  EXPECT_EQ(headers.read(), "");
  EXPECT_EQ(s.server->busy(), 2u);
  s.server->drop_all();
  EXPECT_TRUE(becomes_true([&] { return s.server->busy() == 0; }));
}

TEST(misbehaving_clients, a_fault_in_the_middle_of_a_stream_is_its_last_event) {
  scripted::house h;
  h.engine.endless = true;
  serving::service service(h.shared);
  const serving::http_response r =
      service({"POST", "/v1/completions", R"({"prompt": "hi", "max_tokens": 500, "stream": true})", "application/json",
               "", []() -> bool { throw std::bad_alloc(); }});
  std::string events;
  r.stream([&](std::string_view text) { return events += text, true; });
  EXPECT_THAT(events, HasSubstr(R"("type":"InternalServerError")"));
  EXPECT_THAT(events, testing::EndsWith("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
