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
  std::size_t header_limit = std::size_t{64} << 10;      ///< bytes of a request's line and headers; 431 beyond
  std::size_t body_limit = std::size_t{64} << 20;        ///< bytes; 413 beyond
  std::size_t bytes_in_flight = std::size_t{512} << 20;  ///< of all bodies that are read or answered; others wait
  std::size_t connections_per_address = 1024;            ///< of other machines; what is more is closed
  std::size_t threads = 1024;                            ///< requests read or answered at a time; others wait
  std::chrono::seconds header_deadline{10}, body_deadline{300}, idle_deadline{75}, write_deadline{300};
  std::chrono::seconds stall_deadline{30};        ///< for the next bytes of a body, while all threads are busy
  std::vector<std::string> allowed_origins{};     ///< of pages in browsers; * allows all
  std::function<void(const std::string&)> log{};  ///< hears of connections that cannot be accepted
};

/// Sockets that are bound: whoever connects waits until a server accepts. src/listening.cpp defines it.
class listening_sockets {
 public:
  /// Throws config_error if the address is unknown or in use. The file of a Unix socket that nobody listens to any more
  /// is replaced.
  explicit listening_sockets(const http_settings& settings);
  listening_sockets(const listening_sockets&) = delete;
  listening_sockets& operator=(const listening_sockets&) = delete;
  ~listening_sockets();

  /// One or two; they do not block.
  const std::vector<int>& all() const noexcept { return sockets_; }
  /// Nobody can connect from now on.
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

/// Answers every request in a thread; connections between two requests need none. Whoever waits is waited for: nothing
/// is refused for want of room. src/server.cpp defines it.
class http_server {
 public:
  using handler = std::function<http_response(const http_request&)>;

  /// Nothing is accepted before start(). `sockets` has to outlive the server.
  http_server(listening_sockets& sockets, http_settings settings, handler answer);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Stops, and waits for the requests that are being answered.
  ~http_server();

  /// Accepts connections, in threads of its own.
  void start();
  /// Closes the listening sockets and all connections without a request. Requests that are being read or answered go
  /// on.
  void stop();
  /// How many requests are being read or answered, those that wait for a thread included.
  std::size_t busy() const;
  /// Ends the connections of these requests.
  void drop_all();

 private:
  class connections;
  std::unique_ptr<connections> connections_;
};

}  // namespace serving
RLCORE_END
