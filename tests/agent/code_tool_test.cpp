// The code tool: the program of an argument, replies, and its configuration.
#include "rlcore/agent/code_tool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/has_python.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using agent::code_tool;
using agent::program_of;
using json = nlohmann::ordered_json;

json schema() { return agent::function_schema("code_interpreter", "Runs Python.", {{"code", "string", "The code."}}); }
std::string reply(code_tool& tool, const std::string& code) {
  return tool.call({.name = "code_interpreter", .arguments = {{"code", code}}}).text;
}
class code_tools : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "needs python3";
  }
};

TEST(code_tool, prints_the_last_line) {
  EXPECT_EQ(program_of("1 + 2"), "print(1 + 2)");
  EXPECT_EQ(program_of("x = 1\nx"), "x = 1\nprint(x)");
  EXPECT_EQ(program_of("x = 1\nx\n\n"), "x = 1\nprint(x)\n\n");
  EXPECT_EQ(program_of("print(1)"), "print(1)");
  EXPECT_EQ(program_of("\n\nprint (1)\n"), "\n\nprint (1)\n");
  EXPECT_EQ(program_of("printed"), "printed");  // it begins with print
  EXPECT_EQ(program_of("if x:\n  print(1)"), "if x:\nprint(  print(1))");
  EXPECT_EQ(program_of("x # print"), "print(x # print)");
  EXPECT_EQ(program_of(""), "");
  EXPECT_EQ(program_of("\n\n"), "\n\n");
}

TEST(code_tool, takes_the_first_block) {
  EXPECT_EQ(program_of("Let us see:\n```python\nx = 1\nprint(x)\n```\nand\n```python\n2\n```"), "x = 1\nprint(x)");
  EXPECT_EQ(program_of("```python\n\n  x\n\n```"), "print(x)");
  EXPECT_EQ(program_of("```python 5```"), "print(5)");
  EXPECT_EQ(program_of("```python```"), "");
  EXPECT_EQ(program_of("```python\nprint(1)"), "```python\nprint(1)");  // no end: as it is
  EXPECT_EQ(program_of("```\n1\n```"), "```\n1\nprint(```)");
}

TEST(code_tool, has_a_reply_for_every_end) {
  using ending = agent::code_result::status;
  const agent::code_limits limits{.seconds = 2.5};
  EXPECT_EQ(agent::reply_text({.ended = ending::finished, .exit_code = 1, .out = "a\n", .err = "b\n"}, limits),
            "a\nb\n");
  EXPECT_EQ(agent::reply_text({.ended = ending::timed_out, .exit_code = -9, .out = "a\n", .err = "b\n"}, limits),
            "The code was stopped after 2.5 seconds.");
  EXPECT_EQ(agent::reply_text({.ended = ending::killed, .exit_code = -11, .out = "a\n", .err = "b\n"}, limits),
            "The code was stopped by signal 11.");
}

TEST_F(code_tools, run_code) {
  code_tool tool(schema(), {{"sandbox_fusion_url", "local:"}, {"default_timeout", 1}, {"type", "native"}});
  EXPECT_EQ(tool.name(), "code_interpreter");
  EXPECT_EQ(reply(tool, "2**10"), "1024\n");
  EXPECT_EQ(reply(tool, "```python\nimport sys\nsys.stderr.write('e')\nprint('o')\n```"), "o\ne");
  EXPECT_EQ(reply(tool, "pass\n"), reply(tool, "print(pass)"));
  EXPECT_NE(reply(tool, "1/0").find("ZeroDivisionError: division by zero"), std::string::npos);
  EXPECT_NE(reply(tool, "print(1").find("SyntaxError"), std::string::npos);
  EXPECT_EQ(reply(tool, "while True: pass\nprint()"), "The code was stopped after 1 seconds.");
  EXPECT_EQ(reply(tool, ""), "");
}

