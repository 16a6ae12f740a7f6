// Environments written in Python: agents of OpenRLHF, interactions of verl.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/python_host.hpp"
#include "rlcore/agent/tool_file.hpp"

RLCORE_BEGIN
namespace agent {

/// Environments by their names.
using environments = std::map<std::string, std::shared_ptr<environment>>;

/// An environment that a python_host has loaded. All calls of a conversation go to the process of its (row, sample).
/// open() and step() throw tool_error for an exception in Python, with the line of the user's file, for a reply of
/// another shape and for a timeout; tool_broken for the end of the process, and for a conversation that was in a
/// process that has ended since. close() sends the end and does not wait; an exception there is told on standard error.
class python_environment final : public environment {
 public:
  /// `entry`: its number in the host; `where` names it in messages.
  python_environment(std::shared_ptr<python_host> host, kind what, std::size_t entry, std::string where)
      : host_(std::move(host)), what_(what), entry_(entry), where_(std::move(where)) {}
  kind what() const override { return what_; }
  std::optional<std::string> open(const turn_request& request) override;
  turn_reply step(const turn_request& request) override;
  void close(const turn_request& request) noexcept override;
  /// The processes it shares with the other environments of its file.
  const python_host& host() const { return *host_; }

 private:
  /// What `read` makes of the process's answer.
  template <class Read>
  auto ask(const char* what, const turn_request& request, Read read);

  std::shared_ptr<python_host> host_;
  kind what_;
  std::size_t entry_;
  std::string where_;
};

/// The text in a process's answer to the opening of a conversation: {"text"}, null for none. Throws tool_broken for
/// another shape.
std::optional<std::string> read_opening(const nlohmann::ordered_json& answer);

/// The reply in a process's answer to a turn: {"text", "done", "reward"}, perhaps "score" and "logs", numbers by name.
/// Throws tool_broken for another shape.
turn_reply read_turn_reply(const nlohmann::ordered_json& answer);

/// The agent of a file, as OpenRLHF's --agent_func_path names it: a class AgentInstance with reset() and step(), or
/// a function step() (OpenRLHF 0.8.0 to 0.8.10), whose file runs once for each conversation. The functions get
/// `sampling`, an object, as the attributes of sampling_params and may not change it. Where openrlhf.utils.agent cannot
/// be imported, it is replaced. Throws config_error for a file without an agent, for an AgentExecutor with an
/// execute() of its own, and with Python's message for a file that cannot be loaded.
std::shared_ptr<python_environment> open_python_agent(const std::filesystem::path& file,
                                                      const nlohmann::ordered_json& sampling,
                                                      const python_host_settings& settings);

/// The interactions of `entries`, classes with verl's interface (its releases 0.5 to 0.7), by one python_host. `file`
/// names them. Where verl.interactions.base cannot be imported, it is replaced. Throws as python_host does.
environments open_python_interactions(const std::vector<interaction_entry>& entries, const std::filesystem::path& file,
                                      const python_host_settings& settings);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <exception>

#include "rlcore/agent/tool.hpp"
#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE std::optional<std::string> read_opening(const nlohmann::ordered_json& answer) {
  if (answer.contains("text") && answer["text"].is_null()) return {};
  detail::expect_member(answer, "text", &nlohmann::ordered_json::is_string, "a text or null");
  return answer["text"].get<std::string>();
}

RLCORE_INLINE turn_reply read_turn_reply(const nlohmann::ordered_json& answer) {
  using json = nlohmann::ordered_json;
  detail::expect_member(answer, "text", &json::is_string, "a text");
  detail::expect_member(answer, "done", &json::is_boolean, "true or false");
  detail::expect_member(answer, "reward", &json::is_number, "a number");
  turn_reply reply{
      answer["text"].get<std::string>(), answer["done"].get<bool>(), answer["reward"].get<double>(), {}, {}};
  if (answer.contains("score") && !answer["score"].is_null()) {
    detail::expect_member(answer, "score", &json::is_number, "a number or null");
    reply.score = answer["score"].get<double>();
  }
  if (!answer.contains("logs")) return reply;
  detail::expect_member(answer, "logs", &json::is_object, "numbers by name");
  for (const auto& [name, x] : answer["logs"].items()) {
    detail::expect_member(answer["logs"], name, &json::is_number, "a number");
    reply.logs[name] = x.get<double>();
  }
  return reply;
}

template <class Read>
auto python_environment::ask(const char* what, const turn_request& request, Read read) {
  nlohmann::ordered_json given;
  if (what_ == kind::agent) {
    given = {{"observation", request.observation}, {"action", request.action}, {"label", request.label}};
  } else {
    const bool has_kwargs = request.kwargs != nullptr && request.kwargs->is_object();
    given = {{"kwargs", has_kwargs ? *request.kwargs : nlohmann::ordered_json::object()},
             {"messages", request.messages}};
  }
  const std::string where = where_ + ": ";
  try {
    return read(host_->ask(request.row, request.sample,
                           {{"conversation", request.conversation},
                            {"do", what},
                            {"environment", entry_},
                            {"given", text::exact_dump(given)}}));
  } catch (const tool_broken& e) {
    throw tool_broken(where + e.what());
  } catch (const tool_error& e) {
    throw tool_error(where + e.what());
  }
}

RLCORE_INLINE std::optional<std::string> python_environment::open(const turn_request& request) {
  try {
    return ask("open", request, read_opening);
  } catch (const tool_error&) {
    close(request);  // a late one may have opened it all the same
    throw;
  }
}

RLCORE_INLINE turn_reply python_environment::step(const turn_request& request) {
  return ask("step", request, read_turn_reply);
}

RLCORE_INLINE void python_environment::close(const turn_request& request) noexcept {
  try {
    host_->tell(request.row, request.sample, {{"conversation", request.conversation}, {"do", "close"}});
  } catch (const std::exception&) {  // no memory
  }
}

RLCORE_INLINE std::shared_ptr<python_environment> open_python_agent(const std::filesystem::path& file,
                                                                    const nlohmann::ordered_json& sampling,
                                                                    const python_host_settings& settings) {
  nlohmann::ordered_json wanted{{"what", "agents"}, {"sampling_params", sampling}};
  auto host = std::make_shared<python_host>(std::move(wanted), "agent", file, settings);
  return std::make_shared<python_environment>(std::move(host), environment::kind::agent, 0, file.string());
}

RLCORE_INLINE environments open_python_interactions(const std::vector<interaction_entry>& entries,
                                                    const std::filesystem::path& file,
                                                    const python_host_settings& settings) {
  nlohmann::ordered_json wanted{{"what", "interactions"}, {"classes", nlohmann::ordered_json::array()}};
  for (const interaction_entry& e : entries)
    wanted["classes"].push_back({{"class_name", e.class_name}, {"config", e.config}});
  const auto host = std::make_shared<python_host>(std::move(wanted), "interaction", file, settings);
  environments opened;
  for (std::size_t i = 0; i < entries.size(); ++i)
    opened[entries[i].name] =
        std::make_shared<python_environment>(host, environment::kind::user, i, "interaction " + entries[i].name);
  return opened;
}

}  // namespace agent
RLCORE_END
#endif
