// A calculator as a tool.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "rlcore/agent/tool.hpp"
#include "rlcore/text/python_json.hpp"
#include "rlcore/verify/expression.hpp"

RLCORE_BEGIN
namespace agent {

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
RLCORE_BEGIN
namespace agent {

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
