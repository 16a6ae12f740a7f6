// HTTP endpoints of the server.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/endpoints.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/serving/web_page.hpp"
#include "rlcore/serving/weight_control.hpp"

RLCORE_BEGIN
namespace serving {

/// Constant-time comparison: the time depends only on the length of the first text.
bool equal_in_constant_time(std::string_view given, std::string_view secret) noexcept;

/// Endpoints that change the weights of a server; none without `control`.
struct weight_endpoints {
  weight_control* control = nullptr;
  bool adapters = false, development = false;
};

/// Answers requests; any number of threads may call it at once.
class service {
 public:
  /// With `keys`, paths under /v1 need one of them as a bearer token. `page` is the page at /; empty: none.
  explicit service(context& shared, std::vector<std::string> keys = {}, std::string_view page = {},
                   weight_endpoints weights = {})
      : shared_(shared), keys_(std::move(keys)), page_(page), weights_(weights) {}

  /// The response to a request; never throws on client errors.
  http_response operator()(const http_request& request);
  /// The response to a request that its head decides, without its body: an unknown path, another method, a missing key,
  /// another type of body. Empty: its body has to be read.
  std::optional<http_response> refusal(const http_request& head) const;

 private:
  using answer_function = http_response (service::*)(const http_request&);
  struct endpoint {
    std::string_view path, method;
    answer_function answer;
  };
  static constexpr std::size_t endpoint_count = 20;
  static std::span<const endpoint> endpoints();

  /// Null: the second is the response.
  std::pair<const endpoint*, http_response> find(const http_request& head) const;

  static bool is_development(const endpoint& e) {
    return e.answer == &service::update_weights || e.answer == &service::is_sleeping ||
           (may_be_empty(e) && e.answer != &service::health);
  }
  static bool may_be_empty(const endpoint& e) {
    return e.answer == &service::health || e.answer == &service::sleep || e.answer == &service::wake_up ||
           e.answer == &service::reset_prefix_cache;
  }
  bool available(const endpoint& e) const {
    return is_development(e) ? weights_.development : weights_.adapters || !e.path.ends_with("load_lora_adapter");
  }

  bool authorised(const http_request& request) const;
  static std::string unauthorised() { return text::json_text(json{{"error", "Unauthorized"}}); }

  static std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return lower;
  }
  /// The problem of a body's type; empty if it is that of JSON.
  static std::string content_type_problem(const http_request& request);

  /// Parses a body, calls `read` with its fields, and responds with the result.
  template <class Read>
  http_response answer(const http_request& request, Read&& read) {
    const json body = parse_body(request.body);
    body_fields fields(body);
    return read(fields);
  }

  http_response completions(const http_request& request);
  http_response chat_completions(const http_request& request);
  http_response tokenize(const http_request& request) {
    return answer(request, [&](body_fields& f) { return json_response(tokenized(shared_, f, request.connected)); });
  }
  http_response detokenize(const http_request& request) {
    return answer(request, [&](body_fields& f) { return json_response(detokenized(shared_, f)); });
  }

  http_response load_lora_adapter(const http_request& request);
  http_response unload_lora_adapter(const http_request& request);
  http_response update_weights(const http_request& request);
  http_response sleep(const http_request& request);
  http_response wake_up(const http_request& request);
  http_response is_sleeping(const http_request&) {
    return json_response({{"is_sleeping", weights_.control->sleeping()}});
  }
  http_response reset_prefix_cache(const http_request&) {
    weights_.control->forget_prefixes();
    return {.content_type = ""};
  }
  static http_response text_response(std::string text) {
    return {.body = std::move(text), .content_type = "text/plain; charset=utf-8"};
  }

  http_response models(const http_request&);
  json card(const std::string& name, const served_weights& weights, json parent) const;
  json permission(const std::string& name) const;

