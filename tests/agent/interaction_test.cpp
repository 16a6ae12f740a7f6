// Interactions: in Python by verl's interface, GSM8K's, and the files that name them.
#include "agent/python_environments.hpp"
#include "rlcore/agent/builtin_tools.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace python_environments;

constexpr const char* users = R"py(
import asyncio, json, os, sys, time
from typing import Any, Optional
from uuid import uuid4

from verl.interactions.base import BaseInteraction


class Checker(BaseInteraction):  # as verl's own examples are
    def __init__(self, config: dict):
        super().__init__(config)
        self._instances = {}

    async def start_interaction(self, instance_id: Optional[str] = None, ground_truth: Optional[str] = None, **kwargs):
        self._instances[instance_id] = [ground_truth, sorted(kwargs)]
        return instance_id

    async def generate_response(self, instance_id: str, messages: list[dict[str, Any]], **kwargs):
        mine = self._instances[instance_id]
        text = json.dumps([self.name, self.config["limit"], len(self._instances), *mine, messages[-1], sorted(kwargs)])
        mine.append(1)
        return len(messages) > 2, text, 0.5 * len(messages), {}

    async def finalize_interaction(self, instance_id: str, **kwargs):
        del self._instances[instance_id]


class Plain:  # no base class, plain methods, no kwargs
    def __init__(self, config):
        self.ended = 0

    def start_interaction(self, instance_id):
        pass

    def generate_response(self, instance_id, messages):
        what = messages[-1]["content"]
        if what == "fail":
            raise ValueError("no answer")
        if what == "exit":
            os._exit(3)
        return eval(what)

    def finalize_interaction(self):
        self.ended += 1
        raise RuntimeError("not ended")


class Slow(BaseInteraction):
    async def generate_response(self, instance_id, messages, **kwargs):
        await asyncio.sleep(1000)

    async def finalize_interaction(self, instance_id):
        await asyncio.sleep(0.1)
        with open(self.config["name"] + "_" + instance_id, "w"):
            pass
)py";

agent::turn_request said(std::uint64_t conversation, const std::string& text, const json* kwargs = nullptr) {
  agent::turn_request request;
  request.conversation = conversation, request.kwargs = kwargs;
  request.messages = {{{"role", "user"}, {"content", "?"}}, {{"role", "assistant"}, {"content", text}}};
  return request;
}

TEST_F(PythonEnvironments, an_interaction_of_verl_is_one_object_with_instances) {
  const agent::environments opened = open_users(users, {"Checker", "Plain", "Checker"});
  agent::environment& a = *opened.at("a");
  EXPECT_EQ(a.what(), agent::environment::kind::user);
  const json kwargs{{"name", "a"}, {"ground_truth", "42"}, {"more", 1}, {"method", "x"}};
  const std::string last = R"({"role": "assistant", "content": "\u00e9"}, ["ground_truth", "method", "more", "name"]])";
  for (const std::uint64_t c : {1u, 2u}) EXPECT_EQ(a.open(said(c, "", &kwargs)), std::nullopt);
  EXPECT_EQ(told(a, said(1, "é", &kwargs)),
            R"(["a", 3, 2, "42", ["method", "more", "name"], )" + last + "|1.0|goes on|none");
  a.close(said(2, ""));
  agent::turn_request third = said(1, "é", &kwargs);
  third.messages.insert(third.messages.begin(), json{{"role", "system"}, {"content", "s"}});
  EXPECT_EQ(told(a, third), R"(["a", 3, 1, "42", ["method", "more", "name"], 1, )" + last + "|1.5|done|none");
  opened.at("c")->open(said(7, ""));
  EXPECT_EQ(told(*opened.at("c"), said(7, "b")),
            R"(["c", 3, 1, null, [], {"role": "assistant", "content": "b"}, []]|1.0|goes on|none)");
}

