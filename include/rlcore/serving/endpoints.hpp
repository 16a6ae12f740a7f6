// The endpoints that read prompts: /v1/chat/completions, /v1/completions, /tokenize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/protocol/log_probs.hpp"
#include "rlcore/serving/protocol/requests.hpp"
#include "rlcore/serving/reply.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/serving/text_stream.hpp"

RLCORE_BEGIN
namespace serving {

/// Assistant messages: reasoning, content and tool calls.
class chat_reply final : public reply {
 public:
  /// The messages drawn by `jobs`, one per choice. `images` holds the memory of their images, `images_hash` is a
  /// hash of the images.
  chat_reply(context& shared, admission entered, const chat_request& request, std::vector<rollout::job> jobs,
             std::unique_ptr<held_bytes> images, std::uint64_t images_hash)
      : reply(shared, std::move(entered), request.fields, std::move(jobs), "chatcmpl-", images_hash),
        shared_(shared),
        images_(std::move(images)),
        parse_tool_calls_(request.parse_tool_calls),
        include_reasoning_(request.include_reasoning) {
    for (std::int64_t i = 0; i < fields().n; ++i)
      choices_.push_back({reasoning_splitter(shared.model.reasoning), tool_call_parser(), {}, 0});
  }

 private:
  struct choice_state {
    reasoning_splitter reasoning;
    tool_call_parser tools;
    std::vector<scored_token> held;  ///< tokens whose text is not shown yet
    std::size_t calls;
  };
  /// The delta of a piece.
  struct addition {
    std::string reasoning, content;
    json calls = json::array();
  };

  const char* object() const override { return "chat.completion"; }
  const char* event_object() const override { return "chat.completion.chunk"; }

  std::vector<json> opening(std::size_t choice) override;

  addition split(const text_piece& piece);

  json log_probs(const std::vector<scored_token>& tokens) const {
    return fields().logprobs ? chat_log_probs(model().tokenizer, tokens, *fields().logprobs, fields().tokens_as_ids)
                             : json(nullptr);
  }
  /// The end of a choice: "tool_calls" if it has called one and ended by itself.
  void add_end(const text_piece& piece, json& choice) const;

  json choice_body(text_piece& whole) override;

  std::optional<json> choice_event(text_piece& piece) override;

  void add_to_body(json& body) override {
    body["prompt_logprobs"] = prompt_logprobs(0);
    body["prompt_token_ids"] = fields().return_token_ids ? json(prompt(0)) : json(nullptr);
    body["kv_transfer_params"] = nullptr;
  }
  void add_to_event(json& event, std::size_t, bool opens) override {
    if (opens) event["prompt_token_ids"] = fields().return_token_ids ? json(prompt(0)) : json(nullptr);
  }

  context& shared_;
  std::unique_ptr<held_bytes> images_;
  bool parse_tool_calls_, include_reasoning_;
  std::vector<choice_state> choices_;
};

/// Begins to answer a request, as soon as its weights can be used. Throws api_error, client_gone.
std::shared_ptr<reply> begin_chat(context& shared, const chat_request& request,
                                  const std::function<bool()>& connected = {});

/// Texts with, on request, the prompt in front.
class completion_reply final : public reply {
 public:
  /// The texts that `jobs` draw, in the order of make_jobs().
  completion_reply(context& shared, admission entered, const completion_request& request,
                   std::vector<rollout::job> jobs);

 private:
  struct choice_state {
    completion_log_probs log_probs;
    std::string echo{};
    bool echoes_sent = false;  ///< the echo is the text of the request
    bool begun = false;
  };

  const char* object() const override { return "text_completion"; }
  const char* event_object() const override { return "text_completion"; }
  std::vector<json> opening(std::size_t) override { return {}; }

  json choice_body(text_piece& whole) override {
    json choice = *choice_event(whole);
    choice["prompt_logprobs"] = shows_prompt_logprobs_ ? prompt_logprobs(whole.choice) : json(nullptr);
    return choice;
  }

  std::optional<json> choice_event(text_piece& piece) override;

  void add_to_body(json& body) override { body["kv_transfer_params"] = nullptr; }
  void add_to_event(json& event, std::size_t, bool) override;

