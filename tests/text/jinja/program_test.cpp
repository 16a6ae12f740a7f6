// Templates against the environment that transformers renders chat templates in (golden file of jinja.py), and limits.
#include "rlcore/text/jinja/program.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace RLCORE_TEST_ID {
namespace {

namespace jinja = rlcore::text::jinja;
using json = nlohmann::ordered_json;

jinja::dictionary variables(const json& members) {
  jinja::dictionary out;
  for (const auto& [name, item] : members.items()) out.set(name, jinja::from_json(item));
  return out;
}

/// A template of a golden file renders as transformers renders it, or fails as it does there.
void check(const json& c, const jinja::dictionary& given) {
  const auto source = c["template"].get<std::string>();
  try {
    const jinja::rendering r = jinja::program(source).render(given);
    ASSERT_TRUE(c.contains("text")) << source << " should fail with " << c["error"];
    EXPECT_EQ(r.text, c["text"].get<std::string>()) << source;
    if (!c.contains("generated")) return;
    ASSERT_EQ(r.generated.size(), c["generated"].size()) << source;
    for (std::size_t i = 0; i < r.generated.size(); ++i) {
      EXPECT_EQ(r.generated[i].begin, c["generated"][i][0].get<std::size_t>()) << source;
      EXPECT_EQ(r.generated[i].end, c["generated"][i][1].get<std::size_t>()) << source;
    }
  } catch (const rlcore::error& e) {
    EXPECT_TRUE(c.contains("error")) << source << ": " << e.what();
  }
}

/// RLCORE_JINJA_CASES names further lines, which jinja.py writes for published templates: those stay outside the
/// repository.
TEST(jinja, renders_what_transformers_renders) {
  setenv("SOURCE_DATE_EPOCH", "1750000000", 1);
  const json golden = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/jinja.json"));
  const jinja::dictionary given = variables(golden["variables"]);
  ASSERT_GE(golden["cases"].size(), 300u);
  for (const json& c : golden["cases"]) check(c, given);
  if (const char* path = std::getenv("RLCORE_JINJA_CASES")) {
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    for (std::string line; std::getline(file, line);) {
      const json c = json::parse(line);
      check(c, variables(c["variables"]));
    }
  }
  unsetenv("SOURCE_DATE_EPOCH");
}

/// Numbers of rows as Python's json module reads them and transformers' tojson writes them (json_numbers.py).
TEST(jinja, numbers_are_written_as_python_writes_them) {
  const json cases = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/json_numbers.json"));
  ASSERT_GE(cases.size(), 300u);
  const jinja::program both("{{ x | tojson }}|{{ x }}");
  for (const json& c : cases) {
    jinja::dictionary given;
    given.set("x", jinja::from_json(rlcore::text::try_parse_exact_json<json>(c["text"].get<std::string>())));
    EXPECT_EQ(both.render(given).text, c["rendered"].get<std::string>()) << c["text"];
  }
  const json big = rlcore::text::try_parse_exact_json<json>("[18446744073709551616]");
  EXPECT_EQ(rlcore::text::exact_dump(big), "[18446744073709551616]");
  jinja::dictionary given;
  given.set("x", jinja::from_json(big[0]));
  EXPECT_EQ(jinja::program("{{ x is number }} {{ x is integer }} {{ x == x }} {{ 'a' if x }}").render(given).text,
            "True True True a");
  EXPECT_THROW(jinja::program("{{ x + 1 }}").render(given), rlcore::error);  // Python adds; nothing wrong is written
}

/// The message that parsing or rendering ends with.
std::string refusal(const std::string& source) {
  try {
    return "rendered " + jinja::program(source).render({}).text.substr(0, 40);
  } catch (const rlcore::error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
}

TEST(jinja, errors_name_the_line) {
  EXPECT_EQ(refusal("a\n{% if x %}\nb"), "line 3: expected {% endif %}, found the end of the template");
  EXPECT_EQ(refusal("{% endfor %}"), "line 1: {% endfor %} without its beginning");
  EXPECT_EQ(refusal("{% for x in y %}{% endif %}"), "line 1: expected 'endfor', found 'endif'");
  EXPECT_EQ(refusal("\n{{ 1 | uper }}"), "line 2: unknown filter 'uper' (did you mean 'upper'?)");
  EXPECT_EQ(refusal("{{ 1 is strng }}"), "line 1: unknown test 'strng' (did you mean 'string'?)");
  EXPECT_EQ(refusal("{{ 1 + }}"), "line 1: expected a value, found the end of the tag");
  EXPECT_EQ(refusal("{{ 'x }}"), "line 1: a string without its closing quote");
  EXPECT_EQ(refusal("{% include 'x' %}").substr(0, 33), "line 1: unknown tag 'include'; kn");
  EXPECT_EQ(refusal("\n\n{{ a.b }}"), "line 3: 'a' is undefined; it has no attribute 'b'");
  EXPECT_EQ(refusal("{{ 'x'.stripp() }}"),
            "line 1: a str has no method 'stripp' (did you mean 'strip' or 'lstrip' or 'rstrip'?)");
  for (const char* call : {"map", "map(attribut='role')"})
    EXPECT_EQ(refusal("{{ [1] | " + std::string(call) + " }}"), "line 1: map: expected a filter or attribute=...");
}

TEST(jinja, work_and_depth_are_limited) {
  const std::string work = "line 1: the template does more work than it may; it may loop over too much";
  EXPECT_EQ(refusal("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), work);
  EXPECT_EQ(refusal("{{ 'x' * 1000000000 }}"), work);
  EXPECT_NE(refusal("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}")
                .find("more"),
            std::string::npos);
  EXPECT_NE(refusal("{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}")
                .find("more"),
            std::string::npos);
  EXPECT_EQ(refusal("{{ range(100001) }}"), "line 1: range: more than 100000 elements");
  EXPECT_NE(refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal("{% set n = namespace(x=[]) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_NE(refusal("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}")
                .find("more parts"),
            std::string::npos);
  EXPECT_NE(refusal("{% set n = namespace() %}{% set n.n = n %}").find("cannot be kept"), std::string::npos);
  const std::string many = std::string(100000, '(') + "1" + std::string(100000, ')'), signs(100000, '-');
  EXPECT_NE(refusal("{{ " + many + " }}").find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal("{{ " + signs + "1 }}").find("more than"), std::string::npos);
  std::string tags, sum = "{{ 1";
  for (int i = 0; i < 20000; ++i) tags += "{% if 1 %}", sum += "+1";
  EXPECT_NE(refusal(tags).find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal(sum + " }}").find("levels"), std::string::npos);
}

TEST(jinja, a_large_template_takes_linear_time) {
  const auto seconds = [](std::size_t bytes) {
    std::string source;
    while (source.size() < bytes)
      source += "{# a #}  {% if a %}x{% else %}\n{{ 'y' ~ 1 }}{% endif %}{% raw %} {{ {% endraw %}{ ";
    const auto start = std::chrono::steady_clock::now();
    (void)jinja::program(source).render({});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double small = std::min(seconds(1 << 17), seconds(1 << 17));
  EXPECT_LT(seconds(1 << 20), 8 * 6 * small + 0.5);  // 6.6 s were reported for 1 MB
}

}  // namespace
}  // namespace RLCORE_TEST_ID