TEST_F(PythonEnvironments, an_interaction_needs_no_base_class_and_no_kwargs) {
  testing::internal::CaptureStderr();
  agent::environments opened = open_users(users, {"Plain"});
  agent::environment& a = *opened.at("a");
  const json kwargs{{"name", "a"}, {"ground_truth", "42"}};
  const auto failure = [&](const std::string& text) {
    return scratch::error_of<agent::tool_error>([&] { a.step(said(1, text)); });
  };
  a.open(said(1, "", &kwargs));
  EXPECT_EQ(told(a, said(1, "True, 'bye', None, {}", &kwargs)), "bye|0.0|done|none");
  EXPECT_EQ(told(a, said(1, "[False, str(self.ended), 2]")), "0|2.0|goes on|none");
  EXPECT_EQ(failure("5"),
            "interaction a: TypeError: generate_response() returned int; expected (should_terminate, text, "
            "score, metrics)");
  EXPECT_EQ(failure("True, None, 0.0, {}"),
            "interaction a: TypeError: the text of generate_response() is NoneType; expected a text");
  EXPECT_EQ(failure("True, '', float('inf'), {}"),
            "interaction a: ValueError: the score of generate_response() is inf");
  EXPECT_EQ(failure("fail"),
            "interaction a: ValueError: no answer" + place_of("raise ValueError", place_ / "my_users.py"));
  a.close(said(1, ""));
  a.open(said(2, ""));
  EXPECT_EQ(told(a, said(2, "False, str(self.ended), 2, {}")), "1|2.0|goes on|none");
  EXPECT_THAT(failure("1"), HasSubstr("the process that had the conversation has ended"));  // it has been closed
  EXPECT_EQ(scratch::error_of<agent::tool_broken>([&] { a.step(said(2, "exit")); }),
            "interaction a: the interaction's process ended: exit code 3");
  scratch::error_of<agent::tool_broken>([&] { a.step(said(2, "True, '', 0, {}")); }, {"what the conversation kept"});
  opened.clear();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("rlcore: the end of a conversation: RuntimeError: not ended ("));
}

TEST_F(PythonEnvironments, conversations_end_before_the_processes_do) {
  const std::string where = (place_ / "ended").string();
  scratch::write(place_ / "my_users.py", users);
  agent::environments opened =
      agent::open_python_interactions({{"s", "my_users.Slow", {{"name", where}}}}, file(), {.timeout_s = 0.5});
  opened.at("s")->open(said(1, ""));
  EXPECT_EQ(scratch::error_of<agent::tool_error>([&] { opened.at("s")->step(said(1, "a")); }),
            "interaction s: timed out after 0.5 s");
  const auto begin = std::chrono::steady_clock::now();
  opened.at("s")->close(said(1, ""));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(80));
  opened.clear();
  std::size_t ended = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place_.path()))
    ended += entry.path().string().starts_with(where + "_") ? 1 : 0;
  EXPECT_EQ(ended, 1u);
}

TEST_F(PythonEnvironments, an_interaction_that_cannot_be_loaded_is_refused) {
  const auto refusal = [&](const std::string& name) {
    return scratch::error_of<config_error>([&] { open_users(users, {"Checker", name}); });
  };
  const std::string where = file().string() + ": class_name my_users.";
  EXPECT_EQ(refusal("No"), where + "No: AttributeError: module 'my_users' has no attribute 'No'");
  EXPECT_THAT(refusal("Optional"), HasSubstr(where + "Optional: TypeError: "));
}

TEST_F(PythonEnvironments, a_file_names_interactions_and_an_agent_is_a_file) {
  scratch::write(place_ / "my_users.py", users);
  const auto yaml = place_ / "interactions.json";
  scratch::write(yaml, R"({"interaction": [{"class_name": "verl.interactions.gsm8k_interaction.Gsm8kInteraction",
                           "config": {}}, {"name": "other", "class_name": "my_users.Plain"}]})");
  const agent::environments opened = agent::open_interactions(yaml, {.processes = 1});
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_NE(dynamic_cast<agent::gsm8k_interaction*>(opened.at("gsm8k").get()), nullptr);
  opened.at("other")->open(said(1, ""));
  EXPECT_EQ(told(*opened.at("other"), said(1, "True, 'bye', 1, {}")), "bye|1.0|done|none");
  scratch::write(path(),
                 "def step(observation, action, label, sampling_params):\n"
                 "  return sampling_params.top_k, observation + action + '.', False\n");
  const auto agent = agent::open_agent(path(), {.processes = 1}, {{"top_k", 5}});
  agent->open(turn(1, "O"));
  EXPECT_EQ(told(*agent, turn(1, "O", "a")), ".|5.0|goes on|none");
}

