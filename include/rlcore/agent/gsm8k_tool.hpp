// The GSM8K tool of verl: says whether an answer is right.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "rlcore/agent/tool.hpp"

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

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <string_view>

#include "rlcore/text/python_repr.hpp"
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

}  // namespace agent
RLCORE_END
#endif
