// Agents in Python, by the interfaces of OpenRLHF 0.8 to 0.11.
#include "agent/python_environments.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace python_environments;

TEST_F(PythonEnvironments, a_function_of_openrlhf_0_8_0_returns_the_next_state_and_has_its_globals_to_itself) {
  open_agent(R"py(
turns = 0

async def step(state, action, label, **kwargs):
    global turns
    turns += 1
    if turns < 2:
        return Tensor(0), state + action + " again: ", False, {}
    return Tensor(float(len(label))), state + action + " right", True, {"turns": turns}
)py");
  EXPECT_EQ(env_->what(), agent::environment::kind::agent);
  for (const std::uint64_t c : {1u, 2u}) {
    EXPECT_EQ(env_->open(turn(c, "O")), std::nullopt);
    EXPECT_EQ(told(turn(c, "O", "é")), " again: |0.0|goes on|none");
  }
  for (const std::uint64_t c : {2u, 1u}) {
    EXPECT_EQ(told(turn(c, "Oé again: ", "b")), " right|2.0|done|none");
    env_->close(turn(c));
  }
}

TEST_F(PythonEnvironments, a_function_of_openrlhf_0_8_5_returns_the_next_observation_in_a_dict) {
  open_agent(R"py(
async def step(observation, action, label, **kwargs):
    params = kwargs["sampling_params"]
    return {"rewards": Scalar(0.25), "scores": Tensor(1), "done": action == "end", "sampling_params": params,
            "next_observation": observation + action + "%s %s" % (params.temperature, params.clone().max_tokens),
            "extra_logs": {"length": len(action)}}
)py");
  env_->open(turn(1, "O"));
  EXPECT_EQ(told(turn(1, "O", "a")), "1.0 64|0.25|goes on|1.0");
  EXPECT_EQ(told(turn(1, "Oa1.0 64", "end")), "1.0 64|0.25|done|1.0");
  open_agent("def step(observation, action, label):\n  return 1, observation + action, True\n");
  env_->open(turn(1, "O"));
  EXPECT_EQ(told(turn(1, "O", "a")), "|1.0|done|none");
}

TEST_F(PythonEnvironments, a_next_state_that_changes_the_past_is_an_error) {
  open_agent("def step(observation, action, label):\n  return 1, observation[1:] + action + '!', True\n");
  EXPECT_EQ(failure("a"),
            "ValueError: the next state of step() does not begin with the observation and the action; what the policy "
            "has read and written cannot be changed");
}

/// An agent of all versions from 0.8.11 on, but for how it begins and ends.
std::string class_with(const std::string& begin, const std::string& end) {
  return "class AgentInstance(AgentInstanceBase):\n    " + begin + R"py(
        self.turns = 0

    async def reset(self, states: dict, **kwargs):
        return {"observation": states["observation"] + " of " + states["label"] if states["observation"] else ""}

    async def step(self, states: dict, **kwargs):
        self.turns += 1
        await asyncio.sleep(0.001)
        seen = [states[n] for n in ("observation_text", "action_text", "label")]
        return {"rewards": Tensor(float(self.turns)), "scores": Tensor(self.turns / 2), "done": self.turns == 2,
                "environment_feedback": json.dumps(seen), "environment_images": None,
                "sampling_params": states.get("sampling_params", None), "extra_logs": {"turns": Tensor(self.turns)}}

)py" + end;
}

