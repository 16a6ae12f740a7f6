// HTTP server, client and connections. src/server.cpp, src/listening.cpp, src/connection.cpp and src/http_client.cpp
// define them with cpp-httplib: link rlcore::server.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

/// A request received over a connection.
struct http_request {
  std::string method, path, body{}, content_type{}, authorization{};
  std::function<bool()> connected{};  ///< whether the client is still connected; empty: assumed connected
  std::vector<std::pair<std::string, std::string>> query{};
};

/// Sends a part of a streamed body; false if the client does not accept it.
using body_writer = std::function<bool(std::string_view)>;

/// A response. With `stream` it has no body: the function writes it piece by piece.
struct http_response {
  int status = 200;
  std::string body{}, content_type = "application/json", reason{};
  std::function<void(const body_writer&)> stream{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// A response with a JSON value.
inline http_response json_response(const json& value, int status = 200) {
  return {.status = status, .body = text::json_text(value)};
}
/// An error in vLLM's format; the status line repeats the message, since some clients show only that.
inline http_response error_response(const api_error& e) {
  http_response r = json_response(e.body(), e.status);
  r.reason = std::string(phrase_of(e.status)) + ": " + e.what();
  return r;
}

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

/// Owns a socket. One thread waits until the headers of a request are complete; a second one then reads and writes, up
/// to a deadline independent of the client's speed.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  /// The destructor closes `socket` and releases its `place`. The settings must outlive the connection.
  connection(int socket, const http_settings& settings, std::shared_ptr<const void> place);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  int socket() const noexcept { return socket_; }
  /// Receives available bytes without waiting; false at the end of the connection.
  bool receive();
  /// Whether bytes of the next request have been received.
  bool has_bytes() const noexcept { return begin_ < bytes_.size(); }
  /// Whether these bytes start with `text`.
  bool begins_with(std::string_view text) const { return std::string_view(bytes_).substr(begin_).starts_with(text); }
  /// Whether the headers of the next request are complete, up to the empty line.
  bool has_headers() const;
  /// The line and the headers of the next request, where has_headers().
  std::string_view head() const;
  /// Whether they are longer than the settings allow.
  bool has_too_many_headers() const;
  /// When to give up waiting for them.
  clock::time_point deadline() const noexcept { return deadline_; }
  /// From now on the next request is waited for.
  void wait_for_request();

  /// Reading fails this long from now.
  void read_until(clock::duration from_now) { deadline_ = clock::now() + from_now; }
  /// Moves that moment.
  void postpone(clock::duration by) { deadline_ += by; }
  /// Reads at least a byte and at most `size`; 0 at the end of the connection, nothing after the deadline. While
  /// `crowded()`, the settings' stall_deadline applies as well.
  std::optional<std::size_t> read(char* to, std::size_t size, const std::function<bool()>& crowded);
  /// Writes all of it; false if the client does not accept it.
  bool write(std::string_view text);
  /// Whether the client can be written to before the settings' write_deadline.
  bool is_writable() const;
  /// Whether the client has not closed its end.
  bool connected() const;

  /// Sends `last` as far as possible without waiting, and drains what the client is still sending, so that it reads the
  /// response.
  void say_goodbye(std::string_view last = {});
  /// Shuts down reading and writing. Safe to call from any thread while the connection is in use.
  void drop() const;

 private:
  bool ready(short what, clock::duration longest) const;

  int socket_;
  const http_settings& settings_;
  std::shared_ptr<const void> place_;
  clock::time_point deadline_{};
  std::string bytes_;      // received
  std::size_t begin_ = 0;  // start of the unread bytes
};

/// A server's response.
struct http_answer {
  int status = 0;
  std::string reason, body;
};

/// One connection, kept open from request to request, for one thread.
class http_client {
 public:
  /// Connects to `url`, http://host:port; a path such as /v1 is ignored. Throws config_error for an invalid URL.
  explicit http_client(const std::string& url);
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client();

  /// Sends a JSON body with a bearer token, if there is one, and waits for the response without a timeout. Throws error
  /// if none arrives.
  http_answer post(const std::string& path, const std::string& body, const std::string& api_key = {});

 private:
  class connection;
  std::unique_ptr<connection> connection_;
};

}  // namespace serving

RLCORE_END
