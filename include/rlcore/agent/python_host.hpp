// Processes that run tools written in Python, by verl's interface of tools.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
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

/// Processes that have loaded the same tools, classes in Python with verl's interface (its releases 0.5 to 0.9):
/// __init__(config, tool_schema), create, execute, release. A call makes an instance by create, executes it and
/// releases it, as in verl. Calls are open side by side: coroutines in an event loop, plain methods in threads. Their
/// modules are looked for in the current folder, then in that of `file`. Where verl is not installed, its
/// tools.base_tool, tools.schemas and utils.rollout_trace.rollout_trace_op are replaced. What tools print goes to
/// standard error, up to 1 MiB of each process.
///
/// A call that is late is cancelled; if that is of no use, its process is killed and with it the other calls there. A
/// process that has ended is started again for the next call.
class python_host {
 public:
  /// Starts the processes and loads the tools; `file` is the one that names them. Throws config_error with Python's
  /// message if a tool cannot be loaded.
  python_host(const std::vector<tool_entry>& entries, const std::filesystem::path& file,
              const python_host_settings& settings = {});
  python_host(const python_host&) = delete;
  python_host& operator=(const python_host&) = delete;
  /// No call is open.
  ~python_host() {
    for (const auto& worker : workers_) worker->stop();
  }

  /// Calls tool `entry` in the process of (row, sample). May run in many threads. Throws tool_error for an exception of
  /// the tool (its text) and a timeout, tool_broken for the end of the process; error if the process has ended for the
  /// third time without an answer in between, or cannot be started again.
  tool_reply call(std::size_t entry, const tool_request& request);

  /// A list of what get_openai_tool_schema() gives, for entries without a schema; null for the others.
  const nlohmann::ordered_json& schemas() const { return schemas_; }

  /// Counts up to now.
  host_counts counts() const { return {counts_.calls, counts_.errors, counts_.timeouts, counts_.restarts}; }

 private:
  detail::shared_counts counts_;
  std::vector<std::unique_ptr<detail::python_worker>> workers_;
  nlohmann::ordered_json schemas_;
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <string>

#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE python_host::python_host(const std::vector<tool_entry>& entries, const std::filesystem::path& file,
                                       const python_host_settings& settings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const tool_entry& e : entries)
    list.push_back({{"class_name", e.class_name}, {"config", e.config}, {"schema", e.schema}});
  const nlohmann::ordered_json load{
      {"file", file.string()}, {"timeout", std::min(settings.timeout_s, 1e9)}, {"tools", std::move(list)}};
  const std::string line = text::exact_dump(load) + "\n";
  for (std::int64_t i = 0; i < std::max<std::int64_t>(settings.processes, 1); ++i)
    workers_.push_back(std::make_unique<detail::python_worker>(file.string(), line, settings, counts_));
  for (const auto& worker : workers_) schemas_ = worker->schemas();
}

RLCORE_INLINE tool_reply python_host::call(std::size_t entry, const tool_request& request) {
  ++counts_.calls;
  const auto worker = random_key{0}.below(static_cast<std::uint32_t>(workers_.size()), request.row, request.sample);
  return workers_[worker]->call({{"tool", entry},
                                 {"arguments", arguments_text(request.arguments)},
                                 {"kwargs", request.kwargs == nullptr ? "{}" : text::exact_dump(*request.kwargs)}});
}

}  // namespace agent
RLCORE_END
#endif
