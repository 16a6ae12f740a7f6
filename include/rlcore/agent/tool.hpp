// Tools that a policy may call while it answers.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/text/python_json.hpp"

RLCORE_BEGIN
namespace agent {

/// What a tool answers. The text goes to the model; the reward is reported (tool_reward/mean) and not part of the
/// score.
struct tool_reply {
  std::string text;
  double reward = 0;
};

/// A call by the policy and its place in the run.
struct tool_request {
  std::string name;                                ///< of the tool
  nlohmann::ordered_json arguments;                ///< usually an object; whatever JSON the policy wrote
  const nlohmann::ordered_json* kwargs = nullptr;  ///< the row's tools_kwargs.<tool>.create_kwargs; null: none
  std::uint32_t row = 0, sample = 0, number = 0;   ///< row of the data set, sample of the row, call of the response
};

/// A tool call failed: its text is what the model reads, behind "Error executing tool 'NAME': ".
struct tool_error : error {
  using error::error;
};

/// The process or the machine behind a tool failed, not the call. The model reads it as well, unless
/// rlcore.on_tool_failure=stop.
struct tool_broken : tool_error {
  using tool_error::tool_error;
};

/// A tool. call() may run in many threads at once. Its reply must not depend on earlier calls: another process may make
/// the next call of a response.
class tool {
 public:
  /// `schema` is what the chat template shows: {"type": "function", "function": {"name", "description", "parameters"}}.
  explicit tool(nlohmann::ordered_json schema) : schema_(std::move(schema)) {}
  virtual ~tool() = default;
  /// The constructor's.
  const nlohmann::ordered_json& schema() const noexcept { return schema_; }
  /// Runs the call. Throws tool_error for a call that failed, which the model reads; tool_broken, and any other
  /// exception, is a fault of the tool's surroundings, which the model reads too, unless rlcore.on_tool_failure=stop.
  virtual tool_reply call(const tool_request& request) = 0;
  /// What a user should know before it runs, a sentence; empty: nothing.
  virtual std::string note() const { return {}; }
  /// Its name in the schema.
  const std::string& name() const { return schema().at("function").at("name").get_ref<const std::string&>(); }

 private:
  nlohmann::ordered_json schema_;
};

/// Tools by name, in the order of the configuration.
using tools = std::vector<std::shared_ptr<tool>>;

/// A parameter of a tool, with its JSON type.
struct parameter {
  std::string name, type, description;
};
/// The schema of a function whose parameters are all required.
inline nlohmann::ordered_json function_schema(std::string_view name, std::string_view description,
                                              const std::vector<parameter>& parameters) {
  nlohmann::ordered_json properties = nlohmann::ordered_json::object(), required = nlohmann::ordered_json::array();
  for (const parameter& p : parameters) {
    properties[p.name] = {{"type", p.type}, {"description", p.description}};
    required.push_back(p.name);
  }
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", description},
            {"parameters", {{"type", "object"}, {"properties", properties}, {"required", required}}}}}};
}

/// A function of your own as a tool: f(request) gives a tool_reply or the text of one. It may throw tool_error; an
/// exception of JSON says that the arguments are wrong.
template <std::invocable<const tool_request&> F>
class function_tool final : public tool {
 public:
  /// `schema` as in tool.
  function_tool(nlohmann::ordered_json schema, F function) : tool(std::move(schema)), function_(std::move(function)) {}
  tool_reply call(const tool_request& request) override {
    try {
      return {function_(request)};
    } catch (const nlohmann::json::exception&) {  // of the arguments: the schema says what they are
      throw tool_error("wrong arguments: " + text::python_json(request.arguments));
    }
  }

 private:
  F function_;
};
/// The same, for a list of tools.
template <std::invocable<const tool_request&> F>
std::shared_ptr<tool> make_tool(nlohmann::ordered_json schema, F function) {
  return std::make_shared<function_tool<F>>(std::move(schema), std::move(function));
}

}  // namespace agent
RLCORE_END
