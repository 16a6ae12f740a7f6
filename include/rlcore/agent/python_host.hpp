// Tools and environments written in Python, by the interfaces of verl and OpenRLHF, and the processes that run them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/agent/python_worker.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_file.hpp"

RLCORE_BEGIN
namespace agent {

/// What has happened since a python_host was made.
struct host_counts {
  std::int64_t calls = 0;
  std::int64_t errors = 0;  ///< calls that ended with a tool_error, but for timeouts
  std::int64_t timeouts = 0;
  std::int64_t restarts = 0;  ///< of a process
};

namespace detail {

/// Throws tool_broken unless the answer of a process has the member `name` of a type, which `expected` names. The
/// program of the process keeps to it; other code there can write into its answers.
void expect_member(const nlohmann::ordered_json& answer, const std::string& name,
                   bool (nlohmann::ordered_json::*is)() const noexcept, const std::string& expected);

}  // namespace detail

/// The reply in a process's answer to a tool call: {"text", "reward"}. Throws tool_broken for another shape.
tool_reply read_tool_reply(const nlohmann::ordered_json& answer);

/// Processes that have loaded the same tools, classes in Python with verl's interface (its releases 0.5 to 0.9):
/// __init__(config, tool_schema), create, execute, release. A call makes an instance by create, executes it and
/// releases it, as in verl. Calls are open side by side: coroutines in an event loop, plain methods in threads. Their
/// modules are looked for in the current folder, then in that of `file`. Where verl is not installed, its
/// tools.base_tool, tools.schemas and utils.rollout_trace.rollout_trace_op are replaced. What tools print goes to
/// standard error, up to 1 MiB of each process.
///
/// Environments (python_environment.hpp) run in the same way: agents of OpenRLHF, interactions of verl.
///
/// A call that is late is cancelled; if that is of no use, its process is killed and with it the other calls there. A
/// process that has ended is started again for the next call.
class python_host {
 public:
  /// Starts the processes and loads the tools; `file` is the one that names them. Throws config_error with Python's
  /// message if a tool cannot be loaded.
  python_host(const std::vector<tool_entry>& entries, const std::filesystem::path& file,
              const python_host_settings& settings = {});
  /// Starts the processes with another first line (python_host_script()), but for its members file and timeout; in
  /// messages, `noun` is what they load.
  python_host(nlohmann::ordered_json wanted, const std::string& noun, const std::filesystem::path& file,
              const python_host_settings& settings);
  python_host(const python_host&) = delete;
  python_host& operator=(const python_host&) = delete;
  /// No call is open. Waits for what tell() has sent, but not longer than the grace.
  ~python_host() {
    for (const auto& worker : workers_) worker->stop();
  }

  /// Calls tool `entry` in the process of (row, sample). May run in many threads. Throws tool_error for an exception of
  /// the tool (its text) and a timeout, tool_broken for the end of the process; error if the process has ended for the
  /// third time without an answer in between, or cannot be started again.
  tool_reply call(std::size_t entry, const tool_request& request);

  /// The answer to a request (python_host_script()) from the process of (row, sample). Throws as call().
  nlohmann::ordered_json ask(std::uint32_t row, std::uint32_t sample, const nlohmann::ordered_json& request);

  /// Sends such a request if the process is there, and does not wait.
  void tell(std::uint32_t row, std::uint32_t sample, const nlohmann::ordered_json& request);

  /// A list of what get_openai_tool_schema() gives, for entries without a schema; null for the others.
  const nlohmann::ordered_json& schemas() const { return schemas_; }

  /// Counts up to now.
  host_counts counts() const { return {counts_.calls, counts_.errors, counts_.timeouts, counts_.restarts}; }

 private:
  static nlohmann::ordered_json tools_of(const std::vector<tool_entry>& entries);
  detail::python_worker& worker(std::uint32_t row, std::uint32_t sample);
  detail::shared_counts counts_;
  std::vector<std::unique_ptr<detail::python_worker>> workers_;
  nlohmann::ordered_json schemas_;
};

/// A class in Python that a python_host has loaded.
class python_tool final : public tool {
 public:
  /// `entry`: its number in the host; `schema` as in tool.
  python_tool(std::shared_ptr<python_host> host, std::size_t entry, nlohmann::ordered_json schema)
      : tool(std::move(schema)), host_(std::move(host)), entry_(entry) {}
  tool_reply call(const tool_request& request) override { return host_->call(entry_, request); }
  /// The processes it shares with the other tools of its file.
  const python_host& host() const { return *host_; }

