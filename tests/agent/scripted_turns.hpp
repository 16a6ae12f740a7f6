// Scripted turns of a policy, and a driver that plays the engine.
#pragma once

#include "rlcore/agent/conversations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "support/thrown.hpp"

namespace scripted_turns {

using namespace rlcore;
using namespace std::chrono_literals;
using agent::conversations;
using agent::tool_reply;
using agent::tool_request;
using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using ids = std::vector<std::int32_t>;
using function = std::function<tool_reply(const tool_request&)>;

/// A file of tests/reference that is read once.
inline const ordered_json& golden(const std::string& file = "tool_loop.json") {
  static std::map<std::string, ordered_json> all;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ordered_json& json = all[file];
  if (json.is_null()) json = ordered_json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/" + file));
  return json;
}
inline const text::tokenizer& tokenizer() {
  static const auto t = text::tokenizer::load(RLCORE_REFERENCE_DIR "/tool_loop_tokenizer");
  return t;
}
inline std::int32_t end_mark() { return *tokenizer().id_of("<|im_end|>"); }

inline text::chat_template chat_of(const std::string& name) {
  return text::chat_template::named(name == "qwen2.5" ? "qwen2.5" : "qwen3");
}
inline std::optional<bool> thinking_of(const std::string& name) {
  return name == "qwen3 without thoughts" ? std::optional(false) : std::nullopt;
}
inline agent::reply_tokens replies_of(const std::string& name, bool special = false, bool newline = true) {
  const ids ends{end_mark(), *tokenizer().id_of("<|endoftext|>")};
  return {
      chat_of(name), tokenizer(), ends, {.enable_thinking = thinking_of(name), .newline = newline, .special = special}};
}

/// The messages of a prompt of a reference file.
inline std::vector<text::message> messages_of(const ordered_json& prompt) {
  std::vector<text::message> messages;
  for (const ordered_json& m : prompt.at("messages")) {
    messages.push_back({m.at("role"), m.at("content")});
    for (const ordered_json& call : m.value("tool_calls", ordered_json::array()))
      messages.back().tool_calls.push_back({call.at("function").at("name"), call.at("function").at("arguments")});
  }
  return messages;
}

/// The tools of the reference program: the same texts, rewards and failures.
inline tool_reply use(const tool_request& r) {
  const auto argument = [&](const char* name) -> const ordered_json& {
    if (!r.arguments.is_object()) throw agent::tool_error("the arguments are no object");
    if (!r.arguments.contains(name)) throw agent::tool_error("'" + std::string(name) + "'");
    return r.arguments.at(name);
  };
  if (r.name == "quiet") return {""};
  if (r.name == "recall") return {r.kwargs != nullptr ? r.kwargs->at("word").get<std::string>() : "no word", 1};
  if (r.name == "fail") throw agent::tool_error(argument("message").get<std::string>());
  const ordered_json& said = argument("text");
  if (!said.is_string()) throw agent::tool_error("text is no string");
  if (r.name == "echo") return {said.get<std::string>(), 0.25};
  tool_reply repeated{"", -0.5};
  for (int i = 0; i < argument("count").get<int>(); ++i) repeated.text += said.get_ref<const std::string&>();
  return repeated;
}

/// The tools of all rows, run by `f`, and stand-ins for unknown tools: what verl says of them.
class toolbox {
 public:
  explicit toolbox(const function& f = use) {
    for (const ordered_json& schema : golden().at("tools")) add(schema, f);
  }
  void add(const ordered_json& schema, const function& f) {
    auto t = std::make_shared<agent::function_tool<function>>(schema, f);
    tools_.insert_or_assign(t->name(), std::move(t));
  }
  agent::tool* at(const std::string& name) const { return tools_.at(name).get(); }

 private:
  std::map<std::string, std::shared_ptr<agent::tool>> tools_;
};

/// The prompts of a file have the tokens that they have here.
inline void expect_prompts(const std::string& file) {
  const toolbox tools;
  for (const ordered_json& p : golden(file).at("prompts")) {
    std::vector<ordered_json> schemas;
    if (p.at("tools").is_array())
      for (const ordered_json& name : p.at("tools")) schemas.push_back(tools.at(name)->schema());
    const std::string chat = p.at("chat");
    EXPECT_EQ(
        tokenizer().encode(chat_of(chat).render(
            messages_of(p), {.add_generation_prompt = true, .enable_thinking = thinking_of(chat), .tools = schemas})),
        p.at("ids").get<ids>())
        << p.at("messages");
  }
}

/// A conversation as verl led it, of a file that has `prompts`.
struct script {
  const ordered_json *json, *prompts;
  std::vector<ids> turns;

