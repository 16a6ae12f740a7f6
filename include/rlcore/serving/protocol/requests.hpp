// Requests of /v1/chat/completions (messages, content parts, tools) and /v1/completions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

/// An image of a conversation as it was sent.
struct sent_image {
  std::string where;     ///< "messages[0].content[1]"
  std::string_view url;  ///< in the body, which must outlive it
};

namespace detail {

/// A member that exists and is not null.
inline const json* member_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The URL of a part {"type": "image_url", "image_url": {"url"}}, {"type": "input_image", "image_url"}, or one of these
/// without a type. Further members (detail, uuid) are ignored. Throws api_error.
std::string_view url_of(const json& part, const std::string& where);

}  // namespace detail

/// Reads a content in parts; its images are appended to `images`. Throws api_error 400 that names the part.
std::vector<text::message_part> read_parts(const json& parts, const std::string& where,
                                           std::vector<sent_image>& images);

/// The texts of parts as one, joined by line ends, as vLLM does for templates that take texts.
std::string joined_texts(const std::vector<text::message_part>& parts);

/// Tool calling and reasoning features of the server.
struct chat_features {
  bool tool_calls = false;           ///< --enable-auto-tool-choice with a --tool-call-parser
  bool tools_without_choice = true;  ///< tools are rendered with tool_choice=none, too
  bool request_templates = false;    ///< --trust-request-chat-template
  bool images = false;               ///< the model has a vision tower
  std::size_t most_images = 16;      ///< of a request: --limit-mm-per-prompt
};

/// A conversation and how its next turn is opened. A message sent in parts keeps them, with their joined texts as its
/// content.
struct conversation {
  std::vector<text::message> messages;
  std::vector<sent_image> images;  ///< in the order of their places
  text::render_options options;
  bool continue_final_message = false;
  std::string chat_template;  ///< the request's own; empty: the model's
};

/// A conversation and how to continue it.
struct chat_request {
  sampling_fields fields;
  conversation talk;
  bool parse_tool_calls = false, include_reasoning = true;
};

namespace detail {

/// A message as templates expect it: call arguments as JSON instead of its text, no null members, no content in parts.
json plain_message(const json& sent, const std::string& where);

void read_template_fields(body_fields& f, const chat_features& features, conversation& talk);

void read_tools(body_fields& f, const chat_features& features, chat_request& r);

}  // namespace detail

/// The messages of a body. Throws api_error 400 that names the message.
void read_messages(body_fields& f, const chat_features& features, conversation& talk);

/// Reads a body. Throws api_error 400 that names the field.
chat_request read_chat_request(body_fields& f, const request_defaults& by_default, const chat_features& features);

/// A prompt as it was sent: a text or token ids.
using sent_prompt = std::variant<std::string, std::vector<std::int32_t>>;

/// Its prompts and how to continue them.
struct completion_request {
  sampling_fields fields;
  std::vector<sent_prompt> prompts;
  bool echo = false;
  bool shows_prompt_logprobs = false;  ///< apart from those of an echo
};

/// A string, a list of strings, a list of ids, or a list of such lists. Throws api_error 400 for anything else and for
/// prompts without content.
std::vector<sent_prompt> read_prompts(body_fields& f);

