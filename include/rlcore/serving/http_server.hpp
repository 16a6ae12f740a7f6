// The sockets of a server. src/server.cpp defines it by cpp-httplib: link rlcore::server.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/exchange.hpp"

RLCORE_BEGIN
namespace serving {

/// Where to listen, and what a connection may take.
struct http_settings {
  std::string host{};                                    ///< empty: loopback, 127.0.0.1 and ::1
  int port = 8000;                                       ///< 0: a free one
  std::string unix_socket{};                             ///< a path, in the place of host and port
  std::size_t body_limit = std::size_t{64} << 20;        ///< bytes; 413 beyond
  std::size_t bytes_in_flight = std::size_t{512} << 20;  ///< of all bodies that are read or answered; others wait
  std::size_t connections = 1024;                        ///< served together; others wait
  std::chrono::seconds header_deadline{10}, body_deadline{300}, idle_deadline{75}, write_deadline{300};
  std::vector<std::string> allowed_origins{};  ///< of pages in browsers; * allows all
};

/// Listens and answers every request in a thread of its connection. Whoever waits is waited for: nothing is refused for
/// want of room.
class http_server {
 public:
  using handler = std::function<http_response(const http_request&)>;

  /// Binds. Throws config_error if the address is in use or unknown.
  http_server(http_settings settings, handler answer);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Stops, and waits for the requests that are being answered.
  ~http_server();

  /// Accepts connections, in threads of its own.
  void start();
  /// Accepts no further connection and no further request; those that are being answered go on.
  void stop();
  /// The port that it listens on; 0 for a Unix socket.
  int port() const;
  /// http://host:port, or the path of the Unix socket.
  std::string url() const;

 private:
  class sockets;
  std::unique_ptr<sockets> sockets_;
};

}  // namespace serving
RLCORE_END