  script(const ordered_json& j, const ordered_json& prompts_of_file)
      : json(&j), prompts(&prompts_of_file), turns(j.at("turns").get<std::vector<ids>>()) {}
  const ordered_json& prompt() const { return prompts->at(json->at("prompt").get<std::size_t>()); }
  std::vector<text::message> messages() const { return messages_of(prompt()); }
  std::string chat() const { return prompt().at("chat"); }
  std::string kind() const { return json->at("kind"); }
  /// Of unknown tools.
  const ordered_json& replies() const {
    static const ordered_json none = ordered_json::object();
    const auto found = json->find("replies");
    return found == json->end() ? none : *found;
  }
  std::string differs() const { return json->value("differ", ""); }
  agent::conversation_settings settings(std::int64_t workers = 2) const {
    const std::string side = json->at("tool_response_truncate_side");
    return {.max_response_length = json->at("response_length"),
            .max_assistant_turns = json->value("max_assistant_turns", std::int64_t{0}),
            .max_user_turns = json->value("max_user_turns", std::int64_t{0}),
            .max_parallel_calls = json->at("max_parallel_calls"),
            .max_tool_text = json->at("max_tool_response_length"),
            .cut = side == "left"    ? agent::cut_side::left
                   : side == "right" ? agent::cut_side::right
                                     : agent::cut_side::middle,
            .workers = workers};
  }
  /// What must be equal in conversations of one call.
  std::string company() const {
    std::string all = chat() + differs();
    for (const char* name : {"response_length", "max_assistant_turns", "max_user_turns", "max_parallel_calls",
                             "max_tool_response_length", "tool_response_truncate_side"})
      all += " " + json->value(name, ordered_json()).dump();
    return all;
  }
  agent::row_setup tools(const toolbox& all, const toolbox* unknown = nullptr) const {
    agent::row_setup row;
    const auto add = [&](agent::tool* t) {
      row.tools.push_back(t);
      const auto kwargs = json->find("kwargs");
      row.kwargs.push_back(kwargs != json->end() && kwargs->contains(t->name()) ? &kwargs->at(t->name()) : nullptr);
    };
    for (const ordered_json& name : prompt().at("tools")) add(all.at(name));
    for (const auto& [name, text] : replies().items())
      if (unknown != nullptr && !row.tools.empty()) add(unknown->at(name));
    return row;
  }
};
inline std::vector<script> scripts_of(const std::string& file) {
  std::vector<script> all;
  for (const ordered_json& s : golden(file).at("scripts")) all.emplace_back(s, golden(file).at("prompts"));
  return all;
}
inline const std::vector<script>& scripts() {
  static const std::vector<script> all = scripts_of("tool_loop.json");
  return all;
}
inline const std::vector<script>& random_scripts() {
  static const std::vector<script> all = scripts_of("tool_loop_random.json");
  return all;
}

/// Stand-ins for the unknown tools of these scripts. Their texts depend on the tools of the row.
inline toolbox strangers(std::span<const script* const> together, std::atomic<int>& calls) {
  toolbox all;
  for (const script* s : together)
    for (const auto& [name, text] : s->replies().items())
      all.add(agent::function_schema(name, "", {}), [&calls, together](const tool_request& r) {
        ++calls;
        return tool_reply{together[r.row]->replies().at(r.name)};
      });
  return all;
}

/// Run lengths of what the policy drew and of what was appended, in turn.
inline std::vector<std::int64_t> runs(const rollout::response& r) {
  std::vector<std::int64_t> lengths;
  std::int64_t at = 0;
  for (const rollout::context_run& c : r.context) {
    lengths.insert(lengths.end(), {c.begin - at, c.count});
    at = c.begin + c.count;
  }
  lengths.push_back(std::ssize(r.tokens) - at);
  return lengths;
}
inline std::vector<std::string> run_texts(const ids& tokens, const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::int64_t n : lengths) {
    texts.push_back(tokenizer().decode(std::span(tokens).subspan(at, static_cast<std::size_t>(n))));
    at += static_cast<std::size_t>(n);
  }
  return texts;
}

/// What the engine does with a turn_source, where request i draws the turns of `lines[i]`, a turn at a time.
inline std::vector<rollout::response> play(rollout::turn_source& turns, std::span<const rollout::request> requests,
                                           const std::vector<std::vector<ids>>& lines, std::int64_t most) {
  std::vector<rollout::response> responses(requests.size());
  std::vector<std::size_t> number(requests.size());
  std::deque<std::size_t> drawing;
  turns.begin(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) drawing.push_back(i);
  for (std::size_t done = 0; done < requests.size();) {
    bool wait = drawing.empty();
    if (!wait) {
      const std::size_t i = drawing.front(), begin = responses[i].tokens.size();
      drawing.pop_front();
      const ids& said = lines[i].at(number[i]++);
      const auto length = std::min(std::ssize(said), most - static_cast<std::ptrdiff_t>(begin));
      responses[i].tokens.insert(responses[i].tokens.end(), said.begin(), said.begin() + length);
      const std::int32_t last = responses[i].tokens.back();
      const bool eos = last == end_mark() || last == *tokenizer().id_of("<|endoftext|>");
      responses[i].reason = eos ? rollout::finish::eos : rollout::finish::length;
      turns.end_turn(i, responses[i], begin);
    }
    while (auto next = turns.next(wait)) {
      wait = false;
      rollout::response& r = responses[next->request];
      if (next->context.empty()) {
        ++done;
        continue;
      }
      r.context.push_back(
          {static_cast<std::int32_t>(r.tokens.size()), static_cast<std::int32_t>(next->context.size())});
      r.tokens.insert(r.tokens.end(), next->context.begin(), next->context.end());
      drawing.push_back(next->request);
    }
  }
  return responses;
}