TEST_F(PythonEnvironments, a_class_of_an_agent_has_an_instance_for_each_conversation) {
  const std::string old_init = "async def __init__(self, *args, **kwargs):",
                    init = "def __init__(self, *args, **kwargs):";
  const std::string old_executor =
      "class AgentExecutor(AgentExecutorBase):\n"
      "    def __init__(self, max_steps, max_length, llm_engine, hf_tokenizer, result_queue):\n"
      "        super().__init__(AgentInstance, max_steps, max_length, llm_engine, hf_tokenizer, result_queue)\n"
      "    async def execute(self, prompt, label, sampling_params):\n"
      "        return await super().execute(prompt, label, sampling_params)\n";
  const std::string executor =
      "class AgentExecutor(MultiTurnAgentExecutor):\n    def __init__(self):\n        "
      "super().__init__(AgentInstance)\n";
  for (const std::string& text : {class_with(old_init, old_executor), class_with(old_init, executor),
                                  class_with(init, executor), class_with(init, "")}) {
    open_agent(text, {.processes = 2});
    EXPECT_EQ(env_->open(turn(1, "O")), "O of 42");
    EXPECT_EQ(env_->open(turn(2)), std::nullopt);  // what it changes is nothing
    EXPECT_EQ(told(turn(1, "P", "a\"\n")), R"(["P", "a\"\n", "42"]|1.0|goes on|0.5)");
    EXPECT_EQ(told(turn(2, "Q", "b")), R"(["Q", "b", "42"]|1.0|goes on|0.5)");
    EXPECT_EQ(told(turn(1, "R", "c")), R"(["R", "c", "42"]|2.0|done|1.0)");
  }
}

TEST_F(PythonEnvironments, an_executor_may_name_a_class_of_another_name) {
  open_agent(R"py(
class Env(AgentInstanceBase):
    def __init__(self):
        pass
    async def step(self, states):
        return {"rewards": 1, "environment_feedback": "", "done": True}

class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(Env)
)py");
  EXPECT_EQ(env_->open(turn(1, "O")), std::nullopt);
  EXPECT_EQ(told(turn(1, "O", "a")), "|1.0|done|none");
}

/// An agent that does what the action says.
constexpr const char* doing = R"py(
class AgentInstance:
    def reset(self, states):
        what = states["observation"]
        if what == "fail":
            raise RuntimeError("no prompt")
        if what.startswith("sleep"):
            time.sleep(float(what[5:]))
        return {"observation": what} if what != "number" else {"observation": 7} if what != "none" else None

    async def step(self, states):
        result = {"rewards": 0.5, "environment_feedback": "said", "done": False}
        change = getattr(self, states["action_text"].split()[0])(result, states, *states["action_text"].split()[1:])
        if asyncio.iscoroutine(change):
            await change
        return result if result else change

    def say(self, result, states, text):
        result["environment_feedback"] = text

    def keep(self, result, states, text):
        self.kept = text

    def kept_text(self, result, states):
        result["environment_feedback"] = self.kept

    def set(self, result, states, name, value):
        result[name] = eval(value)

    def drop(self, result, states, name):
        del result[name]

    def nothing(self, result, states):
        result.clear()

    def fail(self, result, states):
        raise KeyError("no key")

    def leave(self, result, states):
        sys.exit(2)

    async def sleep(self, result, states, seconds):
        await asyncio.sleep(float(seconds))

    def block(self, result, states, seconds):
        time.sleep(float(seconds))

    def exit(self, result, states):
        os._exit(3)

    def show(self, result, states):
        print('{"id": 0, "text": "mine"}')
        os.write(1, b"raw\n")

    def pid(self, result, states):
        result["environment_feedback"] = str(os.getpid())

    def params(self, result, states, code):
        p = states["sampling_params"]
        result["sampling_params"] = eval(code)

    def assign(self, result, states, name, value):
        setattr(states["sampling_params"], name, float(value))
)py";

