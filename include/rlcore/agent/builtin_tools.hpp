// Tools in C++: a calculator; verl's GSM8K tool and interaction, which say whether an answer is right.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/text/python_json.hpp"
#include "rlcore/verify/expression.hpp"

RLCORE_BEGIN
namespace agent {

/// verl.tools.gsm8k_tool.Gsm8kTool: calc_gsm8k_reward(answer) compares the last number of the answer with
/// kwargs.ground_truth, a text, and replies "Current parsed answer='72' reward=1.0". The reward is 0.0 for a wrong
/// answer and 0 for one without a number in its last 300 code points. An answer that is no text is what Python's str()
/// makes of it; a missing one is empty. The reward of the call is 0 for a right answer and -0.05 for others.
class gsm8k_tool final : public tool {
 public:
  /// `schema` as in tool; null: default_schema().
  explicit gsm8k_tool(nlohmann::ordered_json schema = nullptr)
      : tool(schema.is_null() ? default_schema() : std::move(schema)) {}

  /// The name, the parameter and the facts of verl's example configuration, gsm8k_tool_config.yaml.
  static nlohmann::ordered_json default_schema() {
    return function_schema(
        "calc_gsm8k_reward",
        "Calculates the reward of an answer to a GSM8K problem: 1.0 if your answer is correct, 0.0 if it is incorrect.",
        {{"answer", "string", "Your answer to the GSM8K math problem, in digits."}});
  }
  /// Throws tool_error for arguments that are no object, and without a ground truth.
  tool_reply call(const tool_request& request) override;
};

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

/// calculator(expression): the value of a formula of numbers, + - * / ** and parentheses. Sums and products
/// of integers and fractions are exact as long as they are below 2^53; what is no integer is printed as Python prints
/// a float.
class calculator final : public tool {
 public:
  /// `schema` as in tool; null: default_schema().
  explicit calculator(nlohmann::ordered_json schema = nullptr)
      : tool(schema.is_null() ? default_schema() : std::move(schema)) {}

  static nlohmann::ordered_json default_schema() {
    return function_schema("calculator", "Computes the value of an arithmetic expression.",
                           {{"expression", "string", "Numbers, + - * / ** and parentheses, such as (3 + 4) * 12."}});
  }
  tool_reply call(const tool_request& request) override;
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <string_view>

#include "rlcore/verify/gsm8k.hpp"
#include "rlcore/verify/python_text.hpp"

RLCORE_BEGIN
namespace agent {

namespace detail {

/// kwargs.ground_truth; throws tool_error if there is none.
RLCORE_INLINE const std::string& ground_truth_of(const nlohmann::ordered_json* kwargs, const std::string& path) {
  const bool known = kwargs != nullptr && kwargs->is_object() && kwargs->contains("ground_truth");
  if (!known || !kwargs->at("ground_truth").is_string())
    throw tool_error("the row has no text as " + path + ".ground_truth");
  return kwargs->at("ground_truth").get_ref<const std::string&>();
}

}  // namespace detail

RLCORE_INLINE tool_reply gsm8k_tool::call(const tool_request& request) {
  if (!request.arguments.is_object()) throw tool_error("expected {\"answer\": text}");
  const std::string& truth = detail::ground_truth_of(request.kwargs, "tools_kwargs." + request.name + ".create_kwargs");
  const auto given = request.arguments.find("answer");
  const std::string answer = given == request.arguments.end() ? "" : text::python_str(*given);
  const std::string response = answer.starts_with("#### ") ? answer : "#### " + answer;
  const verify::gsm8k_settings settings{.method = verify::gsm8k_method::flexible};
  const verify::verdict v = verify::score_gsm8k(response, truth, settings);
  const std::string_view end = verify::detail::last_code_points(response, settings.window);
  const bool dots = !v.pred && end.find('.') != end.npos;  // each dot alone: verl takes the first one as the answer
  const bool right = dots ? truth == "." : v.score == 1;
  const char* reward = right ? "1.0" : dots || v.pred ? "0.0" : "0";
  return {"Current parsed answer=" + text::python_repr(answer) + " reward=" + reward, right ? 0.0 : -0.05};
}

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

RLCORE_INLINE tool_reply calculator::call(const tool_request& request) {
  if (!request.arguments.is_object() || !request.arguments.contains("expression") ||
      !request.arguments["expression"].is_string())
    throw tool_error("expected {\"expression\": text}");
  using verify::detail::formula, verify::detail::quantity;
  verify::detail::sample_point point;
  const std::optional<quantity> value =
      formula(request.arguments["expression"].get_ref<const std::string&>(), point, formula::grammar::python).value();
  if (!value || value->value.imag() != 0 || !std::isfinite(value->value.real()))
    throw tool_error("no arithmetic expression with a value");
  if (value->is_integer()) return {std::to_string(value->above)};
  return {text::python_float(value->value.real())};
}

}  // namespace agent
RLCORE_END
#endif
