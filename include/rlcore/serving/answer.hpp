// Incremental output of a request.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/serving/served_model.hpp"
#include "rlcore/serving/text_stream.hpp"

RLCORE_BEGIN
namespace serving {

/// Why a text ended, in the protocol's words: "stop", "length" or "abort"; `stop_reason` is the stop string, the stop
/// token that is no EOS, or null.
struct text_end {
  std::string finish_reason;
  json stop_reason;
};

/// The next piece of a choice: new text with the tokens since the piece before, a stop token included.
struct text_piece {
  std::size_t choice = 0;
  std::string text{};
  std::vector<scored_token> tokens{};
  std::optional<text_end> end{};
};

/// Submits the jobs of a request and follows their texts. The destructor cancels unfinished jobs.
class answer {
 public:
  /// All arguments must outlive this object.
  answer(generator& engine, const served_model& model, const sampling_fields& fields, std::vector<rollout::job> jobs);
  answer(const answer&) = delete;
  answer& operator=(const answer&) = delete;
  ~answer() {
    for (std::size_t i = 0; i < tickets_.size(); ++i)
      if (!choices_[i].ended) engine_.cancel(tickets_[i]);
  }

  /// The next piece that has text or an end; nothing after the end of the last choice. Calls is_connected() while it
  /// waits. Throws client_gone, and api_error 500 when the engine has failed.
  template <class IsConnected>
  std::optional<text_piece> next(IsConnected&& is_connected) {
    while (left_ > 0) {
      auto message = inbox_->take(patience);
      if (!message || ++taken_ % 64 == 0)
        if (!is_connected()) throw client_gone();
      if (!message) continue;
      if (auto piece = read(*message)) return piece;
    }
    return std::nullopt;
  }

  /// The tokens of the prompt of a choice, from the second one on, if they were asked for.
  const std::vector<scored_token>& prompt_tokens(std::size_t choice) const { return choices_[choice].prompt; }
  /// Tokens drawn for the pieces so far, stop tokens included.
  std::size_t drawn() const noexcept { return drawn_; }
  /// Those of one choice.
  std::size_t drawn(std::size_t choice) const { return choices_[choice].drawn; }

 private:
  struct growing {
    text_stream text;
    std::vector<scored_token> prompt{}, since_piece{};
    std::size_t drawn = 0;
    std::int32_t last = 0;  ///< the token drawn last
    bool ended = false;
  };
  static constexpr std::chrono::milliseconds patience{50};

  std::optional<text_piece> read(inbox::message& message);

  text_piece ended(std::size_t choice, rollout::finish why);

  text_piece close(std::size_t choice, std::string text, text_end end) {
    choices_[choice].ended = true;
    --left_;
    return {choice, std::move(text), std::exchange(choices_[choice].since_piece, {}), std::move(end)};
  }

  bool is_stop(std::int32_t id) const { return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end(); }

  generator& engine_;
  const served_model& model_;
  const sampling_fields& fields_;
  std::shared_ptr<inbox> inbox_;
  std::vector<growing> choices_;
  std::vector<rollout::ticket> tickets_;
  std::vector<std::int32_t> stop_ids_;
  std::size_t left_ = 0, drawn_ = 0, taken_ = 0;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE answer::answer(generator& engine, const served_model& model, const sampling_fields& fields,
                             std::vector<rollout::job> jobs)
    : engine_(engine), model_(model), fields_(fields), inbox_(std::make_shared<inbox>()) {
  for (std::size_t i = 0; i < jobs.size(); ++i)
    choices_.push_back({text_stream(model.tokenizer, fields.stop, fields.include_stop, fields.skip_special_tokens,
                                    fields.rules.min_tokens)});
  if (!jobs.empty()) stop_ids_ = jobs.front().stop_ids;
  left_ = jobs.size();
  try {
    tickets_ = engine_.submit(std::move(jobs), inbox_);
  } catch (const config_error& e) {
    throw bad_request(e.what());
  }
}

RLCORE_INLINE std::optional<text_piece> answer::read(inbox::message& message) {
  growing& g = choices_[message.job];
  if (const auto* end = std::get_if<inbox::end_report>(&message.what)) {
    if (!end->problem.empty()) throw api_error(500, "InternalServerError", end->problem);
    if (g.ended) return std::nullopt;
    return ended(message.job, end->why);
  }
  if (g.ended) return std::nullopt;  // drops tokens drawn after a stop string
  if (auto* report = std::get_if<inbox::prompt_report>(&message.what)) {
    g.prompt.push_back(std::move(report->token));
    return std::nullopt;
  }
  scored_token& token = std::get<inbox::token_report>(message.what).token;
  const std::int32_t id = token.id;
  if (fields_.max_tokens == 0) {  // the job scores a prompt: the token is its last one
    const auto most = static_cast<std::size_t>(fields_.prompt_logprobs.value_or(0));
    if (token.most_likely.size() > most) token.most_likely.resize(most);
    g.prompt.push_back(std::move(token));
    return std::nullopt;
  }
  ++drawn_, ++g.drawn;
  g.last = id;
  g.since_piece.push_back(std::move(token));
  if (is_stop(id) && !fields_.include_stop) return std::nullopt;
  std::string text = g.text.push(id);
  if (g.text.stopped()) {
    engine_.cancel(tickets_[message.job]);
    return close(message.job, std::move(text), {"stop", *g.text.stop()});
  }
  if (text.empty()) return std::nullopt;
  return text_piece{message.job, std::move(text), std::exchange(g.since_piece, {})};
}

RLCORE_INLINE text_piece answer::ended(std::size_t choice, rollout::finish why) {
  growing& g = choices_[choice];
  std::string rest = g.text.finish();
  if (g.text.stopped()) return close(choice, std::move(rest), {"stop", *g.text.stop()});
  if (why == rollout::finish::cancelled) return close(choice, std::move(rest), {"abort", nullptr});
  if (why == rollout::finish::length) return close(choice, std::move(rest), {"length", nullptr});
  const bool eos = g.last == model_.eos_id && !fields_.ignore_eos;
  return close(choice, std::move(rest), {"stop", eos ? json(nullptr) : json(g.last)});
}

}  // namespace serving
RLCORE_END
#endif
