// HTTP requests and responses, and the settings of a server.
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
  std::size_t threads = 1024;  ///< requests in progress, of one client three quarters; further ones wait
  std::chrono::seconds header_deadline{10}, body_deadline{300}, idle_deadline{75}, write_deadline{300};
  std::chrono::seconds body_window{10};           ///< while all threads are busy, a body has to bring in each of these
  std::size_t least_body_rate = 1024;             ///< so many bytes per second
  std::vector<std::string> trusted_proxies{};     ///< addresses whose X-Forwarded-For names the client; * trusts all
  std::vector<std::string> allowed_origins{};     ///< of pages in browsers; * allows all
  std::function<void(const std::string&)> log{};  ///< receives messages about connections that cannot be accepted
  /// Answers a request, without its body, that its head decides: the body is then not read. Empty: none.
  std::function<std::optional<http_response>(const http_request&)> screen{};
};

}  // namespace serving
RLCORE_END