/// Reads a body. Throws api_error 400 that names the field.
completion_request read_completion_request(body_fields& f, const request_defaults& by_default);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE std::string_view url_of(const json& part, const std::string& where) {
  const json* url = member_of(part, "image_url");
  if (url != nullptr && url->is_object()) url = member_of(*url, "url");
  if (url == nullptr || !url->is_string())
    throw invalid_body(where + R"( has no URL; expected {"type": "image_url", "image_url": {"url": "data:..."}})");
  return url->get_ref<const std::string&>();
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::vector<text::message_part> read_parts(const json& parts, const std::string& where,
                                                         std::vector<sent_image>& images) {
  std::vector<text::message_part> read;
  for (const json& part : parts) {
    const std::string place = where + "[" + std::to_string(read.size()) + "]";
    if (!part.is_object()) throw invalid_body(place + R"( is no object; expected {"type": "text", "text"})");
    const json* type = detail::member_of(part, "type");
    if (type == nullptr && detail::member_of(part, "image_url") == nullptr) throw invalid_body(place + " has no type");
    if (type != nullptr && !type->is_string()) throw invalid_body(place + ".type is no string");
    const std::string name = type == nullptr ? "image_url" : type->get<std::string>();
    if (name == "image_url" || name == "input_image") {
      images.push_back({place, detail::url_of(part, place)});
      read.push_back({"", true});
      continue;
    }
    if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal")
      throw bad_request(place + " is of type '" + name + "'; expected text, input_text, refusal or image_url");
    const json* content = detail::member_of(part, name == "refusal" ? "refusal" : "text");
    if (content == nullptr || !content->is_string()) throw invalid_body(place + " has no text");
    read.push_back({content->get<std::string>()});
  }
  return read;
}

RLCORE_INLINE std::string joined_texts(const std::vector<text::message_part>& parts) {
  std::string text;
  bool first = true;
  for (const text::message_part& p : parts) {
    if (p.image) continue;
    text += (first ? "" : "\n") + p.text;
    first = false;
  }
  return text;
}

}  // namespace serving

namespace serving::detail {

RLCORE_INLINE json plain_message(const json& sent, const std::string& where) {
  if (!sent.is_object()) throw invalid_body(where + ": expected an object, found " + sent.type_name());
  json m = json::object();
  for (const auto& [key, value] : sent.items())
    if (!value.is_null() && !(key == "content" && value.is_array())) m[key] = value;
  if (!m.contains("role") || !m["role"].is_string())
    throw invalid_body(where + ".role: expected one of system, developer, user, assistant and tool");
  const std::string role = m["role"];
  if (role != "system" && role != "developer" && role != "user" && role != "assistant" && role != "tool")
    throw bad_request(where + ".role: '" + role + "' is unknown; expected system, developer, user, assistant or tool");
  // Response members beside the text, which OpenAI's clients send back.
  for (const char* key : {"refusal", "annotations", "audio", "function_call"}) m.erase(key);
  if (m.contains("reasoning") && !m.contains("reasoning_content")) m["reasoning_content"] = m["reasoning"];
  m.erase("reasoning");
  const auto calls = m.find("tool_calls");
  if (calls == m.end() || !calls->is_array()) return m;
  for (json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    json& function = call["function"];
    if (!function.contains("arguments") || function["arguments"].is_null() || function["arguments"] == "")
      function["arguments"] = json::object();
    if (!function["arguments"].is_string()) continue;
    json arguments = text::try_parse_json<json>(function["arguments"].get_ref<const std::string&>());
    if (arguments.is_discarded()) throw bad_request(where + ".tool_calls: the arguments of a call are no JSON");
    function["arguments"] = arguments.is_null() ? json::object() : std::move(arguments);
  }
  if (calls->empty()) m.erase("tool_calls");
  return m;
}

RLCORE_INLINE void read_template_fields(body_fields& f, const chat_features& features, conversation& talk) {
  talk.options.add_generation_prompt = f.boolean("add_generation_prompt", true);
  talk.continue_final_message = f.boolean("continue_final_message", false);
  if (talk.continue_final_message && talk.options.add_generation_prompt) {
    if (f.find("add_generation_prompt") != nullptr)
      throw bad_request("continue_final_message and add_generation_prompt cannot both be true");
    throw bad_request("continue_final_message needs add_generation_prompt=false");
  }
  talk.chat_template = f.string("chat_template").value_or("");
  if (!talk.chat_template.empty() && !features.request_templates)
    throw bad_request("chat_template: requests may bring a template only with --trust-request-chat-template");
  f.refuse_unless("documents", "null", "templates with documents are not in this server");
  f.refuse_unless("media_io_kwargs", "null", "there is nothing to set");
  f.refuse_unless("mm_processor_kwargs", "null", "start the server with --mm-processor-kwargs");
  if (const json* kwargs = f.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) body_fields::wrong("chat_template_kwargs", "an object", *kwargs);
    body_fields inner(*kwargs);
    if (inner.find("enable_thinking") != nullptr) talk.options.enable_thinking = inner.boolean("enable_thinking", true);
    talk.options.add_vision_id = inner.boolean("add_vision_id", false);
    for (const std::string& name : inner.unknown()) {  // the template refuses what it does not read
      for (const char* own : {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
                              "chat_template", "tokenize"})
        if (name == own) throw bad_request("chat_template_kwargs: '" + name + "' belongs beside messages");
      talk.options.variables[name] = (*kwargs)[name];
    }
  }
}