 private:
  std::shared_ptr<python_host> host_;
  std::size_t entry_;
};

/// The tools of `entries` by one python_host. A tool's schema is that of its entry; without one, what the class's
/// get_openai_tool_schema() gives. `file` names the entries. Throws as python_host does, and config_error for a tool
/// without a schema.
tools open_python_tools(const std::vector<tool_entry>& entries, const std::filesystem::path& file, double timeout_s,
                        std::int64_t processes);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace agent {

namespace detail {

RLCORE_INLINE void expect_member(const nlohmann::ordered_json& answer, const std::string& name,
                                 bool (nlohmann::ordered_json::*is)() const noexcept, const std::string& expected) {
  if (!answer.contains(name) || !(answer[name].*is)())
    throw tool_broken("the process answered " + one_line(text::json_text(answer), 100) + "; expected '" + name + "', " +
                      expected);
}

}  // namespace detail

RLCORE_INLINE tool_reply read_tool_reply(const nlohmann::ordered_json& answer) {
  using json = nlohmann::ordered_json;
  detail::expect_member(answer, "text", &json::is_string, "a text");
  detail::expect_member(answer, "reward", &json::is_number, "a number");
  return {answer["text"].get<std::string>(), answer["reward"].get<double>()};
}

RLCORE_INLINE nlohmann::ordered_json python_host::tools_of(const std::vector<tool_entry>& entries) {
  nlohmann::ordered_json wanted{{"what", "tools"}, {"classes", nlohmann::ordered_json::array()}};
  for (const tool_entry& e : entries)
    wanted["classes"].push_back({{"class_name", e.class_name}, {"config", e.config}, {"schema", e.schema}});
  return wanted;
}

RLCORE_INLINE python_host::python_host(const std::vector<tool_entry>& entries, const std::filesystem::path& file,
                                       const python_host_settings& settings)
    : python_host(tools_of(entries), "tool", file, settings) {}

RLCORE_INLINE python_host::python_host(nlohmann::ordered_json wanted, const std::string& noun,
                                       const std::filesystem::path& file, const python_host_settings& settings) {
  wanted["file"] = file.string(), wanted["timeout"] = std::min(settings.timeout_s, 1e9);
  const std::string line = text::exact_dump(wanted) + "\n";
  for (std::int64_t i = 0; i < std::max<std::int64_t>(settings.processes, 1); ++i)
    workers_.push_back(std::make_unique<detail::python_worker>(file.string(), line, noun, settings, counts_));
  for (const auto& worker : workers_) schemas_ = worker->schemas();
}

RLCORE_INLINE detail::python_worker& python_host::worker(std::uint32_t row, std::uint32_t sample) {
  return *workers_[random_key{0}.below(static_cast<std::uint32_t>(workers_.size()), row, sample)];
}

RLCORE_INLINE tool_reply python_host::call(std::size_t entry, const tool_request& request) {
  const nlohmann::ordered_json answer =
      ask(request.row, request.sample,
          {{"tool", entry},
           {"arguments", arguments_text(request.arguments)},
           {"kwargs", request.kwargs == nullptr ? "{}" : text::exact_dump(*request.kwargs)}});
  return read_tool_reply(answer);
}

RLCORE_INLINE nlohmann::ordered_json python_host::ask(std::uint32_t row, std::uint32_t sample,
                                                      const nlohmann::ordered_json& request) {
  ++counts_.calls;
  return worker(row, sample).call(request);
}

RLCORE_INLINE void python_host::tell(std::uint32_t row, std::uint32_t sample, const nlohmann::ordered_json& request) {
  ++counts_.calls;
  worker(row, sample).post(request);
}

RLCORE_INLINE tools open_python_tools(const std::vector<tool_entry>& entries, const std::filesystem::path& file,
                                      double timeout_s, std::int64_t processes) {
  const auto host = std::make_shared<python_host>(entries, file,
                                                  python_host_settings{.timeout_s = timeout_s, .processes = processes});
  tools opened;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    nlohmann::ordered_json schema = entries[i].schema;
    const std::string where = file.string() + ": class_name " + entries[i].class_name;
    if (schema.is_null() && host->schemas()[i].is_null())
      throw config_error(where + ": neither a tool_schema in the file nor one by get_openai_tool_schema()");
    if (schema.is_null()) schema = shown_schema(host->schemas()[i], where + ": get_openai_tool_schema()");
    opened.push_back(std::make_shared<python_tool>(host, i, std::move(schema)));
  }
  return opened;
}

}  // namespace agent
RLCORE_END
#endif