/// Scripts of one company, led at the same time.
struct played {
  std::vector<rollout::response> responses;
  std::vector<agent::conversation_record> records;
  int unknown = 0;  ///< calls of stand-ins
};
inline played lead(std::span<const script* const> together, std::int64_t workers, const function& f = use,
                   bool special = false, parallel::any_communicator* group = nullptr, bool with_strangers = true) {
  std::vector<rollout::request> requests;
  std::vector<std::vector<ids>> lines;
  for (const script* s : together) {
    requests.push_back({.prompt = {}, .prompt_number = static_cast<std::uint32_t>(requests.size())});
    lines.push_back(s->turns);
  }
  std::atomic<int> unknown = 0;
  const toolbox tools(f);
  const toolbox others = strangers(together, unknown);
  const agent::reply_tokens replies = replies_of(together[0]->chat(), special);
  const agent::conversation_settings settings = together[0]->settings(workers);
  conversations turns(
      tokenizer(), &replies, settings,
      [&](std::uint32_t row) { return together[row]->tools(tools, with_strangers ? &others : nullptr); }, group);
  played out;
  out.responses = play(turns, requests, lines, settings.max_response_length);
  out.records.assign(turns.records().begin(), turns.records().end());
  out.unknown = unknown;
  return out;
}
inline played lead(const script& s, bool special = false, bool with_strangers = true) {
  const script* const one = &s;
  return lead(std::span(&one, 1), 2, use, special, nullptr, with_strangers);
}

inline std::string why_it_ended(const script& s, const rollout::response& r, const agent::conversation_record& record) {
  const agent::conversation_settings limits = s.settings();
  if (std::ssize(r.tokens) >= limits.max_response_length) return "length";
  if (limits.max_assistant_turns > 0 && record.assistant_turns >= limits.max_assistant_turns) return "assistant turns";
  if (limits.max_user_turns > 0 && record.user_turns >= limits.max_user_turns) return "user turns";
  const std::size_t turn =
      r.context.empty() ? 0 : static_cast<std::size_t>(r.context.back().begin + r.context.back().count);
  const auto said = agent::parse_hermes(tokenizer().decode(std::span(r.tokens).subspan(turn)));
  return said.calls.empty() ? "no call" : "no room";
}

inline void expect_golden(const script& s, const rollout::response& r, const agent::conversation_record& record) {
  const ordered_json& j = *s.json;
  EXPECT_EQ(runs(r), j.at("mask").get<std::vector<std::int64_t>>());
  EXPECT_EQ(r.tokens, j.at("response").get<ids>());
  EXPECT_EQ(record.user_turns + record.assistant_turns + 1, j.at("num_turns"));
  EXPECT_EQ(record.assistant_turns, std::ssize(s.turns));
  if (!j.contains("stop")) return;  // single_turn_agent
  double reward = 0;
  for (const double x : j.at("rewards")) reward += x;
  EXPECT_EQ(record.tool_reward, reward);
  EXPECT_EQ(record.calls, j.at("calls"));
  EXPECT_EQ(record.unread, j.at("unread"));
  EXPECT_EQ(why_it_ended(s, r, record), j.at("stop"));
}

/// What a reply of verl is here, for the scripts that differ on purpose.
inline std::string as_here(const script& s, std::string reply) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    const std::size_t at = reply.find(from);
    if (at != reply.npos) reply.replace(at, from.size(), to);
  };
  const agent::conversation_settings limits = s.settings();
  const std::string failure = "Error executing tool 'fail': 0123456789";
  if (s.kind() == "long failure")  // verl cuts only what tools return
    replace(failure, agent::cut_tool_text(failure, limits.max_tool_text, limits.cut));
  if (s.kind() == "cut to nothing") replace("0123456789", "");  // in Python text[-0:] is all of the text
  if (s.kind() == "zero byte") replace(std::string_view("\0", 1), "\uFFFD");
  if (s.kind() == "line end in a failure") replace("a\nb", "a\\nb");  // an rlcore::error has one line
  return reply;
}

}  // namespace scripted_turns
