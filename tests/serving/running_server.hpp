// A server on a free port over a scripted engine, and clients that say what they like.
#pragma once

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/serving/http_server.hpp"
#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace scripted {

/// Answers by a service, or by `handler`.
struct running_server {
  using handler = rlcore::serving::http_server::handler;

  scripted::house house;
  rlcore::serving::service service;
  std::unique_ptr<rlcore::serving::listening_sockets> sockets;
  std::unique_ptr<rlcore::serving::http_server> server;

  explicit running_server(rlcore::serving::http_settings settings = {}, std::vector<std::string> keys = {},
                          bool endless = false, handler answer = {})
      : service(house.shared, std::move(keys)) {
    house.engine.endless = endless;
    if (!answer) {
      answer = [this](const rlcore::serving::http_request& q) { return service(q); };
      settings.screen = [this](const rlcore::serving::http_request& head) { return service.refusal(head); };
    }
    settings.port = 0;
    sockets = std::make_unique<rlcore::serving::listening_sockets>(settings);
    server = std::make_unique<rlcore::serving::http_server>(*sockets, std::move(settings), std::move(answer));
    server->start();
  }
  int port() const { return sockets->port(); }
  httplib::Client client(const std::string& host = "127.0.0.1") const {
    httplib::Client c(host, port());
    c.set_keep_alive(true);
    c.set_read_timeout(std::chrono::seconds(20));
    return c;
  }
};

/// A connection that says what it likes.
class raw_socket {
 public:
  /// `receive_buffer` in bytes; 0: the system's.
  explicit raw_socket(int port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval patience{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
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
  /// Everything until the server closes, says nothing for 20 seconds, or `enough` bytes.
  std::string read(std::size_t enough = 1 << 20) const {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 1; n > 0 && all.size() < enough;) {
      n = ::recv(socket_, buffer, std::min(enough - all.size(), sizeof buffer), 0);
      if (n > 0) all.append(buffer, static_cast<std::size_t>(n));
      timed_out = n < 0 && errno == EAGAIN;
    }
    return all;
  }
  /// Everything up to `end`, byte by byte; less if it does not come.
  std::string read_to(const std::string& end) const {
    std::string all, next;
    while (!all.ends_with(end) && !(next = read(1)).empty()) all += next;
    return all;
  }
  mutable bool timed_out = false;  ///< read() ended because of its patience

 private:
  int socket_;
};

/// A POST of JSON. `announced`: what Content-Length says, if it is not the truth.
inline std::string post_request(const std::string& body, std::size_t announced = 0,
                                const std::string& path = "/v1/completions") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(announced > 0 ? announced : body.size()) + "\r\n\r\n" + body;
}

inline bool becomes_true(const std::function<bool()>& what) {
  for (int i = 0; i < 2000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace scripted
