// The GSM8K interaction of verl: a user who says whether the answer is right.
#pragma once

#include <optional>
#include <string>

#include "rlcore/agent/environment.hpp"

RLCORE_BEGIN
namespace agent {

/// verl.interactions.gsm8k_interaction.Gsm8kInteraction: compares the number behind the last "#### " of the last
/// message of the assistant (its last 300 code points) with kwargs.ground_truth, a text. A right answer has the reward
/// 1 and ends the conversation; any other has 0 and is to be tried again.
class gsm8k_interaction final : public environment {
 public:
  kind what() const override { return kind::user; }
  /// Throws tool_error without a ground truth.
  std::optional<std::string> open(const turn_request& request) override;
  /// Throws as open().
  turn_reply step(const turn_request& request) override;
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <nlohmann/json.hpp>

#include "rlcore/agent/gsm8k_tool.hpp"
#include "rlcore/verify/gsm8k.hpp"

RLCORE_BEGIN
namespace agent {
RLCORE_INLINE std::optional<std::string> gsm8k_interaction::open(const turn_request& request) {
  detail::ground_truth_of(request.kwargs, "interaction_kwargs");
  return {};
}

RLCORE_INLINE turn_reply gsm8k_interaction::step(const turn_request& request) {
  std::string answer;
  for (const nlohmann::ordered_json& message : request.messages)
    if (message.value("role", "") == "assistant")
      answer =
          message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "";
  const std::string& truth = detail::ground_truth_of(request.kwargs, "interaction_kwargs");
  if (verify::score_gsm8k(answer, truth).score == 1) return {"Your response is correct!", true, 1, {}};
  return {"Your response is incorrect! You need to reflect on your answer and try again.", false, 0, {}};
}

}  // namespace agent
RLCORE_END
#endif