  bool echo_, shows_prompt_logprobs_;
  std::vector<choice_state> choices_;
};

/// Begins to answer a request, as soon as its weights can be used. Throws api_error, client_gone.
std::shared_ptr<reply> begin_completion(context& shared, const completion_request& request,
                                        const std::function<bool()>& connected = {});

/// {prompt} or {messages} as tokens: {"count", "max_model_len", "tokens", "token_strs"}. Throws api_error,
/// client_gone.
json tokenized(context& shared, body_fields& f, const std::function<bool()>& connected = {});

/// {tokens} as text: {"prompt"}. Throws api_error.
json detokenized(context& shared, body_fields& f);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::vector<json> chat_reply::opening(std::size_t choice) {
  return {{{"index", choice},
           {"delta", {{"role", model().response_role}, {"content", ""}}},
           {"logprobs", nullptr},
           {"finish_reason", nullptr}}};
}

RLCORE_INLINE auto chat_reply::split(const text_piece& piece) -> addition {
  choice_state& state = choices_[piece.choice];
  const bool last = piece.end.has_value();
  split_text parts = state.reasoning.push(piece.text, last);
  addition out;
  if (include_reasoning_) out.reasoning = std::move(parts.reasoning);
  if (!parse_tool_calls_) {
    out.content = std::move(parts.content);
    return out;
  }
  text_and_calls found = state.tools.push(parts.content, last);
  out.content = std::move(found.content);
  for (called_tool& call : found.calls) {
    out.calls.push_back({{"id", shared_.unique_id("chatcmpl-tool-", "")},
                         {"type", "function"},
                         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    if (fields().stream) out.calls.back()["index"] = state.calls;
    ++state.calls;
  }
  return out;
}

RLCORE_INLINE void chat_reply::add_end(const text_piece& piece, json& choice) const {
  if (!piece.end) {
    choice["finish_reason"] = nullptr;
    return;
  }
  const bool called = choices_[piece.choice].calls > 0 && piece.end->finish_reason == "stop";
  choice["finish_reason"] = called ? "tool_calls" : piece.end->finish_reason;
  choice["stop_reason"] = piece.end->stop_reason;
}

RLCORE_INLINE json chat_reply::choice_body(text_piece& whole) {
  addition added = split(whole);
  json message = message_body(model().response_role);
  if (!added.content.empty() || added.calls.empty()) message["content"] = std::move(added.content);
  if (!added.reasoning.empty()) message["reasoning_content"] = std::move(added.reasoning);
  message["tool_calls"] = std::move(added.calls);
  json choice{{"index", whole.choice}, {"message", std::move(message)}, {"logprobs", log_probs(whole.tokens)}};
  add_end(whole, choice);
  choice["token_ids"] = shown_ids(whole.tokens);
  return choice;
}

RLCORE_INLINE std::optional<json> chat_reply::choice_event(text_piece& piece) {
  choice_state& state = choices_[piece.choice];
  addition added = split(piece);
  state.held.insert(state.held.end(), std::make_move_iterator(piece.tokens.begin()),
                    std::make_move_iterator(piece.tokens.end()));
  json delta = json::object();
  if (!added.reasoning.empty()) delta["reasoning_content"] = std::move(added.reasoning);
  if (!added.content.empty()) delta["content"] = std::move(added.content);
  if (!added.calls.empty()) delta["tool_calls"] = std::move(added.calls);
  if (delta.empty() && !piece.end) return std::nullopt;
  const std::vector<scored_token> tokens = std::exchange(state.held, {});
  json choice{{"index", piece.choice}, {"delta", std::move(delta)}, {"logprobs", log_probs(tokens)}};
  add_end(piece, choice);
  choice["token_ids"] = shown_ids(tokens);
  return choice;
}

RLCORE_INLINE std::shared_ptr<reply> begin_chat(context& shared, const chat_request& request,
                                                const std::function<bool()>& connected) {
  admission entered = shared.admit(request.fields.model, connected);
  const model_prompt prompt = prompt_of(shared.model, request.talk, request.fields.add_special_tokens, connected);
  for (const std::string& note : prompt.notes) shared.log_once(note);
  std::vector<rollout::job> jobs = make_jobs(shared.model, request.fields, {prompt});
  auto images = show_images(shared.model, prompt, shared.image_memory, jobs, connected);
  return std::make_shared<chat_reply>(shared, std::move(entered), request, std::move(jobs), std::move(images),
                                      prompt.images_hash());
}

RLCORE_INLINE completion_reply::completion_reply(context& shared, admission entered, const completion_request& request,
                                                 std::vector<rollout::job> jobs)
    : reply(shared, std::move(entered), request.fields, std::move(jobs), "cmpl-"),
      echo_(request.echo),
      shows_prompt_logprobs_(request.shows_prompt_logprobs) {
  const auto n = static_cast<std::size_t>(fields().n);
  for (std::size_t i = 0; i < n * request.prompts.size(); ++i) {
    const sent_prompt& sent = request.prompts[i / n];
    const auto* text = std::get_if<std::string>(&sent);
    choices_.push_back({completion_log_probs(model().tokenizer, fields().logprobs.value_or(0), fields().tokens_as_ids,
                                             fields().skip_special_tokens)});
    if (!echo_) continue;
    choice_state& state = choices_.back();
    state.echoes_sent = text != nullptr && !fields().truncate_prompt_tokens;
    state.echo = state.echoes_sent ? *text : model().tokenizer.decode(prompt(i), fields().skip_special_tokens);
  }
}

RLCORE_INLINE std::optional<json> completion_reply::choice_event(text_piece& piece) {
  choice_state& state = choices_[piece.choice];
  const bool first = !std::exchange(state.begun, true);
  json choice{{"index", piece.choice}, {"text", (first ? state.echo : "") + piece.text}};
  if (first && echo_ && fields().logprobs)
    state.log_probs.add_prompt(prompt(piece.choice).front(), prompt_tokens(piece.choice), state.echo,
                               state.echoes_sent);
  if (fields().logprobs) state.log_probs.add(piece.tokens);
  choice["logprobs"] = fields().logprobs ? state.log_probs.take() : json(nullptr);
  choice["finish_reason"] = piece.end ? json(piece.end->finish_reason) : json(nullptr);
  choice["stop_reason"] = piece.end ? piece.end->stop_reason : json(nullptr);
  choice["token_ids"] = shown_ids(piece.tokens);
  choice["prompt_token_ids"] = fields().return_token_ids && first ? json(prompt(piece.choice)) : json(nullptr);
  return choice;
}

RLCORE_INLINE void completion_reply::add_to_event(json& event, std::size_t, bool) {
  if (event.contains("usage"))
    event["usage"]["prompt_tokens_details"] = nullptr;
  else
    event["usage"] = nullptr;
}

RLCORE_INLINE std::shared_ptr<reply> begin_completion(context& shared, const completion_request& request,
                                                      const std::function<bool()>& connected) {
  admission entered = shared.admit(request.fields.model, connected);
  std::vector<model_prompt> prompts;
  for (const sent_prompt& p : request.prompts)
    prompts.push_back({tokens_of(shared.model, p, request.fields.add_special_tokens, connected)});
  auto jobs = make_jobs(shared.model, request.fields, std::move(prompts));
  return std::make_shared<completion_reply>(shared, std::move(entered), request, std::move(jobs));
}

RLCORE_INLINE json tokenized(context& shared, body_fields& f, const std::function<bool()>& connected) {
  const served_model& model = shared.model;
  shared.named(f.string("model").value_or(""));
  const bool chat = f.find("messages") != nullptr;
  if (chat == (f.find("prompt") != nullptr)) throw invalid_body("expected either prompt or messages");
  const bool add_special_tokens = f.boolean("add_special_tokens", !chat);
  token_ids ids;
  if (chat) {
    chat_request r;
    read_messages(f, model.features, r.talk);
    detail::read_template_fields(f, model.features, r.talk);
    if (f.find("tools") != nullptr) detail::read_tools(f, {.tool_calls = true}, r);
    ids = prompt_of(model, r.talk, add_special_tokens, connected).ids;
  } else {
    ids = tokens_of(model, *f.string("prompt"), add_special_tokens, connected);
  }
  json strings = nullptr;
  if (f.boolean("return_token_strs", false)) {
    strings = json::array();
    for (const std::int32_t id : ids) strings.push_back(model.tokenizer.token_of(id));
  }
  shared.note_unknown(f);
  return {{"count", ids.size()}, {"max_model_len", model.max_length}, {"tokens", ids}, {"token_strs", strings}};
}

RLCORE_INLINE json detokenized(context& shared, body_fields& f) {
  shared.named(f.string("model").value_or(""));
  if (f.find("tokens") == nullptr) throw invalid_body("tokens: expected a list of token ids, found none");
  const token_ids ids = tokens_of(shared.model, f.token_ids("tokens"), false);
  shared.note_unknown(f);
  return {{"prompt", shared.model.tokenizer.decode(ids)}};
}

}  // namespace serving
RLCORE_END
#endif
