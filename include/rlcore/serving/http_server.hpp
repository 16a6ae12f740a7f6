// HTTP server. src/server.cpp defines it with cpp-httplib: link rlcore::server.
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

/// Listening address and connection limits.
struct http_settings {
  std::string host{};                                    ///< empty: loopback, 127.0.0.1 and ::1
  int port = 8000;                                       ///< 0: a free one
  std::string unix_socket{};                             ///< a path, in the place of host and port
  std::size_t header_limit = std::size_t{64} << 10;      ///< bytes of a request's line and headers; 431 beyond
  std::size_t body_limit = std::size_t{64} << 20;        ///< bytes; 413 beyond
  std::size_t bytes_in_flight = std::size_t{512} << 20;  ///< total of all bodies in progress; further requests wait
  std::size_t connections_per_address = 1024;            ///< per remote address; further connections are closed
  std::size_t threads = 1024;                            ///< requests in progress; further ones wait
  std::chrono::seconds header_deadline{10}, body_deadline{300}, idle_deadline{75}, write_deadline{300};
  std::chrono::seconds stall_deadline{30};        ///< for the next bytes of a body, while all threads are busy
  std::vector<std::string> allowed_origins{};     ///< of pages in browsers; * allows all
  std::function<void(const std::string&)> log{};  ///< receives messages about connections that cannot be accepted
};

/// Bound sockets: clients wait until a server accepts. src/listening.cpp defines it.
class listening_sockets {
 public:
  /// Throws config_error if the address is unknown or in use. A stale Unix socket file is replaced.
  explicit listening_sockets(const http_settings& settings);
  listening_sockets(const listening_sockets&) = delete;
  listening_sockets& operator=(const listening_sockets&) = delete;
  ~listening_sockets();

  /// One or two; they do not block.
  const std::vector<int>& all() const noexcept { return sockets_; }
  /// Stops accepting connections.
  void close() noexcept;
  /// The port; 0 for a Unix socket.
  int port() const noexcept { return port_; }
  /// http://host:port, or the path of the Unix socket.
  std::string url() const;

 private:
  std::string host_, unix_socket_;
  int port_ = 0;
  std::vector<int> sockets_;
};

/// Handles every request in a thread; idle connections need none. Requests wait for resources; none is rejected for
/// lack of room. src/server.cpp defines it.
class http_server {
 public:
  using handler = std::function<http_response(const http_request&)>;

  /// Accepts nothing before start(). `sockets` must outlive the server.
  http_server(listening_sockets& sockets, http_settings settings, handler answer);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Stops, and waits for the requests that are being answered.
  ~http_server();

  /// Accepts connections, in threads of its own.
  void start();
  /// Closes the listening sockets and all connections without a request. Requests in progress continue.
  void stop();
  /// The number of requests in progress, including those waiting for a thread.
  std::size_t busy() const;
  /// Ends the connections of these requests.
  void drop_all();

 private:
  class connections;
  std::unique_ptr<connections> connections_;
};

}  // namespace serving
RLCORE_END
