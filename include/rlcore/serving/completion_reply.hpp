// Answers of /v1/completions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/prepare.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/serving/protocol/completion_request.hpp"
#include "rlcore/serving/protocol/log_probs.hpp"
#include "rlcore/serving/reply.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

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

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE completion_reply::completion_reply(context& shared, admission entered, const completion_request& request,
                                                 std::vector<rollout::job> jobs)
    : reply(shared, std::move(entered), request.fields, std::move(jobs), "cmpl-"),
      echo_(request.echo),
      shows_prompt_logprobs_(request.shows_prompt_logprobs) {
  const auto n = static_cast<std::size_t>(fields().n);
  for (std::size_t i = 0; i < n * request.prompts.size(); ++i) {
    const sent_prompt& sent = request.prompts[i / n];
    const auto* text = std::get_if<std::string>(&sent);
    choices_.push_back(
        {completion_log_probs(model().tokenizer, fields().logprobs.value_or(0), fields().tokens_as_ids)});
    if (echo_)
      choices_.back().echo = text != nullptr && !fields().truncate_prompt_tokens
                                 ? *text
                                 : model().tokenizer.decode(prompt(i), fields().skip_special_tokens);
  }
}

RLCORE_INLINE std::optional<json> completion_reply::choice_event(text_piece& piece) {
  choice_state& state = choices_[piece.choice];
  const bool first = !std::exchange(state.begun, true);
  json choice{{"index", piece.choice}, {"text", (first ? state.echo : "") + piece.text}};
  if (first && echo_ && fields().logprobs) {
    state.log_probs.add_first(prompt(piece.choice).front());
    state.log_probs.add(prompt_tokens(piece.choice));
  }
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
    prompts.push_back({tokens_of(shared.model, p, request.fields.add_special_tokens)});
  auto jobs = make_jobs(shared.model, request.fields, std::move(prompts));
  return std::make_shared<completion_reply>(shared, std::move(entered), request, std::move(jobs));
}

}  // namespace serving
RLCORE_END
#endif