RLCORE_INLINE void read_tools(body_fields& f, const chat_features& features, chat_request& r) {
  const json* tools = f.find("tools");
  if (tools != nullptr && !tools->is_array()) body_fields::wrong("tools", "a list of tools", *tools);
  const bool any = tools != nullptr && !tools->empty();
  std::string choice = any ? "auto" : "none";
  if (const json* v = f.find("tool_choice")) {
    if (!v->is_string() && !v->is_object()) body_fields::wrong("tool_choice", "none, auto or a function", *v);
    choice = v->is_string() ? v->get<std::string>() : "a named function";
  }
  f.ignore({"parallel_tool_calls"});
  f.refuse_unless("functions", "null", "expected tools");
  f.refuse_unless("function_call", "null", "expected tool_choice");
  if (choice != "auto" && choice != "none")
    throw bad_request("tool_choice: " + choice + " is not supported: constrained output is not in this server; " +
                      "expected auto or none");
  if (choice == "auto" && !any) throw bad_request("tool_choice: auto needs tools");
  if (choice == "auto" && !features.tool_calls)
    throw bad_request("tool_choice: auto needs a server with --enable-auto-tool-choice and --tool-call-parser hermes");
  r.parse_tool_calls = choice == "auto";
  if (!any || (choice == "none" && !features.tools_without_choice)) return;
  for (const json& tool : *tools) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object() ||
        !tool["function"].contains("name") || !tool["function"]["name"].is_string())
      throw invalid_body("tools: expected {\"type\": \"function\", \"function\": {\"name\", ...}}");
    r.talk.options.tools.push_back(tool);
  }
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE void read_messages(body_fields& f, const chat_features& features, conversation& talk) {
  const json* v = f.find("messages");
  if (v == nullptr) throw invalid_body("messages: expected a list of messages, found none");
  if (!v->is_array()) body_fields::wrong("messages", "a list of messages", *v);
  if (v->empty()) throw bad_request("messages: the list is empty; expected at least one message");
  const auto where = [](std::size_t i) { return "messages[" + std::to_string(i) + "]"; };
  json plain = json::array();
  for (std::size_t i = 0; i < v->size(); ++i) plain.push_back(detail::plain_message((*v)[i], where(i)));
  try {
    talk.messages = text::messages_from_json(plain);
  } catch (const data_error& e) {
    throw invalid_body(e.what());
  }
  for (std::size_t i = 0; i < v->size(); ++i) {
    const json* content = detail::member_of((*v)[i], "content");
    if (content == nullptr || !content->is_array()) continue;
    text::message& m = talk.messages[i];
    m.parts = read_parts(*content, where(i) + ".content", talk.images);
    m.content = joined_texts(m.parts);
  }
  if (talk.images.empty()) return;
  if (!features.images)
    throw bad_request(talk.images[0].where +
                      " is an image, but this model reads texts only: its config.json has no vision_config");
  if (talk.images.size() > features.most_images)
    throw bad_request(talk.images[features.most_images].where + " is image " +
                      std::to_string(features.most_images + 1) + " of the request; expected at most " +
                      std::to_string(features.most_images) + " (--limit-mm-per-prompt)");
}