TEST_F(PythonEnvironments, rewards_are_numbers) {
  open_agent(doing);
  env_->open(turn(1));
  EXPECT_EQ(told(turn(1, "", "set rewards Tensor(-2)")), "said|-2.0|goes on|none");
  EXPECT_EQ(told(turn(1, "", "set rewards True")), "said|1.0|goes on|none");
  EXPECT_EQ(told(turn(1, "", "set scores 0.125")), "said|0.5|goes on|0.125");
  EXPECT_EQ(told(turn(1, "", "set scores None")), "said|0.5|goes on|none");
  EXPECT_EQ(failure("set rewards float('nan')"), "ValueError: rewards of step() is nan");
  EXPECT_EQ(failure("set scores Tensor(float('-inf'))"), "ValueError: scores of step() is -inf");
  EXPECT_EQ(failure("set rewards '1'"), "TypeError: rewards of step() is str; expected a number");
  EXPECT_EQ(failure("set rewards None"), "TypeError: rewards of step() is NoneType; expected a number");
  EXPECT_EQ(failure("set rewards [1]"), "TypeError: float() argument must be a string or a real number, not 'list'");
  EXPECT_EQ(failure("set rewards Tensor(1,2)"), "RuntimeError: a Tensor with 2 elements cannot be converted to Scalar" +
                                                    place_of("raise RuntimeError(\"a Tensor"));
}

TEST_F(PythonEnvironments, what_is_no_reply_of_a_step_is_an_error) {
  open_agent(doing);
  for (const char* name : {"rewards", "environment_feedback", "done"})
    EXPECT_EQ(failure("drop "s + name), "ValueError: step() returned no "s + name);
  EXPECT_EQ(failure("nothing"), "TypeError: step() returned NoneType; expected a dict");
  EXPECT_EQ(failure("set environment_feedback 5"), "TypeError: environment_feedback of step() is int; expected a text");
  EXPECT_EQ(failure("set done None"), "TypeError: done of step() is NoneType; expected True or False");
  EXPECT_EQ(failure("set environment_images [1]"),
            "ValueError: step() returned environment_images; the feedback of agents is text alone");
  env_->open(turn(1));
  EXPECT_EQ(told(turn(1, "", "set environment_images []")), "said|0.5|goes on|none");
  EXPECT_EQ(told(turn(1, "", "set environment_feedback 'a\\ud800'")), "a\uFFFD|0.5|goes on|none");
}

TEST_F(PythonEnvironments, sampling_parameters_stay_as_they_are) {
  open_agent(doing);
  env_->open(turn(1));
  const std::string rest = "; sampling parameters per turn are not supported";
  for (const char* same : {"p", "None", "p.clone()", "{'top_p':0.5}", "type('P',(),dict(vars(p),n=1))()"})
    EXPECT_EQ(told(turn(1, "", "params "s + same)), "said|0.5|goes on|none") << same;
  EXPECT_EQ(failure("params dict(vars(p),top_p=0.9)"), "ValueError: step() set sampling_params.top_p to 0.9" + rest);
  EXPECT_EQ(failure("params {'stop':['x']}"), "ValueError: step() set sampling_params.stop to ['x']" + rest);
  EXPECT_EQ(failure("params type('P',(),dict(vars(p),max_tokens=1))()"),
            "ValueError: step() set sampling_params.max_tokens to 1" + rest);
  EXPECT_EQ(failure("assign temperature 0.5"), "ValueError: step() set sampling_params.temperature to 0.5" + rest);
  EXPECT_EQ(failure("assign min_p 0.5"), "ValueError: step() set sampling_params.min_p to 0.5" + rest);
}

TEST_F(PythonEnvironments, exceptions_are_told_with_their_lines) {
  open_agent(doing);
  EXPECT_EQ(failure("fail"), "KeyError: 'no key'" + place_of("raise KeyError"));
  EXPECT_EQ(failure("leave"), "SystemExit: 2");
  EXPECT_THAT(failure("unknown"), HasSubstr("AttributeError: 'AgentInstance' object has no attribute 'unknown'"));
  const auto opening = [&](const std::string& prompt) {
    return scratch::error_of<agent::tool_error>([&] { env_->open(turn(1, prompt)); });
  };
  EXPECT_EQ(opening("fail"), path() + ": RuntimeError: no prompt" + place_of("raise RuntimeError(\"no prompt"));
  EXPECT_EQ(opening("number"), path() + ": TypeError: observation of reset() is int; expected a text");
}

