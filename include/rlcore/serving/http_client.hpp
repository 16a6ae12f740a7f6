// HTTP client. cpp-httplib is slow to compile: with RLCORE_COMPILED it is defined in src/http.cpp (rlcore::server).
#pragma once

#include <memory>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_HTTP)
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace serving {
namespace detail {

/// http://host:port without what follows.
inline std::string server_of(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  const std::size_t end = std::min(url.find('/', scheme.size()), url.size());
  if (!url.starts_with(scheme) || end == scheme.size())
    throw config_error("'" + url + "' is no server; expected http://host:port" +
                       (url.starts_with("https://") ? " (TLS is for a proxy)" : ""));
  return url.substr(0, end);
}

}  // namespace detail

/// The connection to one server.
class http_client::connection : public httplib::Client {
 public:
  /// Throws config_error for an invalid URL.
  explicit connection(const std::string& url) : Client(detail::server_of(url)), server(detail::server_of(url)) {
    set_keep_alive(true);
    set_tcp_nodelay(true);
    // A long answer takes its time.
    set_read_timeout(std::chrono::hours(24 * 365));
  }
  const std::string server;
};

RLCORE_INLINE http_client::http_client(const std::string& url) : connection_(std::make_unique<connection>(url)) {}
RLCORE_INLINE http_client::~http_client() = default;

RLCORE_INLINE http_answer http_client::post(const std::string& path, const std::string& body,
                                            const std::string& api_key) {
  httplib::Headers headers;
  if (!api_key.empty()) headers.emplace("Authorization", "Bearer " + api_key);
  const httplib::Result answer = connection_->Post(path, headers, body, "application/json");
  if (!answer) throw error(connection_->server + " does not answer: " + httplib::to_string(answer.error()));
  return {answer->status, answer->reason, answer->body};
}

}  // namespace serving
RLCORE_END
#endif
