// The bodies of answers, and the events of streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

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
