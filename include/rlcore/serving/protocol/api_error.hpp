// API errors: status and body as in vLLM.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

/// Bodies keep the order of their keys, as clients print them.
using json = nlohmann::ordered_json;

/// The phrase of a status line; "Error" for a status that this server does not give.
constexpr std::string_view phrase_of(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 416:
      return "Range Not Satisfiable";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

/// A failed request. `type` is vLLM's name for the kind of error.
struct api_error : error {
  int status;
  std::string type;

  /// An error of this status and kind, with one line for the client.
  api_error(int code, std::string kind, std::string_view message)
      : error(message), status(code), type(std::move(kind)) {}

  /// {"error": {"message", "type", "param", "code"}}.
  json body() const { return {{"error", {{"message", what()}, {"type", type}, {"param", nullptr}, {"code", status}}}}; }
};

/// An invalid value: 400 with the kind BadRequestError.
inline api_error bad_request(std::string_view message) { return {400, "BadRequestError", message}; }
/// A body that does not fit its schema: 400 with the kind "Bad Request", as validation reports it.
inline api_error invalid_body(std::string_view message) { return {400, std::string(phrase_of(400)), message}; }
/// A model or adapter that is not served: 404.
inline api_error not_found(std::string_view message) { return {404, "NotFoundError", message}; }

/// Thrown when the client has closed its connection.
struct client_gone : error {
  client_gone() : error("the client has closed its connection") {}
};

}  // namespace serving
RLCORE_END