TEST(interaction_files, entries_have_names) {
  const scratch::folder place;
  const auto file = place / "i.json";
  const auto read = [&](const std::string& list) {
    scratch::write(file, "{\"interaction\": " + list + "}");
    return agent::read_interaction_file(file);
  };
  const auto entries = read(R"([{"class_name": "a.b.WeatherInteraction", "config": {"x": null, "name": "no"}},
                                {"class_name": "Talk", "name": null},
                                {"class_name": "a.Talk", "name": "Mine", "config": null}])");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name + " " + entries[0].class_name + " " + entries[0].config.dump(),
            R"(weather a.b.WeatherInteraction {"x":null,"name":"weather"})");
  EXPECT_EQ(entries[1].name + " " + entries[1].config.dump(), R"(talk {"name":"talk"})");
  EXPECT_EQ(entries[2].name + " " + entries[2].config.dump(), R"(Mine {"name":"Mine"})");
  const auto refusal = [&](const std::string& list) {
    const std::string what = scratch::error_of<config_error>([&] { read(list); });
    EXPECT_TRUE(what.starts_with(file.string() + ": ")) << what;
    return what.substr(std::min(what.size(), file.string().size() + 2));
  };
  EXPECT_EQ(refusal("[]"), "interaction is empty");
  EXPECT_EQ(refusal("5"), "expected interaction: a list of {name, class_name, config}");
  EXPECT_EQ(refusal("[{}]"), "interaction[0]: expected class_name, a text");
  EXPECT_EQ(refusal(R"([{"class_name": "A", "config": []}])"), "interaction[0].config: expected a map");
  EXPECT_EQ(refusal(R"([{"class_name": "A", "name": 5}])"), "interaction[0].name: expected a text");
  EXPECT_EQ(refusal(R"([{"class_name": "x.AInteraction"}, {"class_name": "y.A"}])"),
            "interaction[1]: 'a' is the name of another one; give each a name of its own");
}

TEST(gsm8k_interaction, answers_as_verls_own_class_does) {
  const auto a = [](const std::string& text) { return json{{"role", "assistant"}, {"content", text}}; };
  const auto u = [](const std::string& text) { return json{{"role", "user"}, {"content", text}}; };
  const auto times = [](int n, const std::string& text) {
    std::string all;
    for (int i = 0; i < n; ++i) all += text;
    return all;
  };
  struct example {
    std::string truth;
    std::vector<json> messages;
    bool right;  // what the class of verl 0.7.0 said
  };
  const std::vector<example> examples{{"72", {a("#### 72")}, true},
                                      {"72", {a("The answer is #### 72.")}, false},
                                      {"72", {a("72")}, false},
                                      {"72", {a("#### 73")}, false},
                                      {"72", {a("####72")}, false},
                                      {"72", {a("#### 71 and #### 72")}, true},
                                      {"72", {a("#### 72 and #### 71")}, false},
                                      {"1200", {a("#### 1,200")}, true},
                                      {"1,200", {a("#### 1,200")}, false},
                                      {"-5", {a("#### -5")}, true},
                                      {"5", {a("#### -5")}, false},
                                      {"72", {a("#### $72")}, false},
                                      {"72", {a("#### 72.0")}, false},
                                      {"72.0", {a("#### 72.0")}, true},
                                      {"72", {a("")}, false},
                                      {"72", {a("#### 72" + times(293, "x"))}, true},
                                      {"72", {a("#### 72" + times(294, "x"))}, false},
                                      {"72", {a("#### 72" + times(293, "é"))}, true},
                                      {"72", {a("#### 72" + times(294, "é"))}, false},
                                      {"72", {a("####  72")}, false},
                                      {"72", {a("#### 72 apples")}, true},
                                      {"72", {a("#### seventy-two")}, false},
                                      {"72", {a("\\boxed{72}")}, false},
                                      {"72", {a("#### 72,")}, true},
                                      {"72", {a("#### ,72")}, true},
                                      {".", {a("#### .")}, true},
                                      {"72", {a("#### 7٢")}, false},
                                      {"72", {a("##### 72")}, true},
                                      {"72", {a("#### --72")}, false},
                                      {"72", {a("#### 72"), u("sure?")}, true},
                                      {"72", {a("#### 72"), u("sure?"), a("no")}, false},
                                      {"72", {a("no"), u("#### 72"), a("yes #### 72")}, true},
                                      {"72", {u("#### 72")}, false},
                                      {"72", {a("#### 72\n#### x")}, true},
                                      {"0.5", {a("#### 0.5")}, true},
                                      {"7", {a("#### 7#### 8")}, false}};
  agent::gsm8k_interaction user;
  EXPECT_EQ(user.what(), agent::environment::kind::user);
  for (const example& e : examples) {
    agent::turn_request request;
    const json kwargs{{"ground_truth", e.truth}};
    request.kwargs = &kwargs, request.messages = json(e.messages);
    EXPECT_EQ(user.open(request), std::nullopt);
    const agent::turn_reply reply = user.step(request);
    EXPECT_EQ(reply.done, e.right) << request.messages;
    EXPECT_EQ(reply.reward, e.right ? 1.0 : 0.0);
    EXPECT_EQ(reply.text, e.right ? "Your response is correct!"
                                  : "Your response is incorrect! You need to reflect on your answer and try again.");
  }
  const std::string lacking = "the row has no text as interaction_kwargs.ground_truth";
  EXPECT_EQ(scratch::error_of<agent::tool_error>([&] { user.open({}); }), lacking);
  const json number{{"ground_truth", 72}};
  EXPECT_EQ(scratch::error_of<agent::tool_error>([&] { user.step(said(1, "", &number)); }), lacking);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
