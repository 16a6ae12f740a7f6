// Opens the tools of a file (those of this library by verl's class names, all others in Python), the interactions of a
// file, and agents in Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/python_environment.hpp"
#include "rlcore/agent/tool.hpp"

RLCORE_BEGIN
namespace agent {

/// How tools in Python run.
struct tool_host_settings {
  double timeout_s = 60;       ///< of a call
  std::int64_t processes = 0;  ///< 0: as many as cores, at most `workers`
  std::int64_t workers = 8;
  bool require_sandbox = false;  ///< code that the policy wrote runs in namespaces or not at all
};

/// The tools that a file names (read_tool_file). Built in are
///   verl.tools.gsm8k_tool.Gsm8kTool, also as verl.workers.tool.gsm8k_tool.Gsm8kTool
///   verl.tools.sandbox_fusion_tools.SandboxFusionTool and recipe.retool.retool.CustomSandboxFusionTool, code that runs
///   on this machine
///   rlcore.calculator
/// Any other class_name is a class in Python, which host processes import. Throws config_error, file_error,
/// format_error.
tools open_tools(const std::filesystem::path& file, const tool_host_settings& settings);

/// The interactions that a file names (read_interaction_file). Built in is
/// verl.interactions.gsm8k_interaction.Gsm8kInteraction; any other class_name is a class in Python, which host
/// processes import. Throws config_error, file_error, format_error.
environments open_interactions(const std::filesystem::path& file, const tool_host_settings& settings);

/// The agent in a Python file (open_python_agent), with the sampling parameters that it sees, an object.
std::shared_ptr<environment> open_agent(const std::filesystem::path& file, const tool_host_settings& settings,
                                        const nlohmann::ordered_json& sampling);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/agent/code_tool.hpp"
#include "rlcore/agent/python_host.hpp"
#include "rlcore/agent/tool_file.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {

namespace detail {

/// How Python runs.
RLCORE_INLINE python_host_settings host_settings(const tool_host_settings& settings) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return {.timeout_s = settings.timeout_s,
          .processes = settings.processes > 0 ? settings.processes : std::min(settings.workers, cores)};
}

}  // namespace detail

RLCORE_INLINE tools open_tools(const std::filesystem::path& file, const tool_host_settings& settings) {
  const std::vector<tool_entry> entries = read_tool_file(file);
  tools opened(entries.size());
  std::vector<tool_entry> python;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const tool_entry& e = entries[i];
    const std::string where = file.string() + ": tools[" + std::to_string(i) + "]";
    const auto type = e.config.find("type");
    if (type != e.config.end() && *type != "native")
      throw config_error(where + ".config.type is " + type->dump() +
                         "; expected native: servers of MCP are not called");
    if (e.class_name == "rlcore.calculator") {
      opened[i] = std::make_shared<calculator>(e.schema);
    } else if (e.class_name == "verl.tools.gsm8k_tool.Gsm8kTool" ||
               e.class_name == "verl.workers.tool.gsm8k_tool.Gsm8kTool") {
      opened[i] = std::make_shared<gsm8k_tool>(e.schema);
    } else if (e.class_name == "verl.tools.sandbox_fusion_tools.SandboxFusionTool" ||
               e.class_name == "recipe.retool.retool.CustomSandboxFusionTool") {
      if (e.schema.is_null()) throw config_error(where + ": no tool_schema");
      try {
        opened[i] = std::make_shared<code_tool>(e.schema, e.config, settings.require_sandbox);
      } catch (const config_error& error) {
        throw config_error(where + ": " + error.what());
      }
    } else {
      python.push_back(e);
      places.push_back(i);
    }
  }
  if (!python.empty()) {
    const python_host_settings host = detail::host_settings(settings);
    const tools more = open_python_tools(python, file, host.timeout_s, host.processes);
    for (std::size_t i = 0; i < more.size(); ++i) opened[places[i]] = more[i];
  }
  return opened;
}

RLCORE_INLINE environments open_interactions(const std::filesystem::path& file, const tool_host_settings& settings) {
  environments opened;
  std::vector<interaction_entry> python;
  for (interaction_entry& e : read_interaction_file(file)) {
    if (e.class_name == "verl.interactions.gsm8k_interaction.Gsm8kInteraction")
      opened[e.name] = std::make_shared<gsm8k_interaction>();
    else
      python.push_back(e);
  }
  if (!python.empty()) opened.merge(open_python_interactions(python, file, detail::host_settings(settings)));
  return opened;
}

RLCORE_INLINE std::shared_ptr<environment> open_agent(const std::filesystem::path& file,
                                                      const tool_host_settings& settings,
                                                      const nlohmann::ordered_json& sampling) {
  return open_python_agent(file, sampling, detail::host_settings(settings));
}

}  // namespace agent
RLCORE_END
#endif
