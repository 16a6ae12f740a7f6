// Tools written in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "rlcore/agent/python_host.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_file.hpp"

RLCORE_BEGIN
namespace agent {

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
#include <string>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {

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