TEST_F(PythonEnvironments, a_late_step_ends_and_the_process_with_it_if_need_be) {
  open_agent(doing, {.timeout_s = 0.5, .grace_s = 0.5});
  env_->open(turn(1));
  const std::string pid = told(turn(1, "", "pid"));
  EXPECT_EQ(failure("sleep 1000", 2), "timed out after 0.5 s");
  EXPECT_EQ(scratch::error_of<agent::tool_error>([&] { env_->open(turn(3, "sleep0.7")); }),
            path() + ": timed out after 0.5 s");
  EXPECT_EQ(told(turn(1, "", "pid")), pid);
  EXPECT_EQ(failure("block 1000", 2), "timed out after 0.5 s");
  EXPECT_EQ(scratch::error_of<agent::tool_broken>([&] { env_->step(turn(1, "", "pid")); }),
            path() + ": the process that had the conversation has ended, and what the conversation kept there is lost");
  env_->open(turn(1));
  EXPECT_NE(told(turn(1, "", "pid")), pid);
}

TEST_F(PythonEnvironments, the_end_of_the_process_ends_its_conversations) {
  open_agent(doing);
  for (const std::uint64_t c : {1u, 2u, 3u}) env_->open(turn(c));
  EXPECT_EQ(told(turn(1, "", "keep a")), "said|0.5|goes on|none");
  EXPECT_EQ(scratch::error_of<agent::tool_broken>([&] { env_->step(turn(2, "", "exit")); }),
            path() + ": the agent's process ended: exit code 3");
  env_->close(turn(2));
  for (int i = 0; i < 2; ++i)
    scratch::error_of<agent::tool_broken>([&] { env_->step(turn(1, "", "kept_text")); }, {"the process that had"});
  env_->close(turn(1));
  env_->open(turn(1));
  EXPECT_THAT(scratch::error_of<agent::tool_error>([&] { env_->step(turn(1, "", "kept_text")); }),
              HasSubstr("has no attribute 'kept'"));
  EXPECT_EQ(env_->host().counts().restarts, 1);
}

