// Errors and responses of the API as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
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
    case 403:
      return "Forbidden";
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

/// Common members of all bodies and events of a response.
struct answer_name {
  std::string id, model, fingerprint;
  std::int64_t created = 0;
};

/// Prompt and completion tokens, as in stream events.
inline json usage_body(std::size_t prompt, std::size_t completion) {
  return {{"prompt_tokens", prompt}, {"total_tokens", prompt + completion}, {"completion_tokens", completion}};
}

/// The beginning of a body: id, object, created, model, choices.
inline json answer_body(const answer_name& name, const char* object, json choices) {
  return {{"id", name.id},
          {"object", object},
          {"created", name.created},
          {"model", name.model},
          {"choices", std::move(choices)}};
}

/// The rest of a body that is not streamed.
inline void finish_body(json& body, const answer_name& name, json usage) {
  body["service_tier"] = nullptr;
  body["system_fingerprint"] = name.fingerprint.empty() ? json(nullptr) : json(name.fingerprint);
  body["usage"] = std::move(usage);
  body["usage"]["prompt_tokens_details"] = nullptr;
}

/// A message of an assistant as an answer has it.
inline json message_body(const std::string& role) {
  return {
      {"role", role},     {"content", nullptr},       {"refusal", nullptr},          {"annotations", nullptr},
      {"audio", nullptr}, {"function_call", nullptr}, {"tool_calls", json::array()}, {"reasoning_content", nullptr}};
}

/// A server-sent event with a JSON value.
inline std::string event_of(const json& value) { return "data: " + text::json_text(value) + "\n\n"; }
/// The last event of every stream.
inline constexpr const char* done_event = "data: [DONE]\n\n";

}  // namespace serving
RLCORE_END
