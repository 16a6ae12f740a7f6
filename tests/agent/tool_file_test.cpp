// Files that name tools: YAML and JSON, the schema as verl shows it, and what is refused.
#include "rlcore/agent/tool_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "data/scratch.hpp"
#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/agent/open_tools.hpp"
#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using testing::HasSubstr, testing::ThrowsMessage;

class tool_files : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text, const char* name = "tools.yaml") const {
    std::ofstream(place / name) << text;
    return place / name;
  }
  const scratch::folder place;
};

bool reads_yaml() {
  const scratch::folder place;
  std::ofstream(place / "a.yaml") << "a: 1\n";
  try {
    agent::read_yaml(place / "a.yaml");
  } catch (const config_error&) {
    return false;
  }
  return true;
}

const std::string yaml = R"(tools:
  - class_name: "my.Tool"
    config:
      type: native
      limits: [1, -2.5, ~, true, "1", off, 0x10, 1_000, .5, inf, +3, +-3, 0x-3, 0o-7]
    tool_schema:
      type: function
      function:
        description: finds
        name: find
        strict: false
        parameters:
          properties:
            what: {enum: [a, b], description: a word, type: string, default: a}
            how: {type: string, description: null}
          type: object
          required: [what]
)";

TEST_F(tool_files, yaml_is_read_by_its_core_schema_and_schemas_are_shown_as_verl_shows_them) {
  if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
  const auto entries = agent::read_tool_file(write(yaml));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].class_name, "my.Tool");
  EXPECT_EQ(entries[0].config.dump(),
            R"({"type":"native","limits":[1,-2.5,null,true,"1","off",16,"1_000",0.5,"inf",3,"+-3","0x-3","0o-7"]})");
  EXPECT_EQ(
      entries[0].schema.dump(),
      R"({"type":"function","function":{"name":"find","description":"finds","parameters":{"type":"object",)"
      R"("properties":{"what":{"type":"string","description":"a word","enum":["a","b"]},"how":{"type":"string"}},)"
      R"("required":["what"]},"strict":false}})");
}

TEST_F(tool_files, json_is_read_too) {
  const nlohmann::ordered_json file{
      {"tools", {{{"class_name", "rlcore.calculator"}, {"tool_schema", agent::calculator::default_schema()}}}}};
  const agent::tools opened = agent::open_tools(write(file.dump(), "tools.json"), {});
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(opened[0]->name(), "calculator");
  EXPECT_EQ(opened[0]->call({"calculator", {{"expression", "(3 + 4) * 12"}}}).text, "84");
}

TEST_F(tool_files, that_say_something_else_are_refused_with_the_place) {
  const auto read = [&](const std::string& text, const char* name) {
    return [this, text, name] { agent::read_tool_file(write(text, name)); };
  };
  EXPECT_THAT([&] { agent::read_tool_file(place / "none.yaml"); }, ThrowsMessage<file_error>(HasSubstr("none.yaml")));
  EXPECT_THAT(read("[]", "a.json"), ThrowsMessage<config_error>(HasSubstr("a.json: expected tools: a list")));
  EXPECT_THAT(read(R"({"tools": [{"class": 1}]})", "a.json"),
              ThrowsMessage<config_error>(HasSubstr("tools[0]: expected class_name")));
  EXPECT_THAT(
      read(R"({"tools": [{"class_name": "a", "tool_schema": {"type": "function", "function": {"name": "a"}}}]})",
           "a.json"),
      ThrowsMessage<config_error>(HasSubstr("tools[0].tool_schema.function: expected parameters")));
  EXPECT_THAT(read(R"({"tools": []})", "a.json"), ThrowsMessage<config_error>(HasSubstr("tools is empty")));
  EXPECT_THAT(read("{", "a.json"), ThrowsMessage<format_error>(HasSubstr("not valid JSON")));
  const auto open = [&](const std::string& text) {
    return [this, text] { agent::open_tools(write(text, "a.json"), {}); };
  };
  EXPECT_THAT(open(R"({"tools": [{"class_name": "a", "config": {"type": "mcp"}}]})"),
              ThrowsMessage<config_error>(HasSubstr("config.type is \"mcp\"; expected native")));
  if (!reads_yaml()) return;
  EXPECT_THAT(read("tools:\n  - a: [", "a.yaml"), ThrowsMessage<format_error>(HasSubstr("a.yaml: line ")));
  std::string bombs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), list = before + ", " + before + ", " + before;
    bombs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + list + ", " + list + ", " + list + "]\n";
  }
  EXPECT_THAT(read(bombs, "a.yaml"), ThrowsMessage<format_error>(HasSubstr("too deep or too large")));
}

TEST(calculator, computes_exactly_what_it_can) {
  agent::calculator c;
  const auto value = [&](const char* text) { return c.call({"calculator", {{"expression", text}}}).text; };
  EXPECT_EQ(value("97 * 89"), "8633");
  EXPECT_EQ(value("94906265 * 94906265"), "9007199136250225");
  EXPECT_EQ(value("10 ** 16"), "1e+16");
  EXPECT_EQ(value("2 ** 10 - 24"), "1000");
  EXPECT_EQ(value("1 / 4"), "0.25");
  EXPECT_EQ(value("6 / 3"), "2");
  EXPECT_EQ(value("-(1 - 3.5)"), "2.5");
  for (const char* wrong : {"", "1 / 0", "x", "import os", "1 +", "(-8) ** 0.5", "__import__('os')"})
    EXPECT_THAT([&] { value(wrong); }, ThrowsMessage<agent::tool_error>(HasSubstr("no arithmetic expression")))
        << wrong;
  EXPECT_THAT([&] { c.call({"calculator", "1 + 1"}); }, ThrowsMessage<agent::tool_error>(HasSubstr("expected")));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