TEST_F(code_tools, refuse_other_arguments) {
  code_tool tool(schema(), nullptr);
  for (const json& arguments : {json(nullptr), json(1), json("print(1)"), json::object(), json{{"code", 1}}})
    EXPECT_EQ(thrown_by([&] { tool.call({.name = "code_interpreter", .arguments = arguments}); }),
              "expected {\"code\": text}");
}

TEST_F(code_tools, limit_memory) {
  code_tool tool(schema(), {{"memory_limit_mb", 200}});
  EXPECT_NE(reply(tool, "len(bytearray(300 << 20))").find("MemoryError"), std::string::npos);
  EXPECT_EQ(reply(tool, "len(bytearray(50 << 20))"), "52428800\n");
}

TEST_F(code_tools, run_as_many_at_once_as_allowed) {
  code_tool tool(schema(), {{"num_workers", 1}});
  std::vector<std::pair<double, double>> times(6);
  std::vector<std::thread> threads;
  for (auto& t : times)
    threads.emplace_back([&] {
      const json both =
          json::parse(reply(tool, "import time\na = time.time()\ntime.sleep(0.05)\nprint([a, time.time()])"));
      t = {both[0].get<double>(), both[1].get<double>()};
    });
  for (std::thread& t : threads) t.join();
  std::ranges::sort(times);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i].first, times[i - 1].second);
}

TEST_F(code_tools, take_verls_configuration) {
  EXPECT_EQ(thrown_by([] {
              code_tool(schema(), {{"sandbox_fusion_url", ""},
                                   {"num_workers", 10},
                                   {"enable_global_rate_limit", true},
                                   {"rate_limit", 10},
                                   {"default_timeout", 30},
                                   {"default_language", "python"},
                                   {"memory_limit_mb", 1024},
                                   {"type", "native"}});
            }),
            "nothing was thrown");
}

TEST(code_tool, refuses_wrong_settings) {
  const auto refusal = [](const json& config) { return thrown_by([&] { code_tool(schema(), config); }); };
  EXPECT_EQ(refusal({{"sandbox_fusion_url", "http://10.0.0.1:8080/run_code"}}),
            "sandbox_fusion_url: expected \"\" or \"local:\": code runs on this machine, no server is asked, found "
            "\"http://10.0.0.1:8080/run_code\"");
  EXPECT_EQ(refusal({{"default_language", "cpp"}}), "default_language: expected \"python\", found \"cpp\"");
  EXPECT_EQ(refusal({{"default_language", 3}}), "default_language: expected \"python\", found 3");
  EXPECT_EQ(refusal({{"num_workers", 0}}), "num_workers: expected an integer from 1 to 1000000, found 0");
  EXPECT_EQ(refusal({{"num_workers", "4"}}), "num_workers: expected an integer from 1 to 1000000, found \"4\"");
  EXPECT_EQ(refusal({{"num_workers", 1.5}}), "num_workers: expected an integer from 1 to 1000000, found 1.5");
  EXPECT_EQ(refusal({{"rate_limit", -1}}), "rate_limit: expected an integer from 1 to 1000000, found -1");
  EXPECT_EQ(refusal({{"default_timeout", 0}}), "default_timeout: expected a number above 0 and up to 1000000, found 0");
  EXPECT_EQ(refusal({{"default_timeout", json::array()}}),
            "default_timeout: expected a number above 0 and up to 1000000, found []");
  EXPECT_EQ(refusal({{"memory_limit_mb", 1 << 21}}),
            "memory_limit_mb: expected an integer from 1 to 1048576, found 2097152");
  EXPECT_EQ(refusal({{"enable_global_rate_limit", 1}}), "enable_global_rate_limit: expected true or false, found 1");
  EXPECT_EQ(refusal({{"type", "mcp"}}), "type: expected \"native\", found \"mcp\"");
  EXPECT_EQ(refusal(json::array()), "config: expected an object, found []");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
