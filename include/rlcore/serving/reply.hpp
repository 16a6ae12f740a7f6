// A response to the client: one body, or a stream of events.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/serving/answer.hpp"
#include "rlcore/serving/context.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/log_probs.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// Base of both kinds of responses. A derived class formats a piece of a choice; a non-streamed body joins all pieces
/// of a choice, so its text equals the stream's.
class reply {
 public:
  /// `jobs` are the choices, consecutive per prompt; the admitted weights draw them. `images` is the hash of their
  /// images.
  reply(context& shared, admission entered, sampling_fields fields, std::vector<rollout::job> jobs,
        const char* id_prefix, std::uint64_t images = 0);
  reply(const reply&) = delete;
  reply& operator=(const reply&) = delete;
  virtual ~reply() {
    if (!finished_) count_request("abort");
    --shared_.requests;
  }

  /// Waits for the end and returns the body. Throws client_gone, api_error.
  json body(const std::function<bool()>& connected);

  /// Writes the events. Returns early if the client does not accept them; an error becomes the last event.
  void stream(const body_writer& write, const std::function<bool()>& connected);

 protected:
  virtual const char* object() const = 0;
  virtual const char* event_object() const = 0;
  /// The first events of a choice.
  virtual std::vector<json> opening(std::size_t choice) = 0;
  /// A choice of a body, given all of its pieces as one.
  virtual json choice_body(text_piece& whole) = 0;
  /// A choice of an event; nothing if the piece is to be held back.
  virtual std::optional<json> choice_event(text_piece& piece) = 0;
  /// Adds further top-level members to a body.
  virtual void add_to_body(json&) {}
  /// Adds further top-level members to an event; `opens` for the first one of a choice of opening().
  virtual void add_to_event(json& event, std::size_t choice, bool opens) = 0;

  const served_model& model() const { return shared_.model; }
  const sampling_fields& fields() const noexcept { return fields_; }
  /// The prompt of a choice.
  const std::vector<std::int32_t>& prompt(std::size_t choice) const {
    return prompts_[choice / static_cast<std::size_t>(fields_.n)];
  }
  /// Its tokens with log-probs, if they were asked for: those of the first choice with this prompt.
  std::span<const scored_token> prompt_tokens(std::size_t choice) const;
  /// The ids of drawn tokens, if they were asked for.
  json shown_ids(std::span<const scored_token> tokens) const;
  json prompt_logprobs(std::size_t choice) const {
    return fields_.prompt_logprobs ? prompt_log_probs(model().tokenizer, prompt_tokens(choice)) : json(nullptr);
  }

 private:
  using clock = std::chrono::steady_clock;

  std::optional<text_piece> next(const std::function<bool()>& connected);
  double seconds() const { return std::chrono::duration<double>(clock::now() - began_).count(); }
  /// Counts the finished request; unfinished choices end with this reason.
  void count_request(const std::string& reason) {
    if (ended_ < choices_) shared_.counts.count_end(reason, choices_ - ended_);
    shared_.counts.count_request(seconds());
  }

  /// The last token of the prompt becomes the only one that may be drawn: a prompt of the full length has no room for a
  /// further token, and the log-prob of the draw equals that of the prompt token.
  static void score_only(rollout::job& j);
  /// Keys come last, so that a rejected request does not change the texts of later ones.
  void give_keys(std::vector<rollout::job>& jobs, std::uint64_t images);
  /// max_tokens=0: the token drawn after the prompt is discarded; each choice ends at once.
  std::optional<text_piece> next_without_text(const std::function<bool()>& is_connected);

  json event(std::size_t choice, json content, bool opens);
  std::size_t drawn(std::size_t choice) const { return answer_ ? answer_->drawn(choice) : 0; }
  json usage() const { return usage_body(prompt_size_, answer_ ? answer_->drawn() : 0); }

  context& shared_;
  admission entered_;
  sampling_fields fields_;
  answer_name name_;
  std::vector<std::vector<std::int32_t>> prompts_;  // each for n choices
  std::optional<answer> answer_;
  std::size_t choices_ = 0, prompt_size_ = 0, ended_ = 0;
  clock::time_point began_ = clock::now();
  bool answered_ = false, finished_ = false;
};

/// The response of a reply: its body, or its stream.
http_response respond(std::shared_ptr<reply> made, bool stream, const std::function<bool()>& connected);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE reply::reply(context& shared, admission entered, sampling_fields fields, std::vector<rollout::job> jobs,
                           const char* id_prefix, std::uint64_t images)
    : shared_(shared),
      entered_(std::move(entered)),
      fields_(std::move(fields)),
      name_{shared.unique_id(id_prefix, fields_.request_id), entered_.name, entered_.origin.fingerprint,
            static_cast<std::int64_t>(std::time(nullptr))} {
  choices_ = jobs.size();
  const auto n = static_cast<std::size_t>(fields_.n);
  for (std::size_t i = 0; i < jobs.size(); i += n) prompts_.push_back(jobs[i].prompt);
  for (const auto& p : prompts_) prompt_size_ += p.size();
  shared_.log_once(fields_.note);
  if (fields_.max_tokens != 0 || fields_.prompt_logprobs) {
    if (fields_.stream && fields_.prompt_logprobs)
      for (rollout::job& j : jobs) j.prompt_logprobs = fields_.prompt_logprobs;
    if (fields_.max_tokens == 0)
      for (rollout::job& j : jobs) score_only(j);
    give_keys(jobs, images);
    answer_.emplace(entered_.weights->engine, shared.model, fields_, std::move(jobs));
  }
  shared_.counts.count_prompt(prompt_size_);
  ++shared_.requests;
}

