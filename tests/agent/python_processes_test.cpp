// The processes of tools in Python: many calls, ends and restarts, what cannot be loaded.
#include "agent/python_tools.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace python_tools;

TEST_F(PythonHost, many_threads_call_at_once) {
  open({"Old", "New", "Do"}, {.processes = 2});
  std::atomic<std::uint32_t> next{0}, right{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 32; ++i)
    callers.emplace_back([&] {
      for (std::uint32_t n = next++; n < 1000; n = next++) {
        const json kwargs{{"ground_truth", n}};
        const std::string x = std::to_string(n);
        const bool old = n % 2 == 0;
        const std::string reply = call(old ? x : "say " + x, old ? 0 : 2, &kwargs, n).text;
        right += reply == (old ? "Old " + x + " " + x : x) ? 1 : 0;
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(right, 1000u);
  EXPECT_EQ(counts(), "1000 calls, 0 errors, 0 timeouts, 0 restarts");
}

TEST_F(PythonHost, a_killed_process_is_started_again) {
  open_do();
  const pid_t pid = std::stoi(text("pid"));
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] { EXPECT_EQ(failure("sleep 1000"), "the tool's process ended: signal 9 (Killed)"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
  for (std::thread& t : callers) t.join();
  EXPECT_NE(std::stoi(text("pid")), pid);
  EXPECT_EQ(counts(), "6 calls, 4 errors, 0 timeouts, 1 restarts");
}

TEST_F(PythonHost, a_tool_that_cannot_be_loaded_is_refused_with_pythons_message) {
  const std::string where = file().string() + ": class_name ";
  const auto refusal = [&](const std::string& class_name, const std::string& module_text = "") {
    scratch::write(place_ / "bad_tools.py", module_text);
    return scratch::error_of<config_error>([&] {
      agent::open_python_tools({{"host_tools.Do", json::object(), schema("x")}, {class_name, json::object(), nullptr}},
                               file(), 60, 2);
    });
  };
  const std::string line = " (" + (place_ / "bad_tools.py").string() + ", line ";
  EXPECT_EQ(refusal("no_such_module.X"),
            where + "no_such_module.X: ModuleNotFoundError: No module named 'no_such_module'");
  EXPECT_EQ(refusal("bad_tools.X"), where + "bad_tools.X: AttributeError: module 'bad_tools' has no attribute 'X'");
  EXPECT_EQ(refusal("X"), where + "X: ValueError: expected MODULE.CLASS");
  EXPECT_EQ(refusal("bad_tools.X", "\nimport no_such\n"),
            where + "bad_tools.X: ModuleNotFoundError: No module named 'no_such'" + line + "2)");
  EXPECT_THAT(refusal("bad_tools.X", "x = (\n"), HasSubstr("SyntaxError: '(' was never closed (bad_tools.py, line 1)"));
  EXPECT_EQ(refusal("bad_tools.X", "import sys; sys.exit(5)"), where + "bad_tools.X: SystemExit: 5" + line + "1)");
  EXPECT_EQ(refusal("bad_tools.X", "class X:\n  def __init__(self): pass\n"),
            where + "bad_tools.X: TypeError: X.__init__() got an unexpected keyword argument 'config'");
  EXPECT_EQ(refusal("bad_tools.X", "import os; os._exit(6)"),
            file().string() + ": python3 ended while it loaded the tools: exit code 6");
  EXPECT_THAT(refusal("host_tools.New"), HasSubstr("AssertionError: Tool schema is not set!"));
  EXPECT_EQ(refusal("bad_tools.X",
                    "class X:\n  def __init__(self, config, tool_schema): pass\n"
                    "  def get_openai_tool_schema(self): return None"),
            where + "bad_tools.X: neither a tool_schema in the file nor one by get_openai_tool_schema()");
}

TEST_F(PythonHost, a_tool_has_the_schema_of_its_file_or_its_class) {
  const agent::tools tools = agent::open_python_tools({{"host_tools.OwnSchema", json::object(), nullptr},
                                                       {"host_tools.GivenSchema", json::object(), nullptr},
                                                       {"host_tools.GivenSchema", json::object(), schema("mine")}},
                                                      file(), 60, 1);
  EXPECT_EQ(tools[0]->schema(), agent::function_schema("own", "Has a schema.", {{"x", "string", "Anything."}}));
  EXPECT_EQ(tools[1]->schema().dump(),
            R"({"type":"function","function":{"name":"given","description":"D.","parameters":{"type":"object",)"
            R"("properties":{"x":{"type":"integer","enum":[1,2]}}}}})");
  EXPECT_EQ(tools[2]->name(), "mine");
  EXPECT_EQ(tools[2]->call({.name = "mine", .arguments = json::object()}).text, "Updated the tool state.");
}

TEST_F(PythonHost, a_tool_that_can_no_longer_be_loaded_ends_the_run) {
  open_do();
  const std::string module = scratch::read(place_ / "host_tools.py");
  EXPECT_EQ(failure("exit 3"), "the tool's process ended: exit code 3");
  scratch::write(place_ / "host_tools.py", "import os; os._exit(6)");
  EXPECT_EQ(failure("say a"), "the tool's process ended: exit code 6");
  EXPECT_THAT(scratch::error_of<error>([&] { call("say a"); }), HasSubstr("ended 3 times"));
  scratch::write(place_ / "host_tools.py", "");
  EXPECT_EQ(scratch::error_of<error>([&] { call("say a"); }),
            file().string() + ": class_name host_tools.Do: AttributeError: module 'host_tools' has no attribute 'Do'");
  scratch::write(place_ / "host_tools.py", module);
  EXPECT_EQ(text("say a"), "a");
}

TEST_F(PythonHost, python_has_to_be_there) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/no/such/folder", 1);
  scratch::error_of<config_error>([&] { open_do(); },
                                  {file().string() + ": cannot run 'python3': No such file or directory"});
  ::setenv("PATH", path.c_str(), 1);
}

/// A verl of one's own, which the tool of the test uses.
void write_verl(const scratch::folder& place, const std::string& begin) {
  for (const char* folder : {"verl/tools", "verl/utils"}) std::filesystem::create_directories(place / folder);
  scratch::write(place / "verl/__init__.py", begin);
  scratch::write(place / "verl/utils/rest.py", "word = 'the rest'\n");
  scratch::write(place / "verl/tools/schemas.py",
                 "class OpenAIFunctionToolSchema:\n  model_validate = staticmethod(lambda given: given)\n");
  scratch::write(place / "verl/tools/base_tool.py",
                 "class BaseTool:\n  origin = 'installed'\n"
                 "  def __init__(self, config, tool_schema): pass\n"
                 "  async def create(self, **kwargs): return '1', None\n"
                 "  async def release(self, instance_id): pass\n");
  scratch::write(place / "verl_tools.py",
                 "from verl.tools.base_tool import BaseTool\nfrom verl.utils.rest import word\n"
                 "class Tool(BaseTool):\n  async def execute(self, instance_id, parameters):\n"
                 "    return getattr(self, 'origin', 'replaced') + ', ' + word\n");
}

TEST_F(PythonHost, an_installed_verl_is_used_if_it_can_be_imported) {
  for (const bool whole : {true, false}) {
    write_verl(place_, whole ? "" : "import no_such_torch\n");
    const agent::tools tools =
        agent::open_python_tools({{"verl_tools.Tool", json::object(), schema("t")}}, file(), 60, 1);
    EXPECT_EQ(tools[0]->call({.name = "t", .arguments = json::object()}).text,
              whole ? "installed, the rest" : "replaced, the rest");
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
