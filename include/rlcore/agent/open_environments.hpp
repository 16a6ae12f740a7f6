// Opens environments: the interactions of a file and agents in Python.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/open_tools.hpp"
#include "rlcore/agent/python_environment.hpp"

RLCORE_BEGIN
namespace agent {

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
#include <vector>

#include "rlcore/agent/gsm8k_interaction.hpp"
#include "rlcore/agent/tool_file.hpp"

RLCORE_BEGIN
namespace agent {

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