TEST_F(PythonEnvironments, closing_neither_waits_nor_starts_a_process) {
  open_agent(doing, {.timeout_s = 1, .grace_s = 0.5});
  for (const std::uint64_t c : {1u, 2u}) env_->open(turn(c));
  std::thread late([&] { EXPECT_THROW(env_->step(turn(1, "", "block 1000")), agent::tool_error); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begin = std::chrono::steady_clock::now();
  env_->close(turn(2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  late.join();
  for (std::uint64_t c = 0; c < 10; ++c) env_->close(turn(c));
  EXPECT_EQ(children(), processes_before_);
  EXPECT_EQ(env_->host().counts().restarts, 0);
}

TEST_F(PythonEnvironments, what_an_agent_prints_goes_to_standard_error) {
  testing::internal::CaptureStderr();
  open_agent(doing);
  env_->open(turn(1));
  EXPECT_EQ(told(turn(1, "", "show")), "said|0.5|goes on|none");
  env_.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("{\"id\": 0, \"text\": \"mine\"}\nraw\n"));
}

TEST_F(PythonEnvironments, a_thousand_conversations_go_on_side_by_side) {
  open_agent(class_with("def __init__(self):", ""), {.processes = 2});
  std::atomic<std::uint64_t> next{0}, right{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      for (std::uint64_t first = next.fetch_add(125); first < 1000; first = next.fetch_add(125)) {
        const auto each = [&](auto f) {
          for (std::uint64_t c = first; c < first + 125; ++c) right += f(c, std::to_string(c)) ? 1 : 0;
        };
        each([&](auto c, const auto& text) { return env_->open(turn(c, text)) == text + " of 42"; });
        each([&](auto c, const auto& text) { return told(turn(c, text, "a")).ends_with("|1.0|goes on|0.5"); });
        each([&](auto c, const auto& text) { return told(turn(c, text, "b")).ends_with("|2.0|done|1.0"); });
        each([&](auto c, const auto&) { return env_->close(turn(c)), true; });
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(right, 4000u);
  EXPECT_EQ(env_->host().counts().errors + env_->host().counts().timeouts, 0);
}

TEST_F(PythonEnvironments, conversations_that_have_ended_leave_nothing) {
  open_agent(std::string(doing) +
             "\nimport gc\nclass AgentInstance(AgentInstance):\n  def say(self, result, states, x):\n"
             "    gc.collect(); result['environment_feedback'] = str(sum(type(o).__name__ == "
             "'AgentInstance' for o in gc.get_objects()))\n  def __init__(self): self.much = [0] * 50000\n");
  for (std::uint64_t c = 0; c < 3000; ++c) {
    env_->open(turn(c));
    env_->close(turn(c));
  }
  env_->open(turn(5000));
  EXPECT_EQ(told(turn(5000, "", "say x")), "1|0.5|goes on|none");
}

TEST_F(PythonEnvironments, what_is_no_agent_is_refused) {
  const std::string own = R"py(
import no_such_vllm
class Base(AgentExecutorBase):
    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine):
        return await llm_engine.generate(prompt)
class AgentExecutor(Base):
    pass
)py";
  EXPECT_EQ(refusal(own),
            path() +
                ": TypeError: AgentExecutor has an execute() of its own (line 18), which calls vLLM; rlcore "
                "needs a class AgentInstance with reset() and step() instead");
  const std::string wanted = path() +
                             ": TypeError: expected a class AgentInstance with reset() and step(), or a function "
                             "step(observation, action, label)";
  EXPECT_EQ(refusal(""), wanted);
  EXPECT_EQ(refusal("from openrlhf.utils.agent import SingleTurnAgentExecutor\n"
                    "class AgentExecutor(SingleTurnAgentExecutor):\n  pass\n"),
            wanted);
  EXPECT_EQ(refusal("import no_such_torch\n"),
            path() + ": ModuleNotFoundError: No module named 'no_such_torch' (" + path() + ", line 15)");
  EXPECT_THAT(refusal("x = (\n"), HasSubstr("SyntaxError: '(' was never closed (my_agent.py, line 15)"));
  EXPECT_EQ(refusal("os._exit(6)"), path() + ": python3 ended while it loaded the agents: exit code 6");
  EXPECT_THAT(scratch::error_of<config_error>([&] { agent::open_python_agent(place_ / "no.py", json::object(), {}); }),
              HasSubstr("FileNotFoundError"));
}

TEST_F(PythonEnvironments, an_installed_openrlhf_is_used_if_it_can_be_imported) {
  std::filesystem::create_directories(place_ / "openrlhf/utils");
  scratch::write(place_ / "openrlhf/utils/rest.py", "word = 'the rest'\n");
  scratch::write(place_ / "openrlhf/utils/agent.py",
                 "class AgentInstanceBase:\n  origin = 'installed'\n"
                 "class AgentExecutorBase: pass\nclass MultiTurnAgentExecutor: pass\n");
  for (const bool whole : {true, false}) {
    scratch::write(place_ / "openrlhf/__init__.py", whole ? "" : "import no_such_ray\n");
    open_agent(
        "from openrlhf.utils.rest import word\nclass AgentInstance(AgentInstanceBase):\n"
        "  async def step(self, states):\n    return {'rewards': 0, 'done': False, 'environment_feedback':\n"
        "            getattr(self, 'origin', 'replaced') + ', ' + word}\n");
    env_->open(turn(1));
    EXPECT_EQ(env_->step(turn(1)).text, whole ? "installed, the rest" : "replaced, the rest");
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