  http_response health(const http_request&) {
    return {.status = shared_.load().broken ? 503 : 200, .content_type = ""};
  }
  http_response version(const http_request&) { return json_response({{"version", RLCORE_VERSION_STRING}}); }
  http_response show_metrics(const http_request&) {
    return {.body = shared_.counts.text(shared_.load(), shared_.model.names.front()),
            .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  http_response show_load(const http_request&) { return json_response({{"server_load", shared_.requests.load()}}); }
  http_response openapi(const http_request&) { return {.body = std::string(openapi_description)}; }
  http_response page(const http_request&);

  context& shared_;
  std::vector<std::string> keys_;
  std::string_view page_;
  weight_endpoints weights_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE bool equal_in_constant_time(std::string_view given, std::string_view secret) noexcept {
  unsigned difference = given.size() == secret.size() ? 0u : 1u;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned>(secret.empty() ? 1 : static_cast<unsigned char>(secret[i % secret.size()]));
  return difference == 0;
}

RLCORE_INLINE http_response service::operator()(const http_request& request) {
  try {
    auto [to, refused] = find(request);
    if (to == nullptr) return std::move(refused);
    if (to->method == "POST" && to->answer != &service::health && (!request.body.empty() || !may_be_empty(*to)))
      if (const std::string problem = content_type_problem(request); !problem.empty()) throw invalid_body(problem);
    return (this->*to->answer)(request);
  } catch (const client_gone&) {
    return {.status = 499, .content_type = "", .reason = "Client Closed Request"};
  } catch (const api_error& e) {
    return error_response(e);
  } catch (const std::exception& e) {
    shared_.log(std::string("a request failed: ") + one_line(e.what()));
    return error_response(api_error(500, "InternalServerError", e.what()));
  }
}

RLCORE_INLINE auto service::endpoints() -> std::span<const endpoint> {
  static constexpr std::array<endpoint, endpoint_count> table{{
      {"/v1/models", "GET", &service::models},
      {"/v1/completions", "POST", &service::completions},
      {"/v1/chat/completions", "POST", &service::chat_completions},
      {"/v1/load_lora_adapter", "POST", &service::load_lora_adapter},
      {"/v1/unload_lora_adapter", "POST", &service::unload_lora_adapter},
      {"/update_weights", "POST", &service::update_weights},
      {"/sleep", "POST", &service::sleep},
      {"/wake_up", "POST", &service::wake_up},
      {"/is_sleeping", "GET", &service::is_sleeping},
      {"/reset_prefix_cache", "POST", &service::reset_prefix_cache},
      {"/tokenize", "POST", &service::tokenize},
      {"/detokenize", "POST", &service::detokenize},
      {"/health", "GET", &service::health},
      {"/ping", "GET", &service::health},
      {"/ping", "POST", &service::health},
      {"/version", "GET", &service::version},
      {"/metrics", "GET", &service::show_metrics},
      {"/load", "GET", &service::show_load},
      {"/openapi.json", "GET", &service::openapi},
      {"/", "GET", &service::page},
  }};
  return table;
}

RLCORE_INLINE auto service::find(const http_request& head) const -> std::pair<const endpoint*, http_response> {
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string allowed;  // methods of this path
  for (const endpoint& e : endpoints()) {
    if (e.path != head.path || !available(e)) continue;
    allowed += (allowed.empty() ? "" : ", ") + std::string(e.method) + (e.method == "GET" ? ", HEAD" : "");
    if (e.method != method) continue;
    if ((head.path.starts_with("/v1") || is_development(e)) && !authorised(head))
      return {nullptr, {.status = 401, .body = unauthorised()}};
    if (e.answer != &service::page || !page_.empty()) return {&e, {}};
  }
  if (allowed.empty() || head.path == "/") return {nullptr, json_response({{"detail", "Not Found"}}, 404)};
  http_response refused = json_response({{"detail", "Method Not Allowed"}}, 405);
  refused.headers.emplace_back("Allow", allowed);
  return {nullptr, std::move(refused)};
}

RLCORE_INLINE std::optional<http_response> service::refusal(const http_request& head) const {
  auto [to, refused] = find(head);
  if (to == nullptr) return std::move(refused);
  if (to->method != "POST" || may_be_empty(*to)) return std::nullopt;
  const std::string problem = content_type_problem(head);
  return problem.empty() ? std::nullopt : std::optional(error_response(invalid_body(problem)));
}

RLCORE_INLINE bool service::authorised(const http_request& request) const {
  if (keys_.empty()) return true;
  constexpr std::string_view scheme = "bearer ";
  const std::string_view given = request.authorization;
  if (lower_case(given.substr(0, scheme.size())) != scheme) return false;
  bool found = false;
  for (const std::string& key : keys_) found |= equal_in_constant_time(given.substr(scheme.size()), key);
  return found;
}

RLCORE_INLINE std::string service::content_type_problem(const http_request& request) {
  std::string type = request.content_type.substr(0, request.content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  type = lower_case(type);
  return type == "application/json"
             ? ""
             : "Unsupported Media Type: expected Content-Type: application/json, found '" + type + "'";
}

/// Scripts and styles run with the response's nonce alone, so that no text of a model becomes one.
RLCORE_INLINE http_response service::page(const http_request&) {
  std::random_device random;
  std::string nonce;
  for (int i = 0; i < 4; ++i) nonce += std::to_string(random()) + "-";
  std::string html(page_);
  for (const std::string tag : {"<script", "<style"})
    if (const std::size_t at = html.find(tag); at != html.npos)
      html.insert(at + tag.size(), " nonce=\"" + nonce + "\"");
  return {.body = std::move(html),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
                           "'; img-src data: blob:; connect-src http: https:; base-uri 'none'; form-action 'none'; "
                           "frame-ancestors 'none'"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"}}};
}

RLCORE_INLINE http_response service::completions(const http_request& request) {
  return answer(request, [&](body_fields& f) {
    const completion_request r = read_completion_request(f, shared_.model.defaults);
    shared_.note_unknown(f);
    return respond(begin_completion(shared_, r, request.connected), r.fields.stream, request.connected);
  });
}

RLCORE_INLINE http_response service::chat_completions(const http_request& request) {
  return answer(request, [&](body_fields& f) {
    const chat_request r = read_chat_request(f, shared_.model.defaults, shared_.model.features);
    shared_.note_unknown(f);
    return respond(begin_chat(shared_, r, request.connected), r.fields.stream, request.connected);
  });
}

RLCORE_INLINE http_response service::load_lora_adapter(const http_request& request) {
  return answer(request, [&](body_fields& f) {
    const std::string name = f.string("lora_name").value_or(""), path = f.string("lora_path").value_or("");
    const bool in_place = f.boolean("load_inplace", false);
    f.ignore({"base_model_name"});
    shared_.note_unknown(f);
    if (name.empty() || path.empty())
      throw api_error(400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided.");
    weights_.control->load_adapter(name, path, in_place, request.connected);
    return text_response("Success: LoRA adapter '" + name + "' added successfully.");
  });
}

RLCORE_INLINE http_response service::unload_lora_adapter(const http_request& request) {
  return answer(request, [&](body_fields& f) {
    const std::string name = f.string("lora_name").value_or("");
    f.ignore({"lora_int_id"});
    shared_.note_unknown(f);
    if (name.empty())
      throw api_error(400, "InvalidUserInput", "'lora_name' needs to be provided to unload a LoRA adapter.");
    weights_.control->unload_adapter(name);
    return text_response("Success: LoRA adapter '" + name + "' removed successfully.");
  });
}

RLCORE_INLINE http_response service::update_weights(const http_request& request) {
  return answer(request, [&](body_fields& f) {
    const std::string model = f.string("model").value_or(""), mode = f.string("mode").value_or("wait");
    shared_.note_unknown(f);
    if (model.empty()) throw bad_request("model: expected a folder of weights, found none");
    if (mode != "wait" && mode != "keep") throw bad_request("mode: expected wait or keep, found '" + mode + "'");
    weights_.control->update_weights(model, mode == "keep", request.connected);
    return json_response(
        {{"model", shared_.own->origin().folder}, {"system_fingerprint", shared_.own->origin().fingerprint}});
  });
}

RLCORE_INLINE http_response service::sleep(const http_request& request) {
  for (const auto& [name, value] : request.query)
    if (name != "level" || value != "1")
      throw bad_request(name + "=" + value + ": expected level=1, which keeps the weights");
  weights_.control->sleep(request.connected);
  return {.content_type = ""};
}

RLCORE_INLINE http_response service::wake_up(const http_request& request) {
  if (!request.query.empty())
    throw bad_request(request.query[0].first + ": expected no parameter; all of the server wakes up");
  weights_.control->wake_up();
  return {.content_type = ""};
}

RLCORE_INLINE http_response service::models(const http_request&) {
  json list = json::array();
  for (const std::string& name : shared_.model.names) list.push_back(card(name, *shared_.own, nullptr));
  for (const auto& [name, weights] : shared_.adapters())
    list.push_back(card(name, *weights, shared_.model.names.front()));
  return json_response({{"object", "list"}, {"data", std::move(list)}});
}

RLCORE_INLINE json service::card(const std::string& name, const served_weights& weights, json parent) const {
  return {{"id", name},
          {"object", "model"},
          {"created", shared_.model.created},
          {"owned_by", "rlcore"},
          {"root", weights.origin().folder},
          {"parent", std::move(parent)},
          {"max_model_len", shared_.model.max_length},
          {"permission", json::array({permission(name)})}};
}

RLCORE_INLINE json service::permission(const std::string& name) const {
  return {{"id", "modelperm-" + name},
          {"object", "model_permission"},
          {"created", shared_.model.created},
          {"allow_create_engine", false},
          {"allow_sampling", true},
          {"allow_logprobs", true},
          {"allow_search_indices", false},
          {"allow_view", true},
          {"allow_fine_tuning", false},
          {"organization", "*"},
          {"group", nullptr},
          {"is_blocking", false}};
}

}  // namespace serving
RLCORE_END
#endif