RLCORE_INLINE json reply::body(const std::function<bool()>& connected) {
  std::vector<text_piece> whole(choices_);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i].choice = i;
  while (auto piece = next(connected)) {
    text_piece& w = whole[piece->choice];
    w.text += piece->text;
    w.tokens.insert(w.tokens.end(), std::make_move_iterator(piece->tokens.begin()),
                    std::make_move_iterator(piece->tokens.end()));
    w.end = std::move(piece->end);
  }
  json choices = json::array();
  for (text_piece& w : whole) choices.push_back(choice_body(w));
  json body = answer_body(name_, object(), std::move(choices));
  finish_body(body, name_, usage());
  add_to_body(body);
  return body;
}

RLCORE_INLINE void reply::stream(const body_writer& write, const std::function<bool()>& connected) {
  try {
    for (std::size_t i = 0; i < choices_; ++i)
      for (json& choice : opening(i))
        if (!write(event_of(event(i, std::move(choice), true)))) return;
    while (auto piece = next(connected))
      if (auto choice = choice_event(*piece))
        if (!write(event_of(event(piece->choice, std::move(*choice), false)))) return;
    if (fields_.include_usage) {
      json last = answer_body(name_, event_object(), json::array());
      last["usage"] = usage();
      if (!write(event_of(last))) return;
    }
  } catch (const client_gone&) {
    return;
  } catch (const api_error& e) {
    if (!write(event_of(e.body()))) return;
  } catch (const std::exception& e) {
    shared_.log(std::string("a request failed: ") + one_line(e.what()));
    if (!write(event_of(api_error(500, "InternalServerError", e.what()).body()))) return;
  }
  write(done_event);
}

RLCORE_INLINE std::span<const scored_token> reply::prompt_tokens(std::size_t choice) const {
  if (!answer_) return {};
  const auto n = static_cast<std::size_t>(fields_.n);
  const std::span<const scored_token> all = answer_->prompt_tokens(fields_.stream ? choice : choice / n * n);
  return all.first(std::min(all.size(), prompt(choice).size() - 1));
}

RLCORE_INLINE json reply::shown_ids(std::span<const scored_token> tokens) const {
  if (!fields_.return_token_ids) return nullptr;
  json ids = json::array();
  for (const scored_token& t : tokens) ids.push_back(t.id);
  return ids;
}

RLCORE_INLINE std::optional<text_piece> reply::next(const std::function<bool()>& connected) {
  const auto is_connected = [&] { return !connected || connected(); };
  auto piece = answer_ && fields_.max_tokens != 0 ? answer_->next(is_connected) : next_without_text(is_connected);
  if (!piece) {
    finished_ = true;
    count_request("");
    return piece;
  }
  if (!piece->tokens.empty() && !std::exchange(answered_, true)) shared_.counts.count_first_token(seconds());
  shared_.counts.count_tokens(piece->tokens.size());
  if (piece->end) ++ended_, shared_.counts.count_end(piece->end->finish_reason);
  return piece;
}

RLCORE_INLINE void reply::score_only(rollout::job& j) {
  if (j.prompt.size() < 2) return;  // its token has no log-prob
  auto rules = std::make_shared<rollout::logit_rules>();
  rules->allowed_token_ids = {j.prompt.back()};
  j.prompt.pop_back();
  j.rules = std::move(rules);
  j.processed_logprobs = false;
  j.max_new_tokens = 1;
  j.top_logprobs = std::max(j.prompt_logprobs.value_or(0), 1);  // the engine reports ranks only with at least one
}

RLCORE_INLINE void reply::give_keys(std::vector<rollout::job>& jobs, std::uint64_t images) {
  const auto n = static_cast<std::size_t>(fields_.n);
  try {
    for (std::size_t i = 0; i < jobs.size(); i += n) entered_.weights->engine.check(jobs[i]);
  } catch (const config_error& e) {
    throw bad_request(e.what());
  }
  if (fields_.max_tokens == 0) return;
  for (std::size_t p = 0; p < prompts_.size(); ++p) {
    const random_key key =
        fields_.seed ? random_key{*fields_.seed} : entered_.weights->counter.next(prompts_[p], images);
    for (std::size_t i = 0; i < n; ++i) jobs[p * n + i].key = key;
  }
}

RLCORE_INLINE std::optional<text_piece> reply::next_without_text(const std::function<bool()>& is_connected) {
  if (answer_)
    while (answer_->next(is_connected)) continue;
  if (ended_ == choices_) return std::nullopt;
  return text_piece{.choice = ended_, .end = text_end{"length", nullptr}};
}

RLCORE_INLINE json reply::event(std::size_t choice, json content, bool opens) {
  json e = answer_body(name_, event_object(), json::array({std::move(content)}));
  if (fields_.continuous_usage) e["usage"] = usage_body(prompt(choice).size(), drawn(choice));
  add_to_event(e, choice, opens);
  return e;
}

RLCORE_INLINE http_response respond(std::shared_ptr<reply> made, bool stream, const std::function<bool()>& connected) {
  if (!stream) return json_response(made->body(connected));
  http_response r{.content_type = "text/event-stream; charset=utf-8"};
  r.stream = [made, connected](const body_writer& write) { made->stream(write, connected); };
  return r;
}

}  // namespace serving
RLCORE_END
#endif
