// Python code as a tool: verl's sandbox tools on this machine.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/agent/code_runner.hpp"
#include "rlcore/agent/tool.hpp"

RLCORE_BEGIN
namespace agent {

/// The program of a `code` argument, as ReTool's tool makes it: the first ```python block if there is one, and where
/// its last line that is not empty does not begin with print, that line becomes print(line).
std::string program_of(std::string_view argument);

/// What the model reads of a program: its output and then its errors, or one fixed line if it did not end by itself.
std::string reply_text(const code_result& result, const code_limits& limits);

/// <tool>(code): runs the code (code_runner) and replies with what it prints, exceptions included. As
/// recipe.retool.retool.CustomSandboxFusionTool, whose configuration it takes:
///   sandbox_fusion_url   empty or local:
///   num_workers          10: as many programs run at once, at most one for each core
///   default_timeout      30: seconds
///   memory_limit_mb      1024
///   default_language     python
/// rate_limit, enable_global_rate_limit and type are accepted: what runs here needs none of them.
class code_tool final : public tool {
 public:
  /// `schema` as in tool. Throws config_error for `config`, and as code_runner.
  code_tool(nlohmann::ordered_json schema, const nlohmann::ordered_json& config, bool require_namespaces = false);

  tool_reply call(const tool_request& request) override;

  std::string note() const override { return runner_.isolation_note(); }

  /// Runs the programs.
  const code_runner& runner() const noexcept { return runner_; }

 private:
  struct settings {
    code_limits limits;
    std::ptrdiff_t at_once = 1;
  };
  static settings read(const nlohmann::ordered_json& config, bool require_namespaces);
  code_tool(nlohmann::ordered_json schema, const settings& s)
      : tool(std::move(schema)), limits_(s.limits), runner_(s.limits), free_(s.at_once) {}

  code_limits limits_;
  code_runner runner_;
  std::counting_semaphore<> free_;
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE std::string program_of(std::string_view argument) {
  constexpr std::string_view opening = "```python", closing = "```", space = " \t\n\r\f\v";
  const std::size_t begin = text::find_text(argument, opening);
  const std::size_t end =
      begin == argument.npos ? argument.npos : text::find_text(argument, closing, begin + opening.size());
  if (end != argument.npos) {
    argument = argument.substr(begin + opening.size(), end - begin - opening.size());
    argument.remove_prefix(std::min(argument.find_first_not_of(space), argument.size()));
    argument = argument.substr(0, argument.find_last_not_of(space) + 1);
  }
  const std::size_t stop = argument.find_last_not_of('\n') + 1;  // the end of the last line that is not empty
  const std::size_t start = stop == 0 ? 0 : argument.rfind('\n', stop - 1) + 1;
  const std::string_view line = argument.substr(start, stop - start);
  std::string program(argument);
  if (!line.empty() && !line.starts_with("print")) program.insert(stop, ")").insert(start, "print(");
  return program;
}

RLCORE_INLINE std::string reply_text(const code_result& result, const code_limits& limits) {
  if (result.ended == code_result::status::timed_out) {
    std::array<char, 32> digits;
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), limits.seconds);
    return "The code was stopped after " + std::string(digits.data(), written.ptr) + " seconds.";
  }
  if (result.ended == code_result::status::killed)
    return "The code was stopped by signal " + std::to_string(-result.exit_code) + ".";
  return result.out + result.err;
}

RLCORE_INLINE code_tool::code_tool(nlohmann::ordered_json schema, const nlohmann::ordered_json& config,
                                   bool require_namespaces)
    : code_tool(std::move(schema), read(config, require_namespaces)) {}

RLCORE_INLINE auto code_tool::read(const nlohmann::ordered_json& config, bool require_namespaces) -> settings {
  using json = nlohmann::ordered_json;
  const auto refuse = [](const std::string& key, const std::string& expected, const json& found) {
    throw config_error(key + ": expected " + expected + ", found " + text::json_text(found));
  };
  if (!config.is_null() && !config.is_object()) refuse("config", "an object", config);
  const auto find = [&](const char* key) -> const json* {
    const auto at = config.is_null() ? config.end() : config.find(key);
    return at == config.end() || at->is_null() ? nullptr : &*at;
  };
  const auto number = [&](const char* key, double otherwise, double most, bool whole) {
    const json* const found = find(key);
    if (found == nullptr) return otherwise;
    const bool fits = whole ? found->is_number_integer() && found->get<double>() >= 1
                            : found->is_number() && found->get<double>() > 0;
    if (!fits || found->get<double>() > most)
      refuse(key,
             (whole ? "an integer from 1 to " : "a number above 0 and up to ") +
                 std::to_string(static_cast<std::int64_t>(most)),
             *found);
    return found->get<double>();
  };
  const auto text_is = [&](const char* key, std::initializer_list<std::string_view> allowed, const char* expected) {
    const json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_string() || std::ranges::find(allowed, found->get_ref<const std::string&>()) == allowed.end())
      refuse(key, expected, *found);
  };
  text_is("sandbox_fusion_url", {"", "local:"}, "\"\" or \"local:\": code runs on this machine, no server is asked");
  text_is("default_language", {"python"}, "\"python\"");
  text_is("type", {"native"}, "\"native\"");
  const json* const global = find("enable_global_rate_limit");
  if (global != nullptr && !global->is_boolean()) refuse("enable_global_rate_limit", "true or false", *global);
  number("rate_limit", 10, 1e6, true);
  settings s;
  s.limits.seconds = number("default_timeout", 30, 1e6, false);
  s.limits.memory_bytes = static_cast<std::size_t>(number("memory_limit_mb", 1024, 1 << 20, true)) << 20;
  s.limits.require_namespaces = require_namespaces;
  s.at_once = static_cast<std::ptrdiff_t>(number("num_workers", 10, 1e6, true));
  s.at_once = std::min<std::ptrdiff_t>(s.at_once, std::max(1u, std::thread::hardware_concurrency()));
  return s;
}

RLCORE_INLINE tool_reply code_tool::call(const tool_request& request) {
  const auto& a = request.arguments;
  if (!a.is_object() || !a.contains("code") || !a["code"].is_string()) throw tool_error("expected {\"code\": text}");
  const std::string program = program_of(a["code"].get_ref<const std::string&>());
  free_.acquire();
  struct release {
    std::counting_semaphore<>& free;
    ~release() { free.release(); }
  } const at_the_end{free_};
  return {reply_text(runner_.run(program), limits_)};
}

}  // namespace agent
RLCORE_END
#endif
