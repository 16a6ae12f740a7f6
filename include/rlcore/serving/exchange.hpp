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

/// What came over a connection.
struct http_request {
  std::string method, path, body{}, content_type{}, authorization{};
  std::function<bool()> connected{};  ///< whether the client is still there; empty: it is
  std::vector<std::pair<std::string, std::string>> query{};
};

/// Sends a part of a streamed body; false when the client does not take it.
using body_writer = std::function<bool(std::string_view)>;

/// What goes back. A response with `stream` has no body: the function writes it piece by piece.
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
/// An error as vLLM words it; its message also stands in the status line, since some clients show nothing else.
inline http_response error_response(const api_error& e) {
  http_response r = json_response(e.body(), e.status);
  r.reason = std::string(phrase_of(e.status)) + ": " + e.what();
  return r;
}

}  // namespace serving
RLCORE_END
