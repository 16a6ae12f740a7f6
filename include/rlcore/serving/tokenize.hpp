// POST /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/protocol/chat_request.hpp"

RLCORE_BEGIN
namespace serving {

/// {prompt} or {messages} as tokens: {"count", "max_model_len", "tokens", "token_strs"}. Throws api_error.
json tokenized(context& shared, body_fields& f);

/// {tokens} as text: {"prompt"}. Throws api_error.
json detokenized(context& shared, body_fields& f);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE json tokenized(context& shared, body_fields& f) {
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
    ids = prompt_of(model, r.talk, add_special_tokens).ids;
  } else {
    ids = tokens_of(model, *f.string("prompt"), add_special_tokens);
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