RLCORE_INLINE chat_request read_chat_request(body_fields& f, const request_defaults& by_default,
                                             const chat_features& features) {
  chat_request r;
  read_messages(f, features, r.talk);
  r.fields = read_sampling_fields(f, by_default);
  detail::read_template_fields(f, features, r.talk);
  detail::read_tools(f, features, r);
  r.fields.add_special_tokens = f.boolean("add_special_tokens", false);
  const auto older = f.integer("max_tokens"), newer = f.integer("max_completion_tokens");
  r.fields.max_tokens = newer ? newer : older;
  check_max_tokens(r.fields, 1);
  const bool wanted = f.boolean("logprobs", false);
  const auto top = f.integer("top_logprobs");
  if (top && (*top < 0 || *top > by_default.max_logprobs))
    throw bad_request("top_logprobs must be between 0 and " + std::to_string(by_default.max_logprobs) +
                      " (--max-logprobs), got " + std::to_string(*top));
  if (top.value_or(0) > 0 && !wanted) throw bad_request("top_logprobs need logprobs=true");
  if (wanted) r.fields.logprobs = static_cast<std::int32_t>(top.value_or(0));
  f.refuse_unless("echo", "false", "an answer of a conversation does not repeat it");
  f.refuse_unless("best_of", std::to_string(r.fields.n), "it must equal n");
  r.include_reasoning = f.boolean("include_reasoning", true);
  return r;
}

RLCORE_INLINE std::vector<sent_prompt> read_prompts(body_fields& f) {
  const json* v = f.find("prompt");
  if (v == nullptr) throw invalid_body("prompt: expected a string or a list, found none");
  std::vector<sent_prompt> prompts;
  if (v->is_string()) {
    prompts.emplace_back(v->get<std::string>());
  } else if (!v->is_array()) {
    body_fields::wrong("prompt", "a string, or a list of strings, of token ids or of lists of token ids", *v);
  } else if (!v->empty() && v->front().is_number()) {
    prompts.emplace_back(f.token_ids_of("prompt", *v));
  } else {
    for (const json& item : *v) {
      if (item.is_string() != v->front().is_string())
        throw invalid_body("prompt: expected a list of strings or a list of lists of token ids, found both");
      if (item.is_string())
        prompts.emplace_back(item.get<std::string>());
      else
        prompts.emplace_back(f.token_ids_of("prompt", item));
    }
  }
  if (prompts.empty()) throw bad_request("prompt: the list is empty; expected at least one prompt");
  for (const sent_prompt& p : prompts)
    if (std::visit([](const auto& content) { return content.empty(); }, p))
      throw bad_request("prompt: a prompt is empty; expected at least one token");
  return prompts;
}

RLCORE_INLINE completion_request read_completion_request(body_fields& f, const request_defaults& by_default) {
  completion_request r;
  r.prompts = read_prompts(f);
  r.fields = read_sampling_fields(f, by_default);
  r.echo = f.boolean("echo", false);
  f.refuse_unless("suffix", "null", "this server does not fill in the middle");
  r.fields.add_special_tokens = f.boolean("add_special_tokens", true);
  r.fields.max_tokens = f.integer("max_tokens");
  if (!f.has("max_tokens")) r.fields.most_tokens = std::min<std::int64_t>(r.fields.most_tokens, 16);
  check_max_tokens(r.fields, r.echo ? 0 : 1);
  if (const auto k = f.integer("logprobs")) {
    if (*k < 0 || *k > by_default.max_logprobs)
      throw bad_request("logprobs must be between 0 and " + std::to_string(by_default.max_logprobs) +
                        " (--max-logprobs), got " + std::to_string(*k));
    r.fields.logprobs = static_cast<std::int32_t>(*k);
  }
  r.shows_prompt_logprobs = r.fields.prompt_logprobs.has_value();
  if (r.echo && r.fields.logprobs && !r.fields.prompt_logprobs) r.fields.prompt_logprobs = r.fields.logprobs;
  if (const auto best = f.integer("best_of"); best && *best != r.fields.n)
    throw bad_request("best_of is not supported: it must equal n, got " + std::to_string(*best));
  if (r.prompts.size() > static_cast<std::size_t>(most_choices / r.fields.n))
    throw bad_request("prompt: " + std::to_string(r.prompts.size()) + " prompts with n=" + std::to_string(r.fields.n) +
                      " are more than " + std::to_string(most_choices) + " choices");
  return r;
}

}  // namespace serving
RLCORE_END
#endif
