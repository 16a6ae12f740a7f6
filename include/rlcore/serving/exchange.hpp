// A request and its response as the endpoints see them: without sockets.
#pragma once

#include <functional>
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

}  // namespace serving
RLCORE_END
