// Chat templates of many kinds, ours and those that TRL and transformers ship, beside transformers (golden file of
// shipped_templates.py), and what they drop.
#include "text/shipped_templates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "rlcore/text/dropped_parts.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace text = rlcore::text;
using shipped_templates::conversation;
using shipped_templates::golden;
using shipped_templates::json;
using shipped_templates::options_of;

/// The text without the date of today, as in the script.
std::string undated(std::string t) {
  const std::time_t now = std::time(nullptr);
  for (const auto& [form, mark] : {std::pair{"%Y-%m-%d", "YEAR-MONTH-DAY"}, std::pair{"%d %b %Y", "DAY MONTH YEAR"},
                                   std::pair{"%d %B %Y", "DAY NAME YEAR"}}) {
    char date[64];
    std::strftime(date, sizeof date, form, std::localtime(&now));
    for (std::size_t at = t.find(date); at != t.npos; at = t.find(date, at + 1))
      t.replace(at, std::string_view(date).size(), mark);
  }
  return t;
}

struct counts {
  std::size_t equal = 0, refused_by_both = 0, refused_here = 0;
};

/// Renders all cases of a template. A refusal of ours has to say what would be dropped.
void beside_transformers(const text::chat_template& chat, const std::string& name, const json& cases, bool hashed,
                         counts& found) {
  for (const auto& [talk, texts] : cases.items())
    for (std::size_t k = 0; k < texts.size(); ++k) {
      const std::string where = name + ": " + talk + ", rendering " + std::to_string(k);
      std::vector<text::dropped_part> dropped;
      std::string ours;
      try {
        ours = undated(chat.render(conversation(talk), options_of(k), &dropped));
      } catch (const rlcore::error& e) {
        if (texts[k].is_null()) {
          ++found.refused_by_both;
        } else {
          EXPECT_THAT(e.what(), testing::HasSubstr("has no place")) << where;
          ++found.refused_here;
        }
        continue;
      }
      if (texts[k].is_null()) {  // a null content is an empty one here
        EXPECT_EQ(talk, "call without content") << where;
        continue;
      }
      EXPECT_EQ(hashed ? shipped_templates::hash_of(ours) : ours, texts[k].get<std::string>()) << where;
      ++found.equal;
    }
}

TEST(shipped_templates, ours_render_as_by_transformers) {
  counts found;
  for (const auto& [name, t] : golden()["own"].items())
    beside_transformers(shipped_templates::parsed(t["source"].get<std::string>()), name, t["cases"], false, found);
  EXPECT_GE(found.equal, 200u);
  EXPECT_GE(found.refused_by_both, 30u);
}

TEST(shipped_templates, those_of_trl_and_transformers_render_as_by_transformers) {
  if (shipped_templates::of_packages().empty()) GTEST_SKIP() << "RLCORE_PYTHON names no Python with TRL";
  counts found;
  std::size_t templates = 0;
  for (const auto& [name, source] : shipped_templates::of_packages()) {
    const auto known = golden()["shipped"].find(name);
    if (known == golden()["shipped"].end() || (*known)["source"] != shipped_templates::hash_of(source)) continue;
    beside_transformers(shipped_templates::parsed(source), name, (*known)["cases"], true, found);
    ++templates;
  }
  if (templates == 0) GTEST_SKIP() << "other versions of all templates";
  EXPECT_GE(found.equal, 50 * templates);
  ::testing::Test::RecordProperty("templates", static_cast<int>(templates));
}

/// What a template drops of a conversation, as "2 reasoning_content".
std::vector<std::string> dropped(const text::chat_template& chat, const std::vector<text::message>& messages,
                                 std::size_t k = 0) {
  std::vector<text::dropped_part> parts;
  (void)chat.render(messages, options_of(k), &parts);
  std::vector<std::string> all;
  for (const auto& p : parts) all.push_back(std::to_string(p.message) + " " + p.part);
  return all;
}
std::vector<std::string> dropped(const std::string& own, const std::string& talk) {
  return dropped(shipped_templates::parsed(golden()["own"][own]["source"].get<std::string>()), conversation(talk));
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(dropped_parts, are_those_of_the_text) {
  EXPECT_THAT(dropped("no thoughts", "thoughts in content"),
              ElementsAre("1 a part of the content (\"why alpha\")", "3 a part of the content (\"why beta\")"));
  EXPECT_THAT(dropped("no thoughts", "thoughts without end"), IsEmpty());
  EXPECT_THAT(dropped("no thoughts", "two blocks of thoughts"),
              ElementsAre("1 a part of the content (\"a1\")", "1 a part of the content (\"Alpha\")",
                          "1 a part of the content (\"a2\")"));
  EXPECT_THAT(dropped("no thoughts", "names"),
              ElementsAre("0 the member 'name'", "1 the member 'name'", "2 the member 'name'"));
  EXPECT_THAT(dropped("parameters", "names"), IsEmpty());
  EXPECT_THAT(dropped("parameters", "thoughts"), ElementsAre("1 reasoning_content"));
  EXPECT_THAT(dropped("call or text", "call and text"), ElementsAre("1 a tool call of get_weather"));
  EXPECT_THAT(dropped("call or text", "two calls"), IsEmpty());
  EXPECT_THAT(dropped("lost result", "open round"), ElementsAre("2 the content of role 'tool'", "2 the member 'name'"));
}

/// A conversation whose every part a template writes loses nothing, whatever stands in it.
TEST(dropped_parts, are_none_of_odd_texts) {
  const auto plain = text::chat_template::named("qwen2.5");
  for (const char* content : {"4", "?", "->", "<b>", "<think></think>", "a < b and c > d", "[INST] no [/INST]",
                              "<tool_response>\nx\n</tool_response>", "{\"a\": \"b\"}", "  x  ", "48151623",
                              "48151623000000000", "\xF0\x9F\x99\x82", "\xC3\xA9", "<|im_end|>", "vector<int> x = {1};",
                              "<p>one</p><p>two</p>", "C'est l\\'\xC3\xA9t\xC3\xA9\n\n"}) {
    EXPECT_THAT(dropped(plain, {{"user", content}, {"assistant", content}}), IsEmpty()) << content;
    EXPECT_THAT(dropped(shipped_templates::parsed(shipped_templates::own()["merged system"]),
                        {{"system", content}, {"user", content}}),
                IsEmpty())
        << content;
  }
  const auto shouts = shipped_templates::parsed("{% for m in messages %}{{ m.content | upper }}{% endfor %}");
  EXPECT_THAT(dropped(shouts, {{"user", "quiet"}}), IsEmpty());
}

TEST(dropped_parts, of_a_text_with_many_tags_are_few) {
  std::string page = "first";
  for (int i = 0; i < 1000; ++i) page += "<p>x" + std::to_string(i);
  const auto cuts = shipped_templates::parsed("{% for m in messages %}{{ m.content.split('<p>')[0] }}{% endfor %}");
  EXPECT_EQ(dropped(cuts, {{"user", page}}).size(), 63u);
  EXPECT_THAT(dropped(text::chat_template::named("chatml"), {{"user", page}}), IsEmpty());
}

TEST(dropped_parts, of_a_lost_content_or_call_are_refused_without_a_list) {
  const auto refused = [](const char* own, const char* talk) {
    std::string words;
    try {
      (void)shipped_templates::parsed(shipped_templates::own()[own]).render(conversation(talk));
    } catch (const rlcore::data_error& e) {
      words = e.what();
    }
    return words;
  };
  EXPECT_EQ(refused("lost result", "open round"),
            "messages[2]: the content of role 'tool' has no place in the template");
  EXPECT_EQ(refused("call or text", "call and text"),
            "messages[1]: a tool call of get_weather has no place in the template");
  EXPECT_EQ(refused("no thoughts", "thoughts in content"), "") << "thoughts are left to the caller";
}

TEST(dropped_parts, that_a_row_teaches) {
  using kind = text::dropped_part::kind;
  const std::vector<text::message> turns{{"user", "1"},      {"assistant", "A"}, {"tool", "x"},     {"user", "2"},
                                         {"assistant", "B"}, {"tool", "y"},      {"assistant", "C"}};
  EXPECT_FALSE(text::is_taught({1, kind::thoughts}, turns));
  EXPECT_TRUE(text::is_taught({4, kind::thoughts}, turns));
  EXPECT_TRUE(text::is_taught({6, kind::thoughts}, turns));
  EXPECT_TRUE(text::is_taught({1, kind::call}, turns));
  EXPECT_TRUE(text::is_taught({2, kind::content}, turns));
  EXPECT_FALSE(text::is_taught({6, kind::member}, turns));
  EXPECT_TRUE(text::is_needed({2, kind::content}, turns));
  EXPECT_FALSE(text::is_needed({4, kind::content}, turns));
  EXPECT_FALSE(text::is_needed({0, kind::member}, turns));
}

TEST(accepted_messages, take_the_form_that_the_template_writes) {
  const auto texts = text::chat_template::named("chatml"), both = text::chat_template::named("qwen2.5-vl"),
             parts = shipped_templates::parsed(
                 "{% for m in messages %}{{ m.role }}:{% for p in m.content %}"
                 "{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %};{% endfor %}");
  const auto talk = conversation("several parts");
  EXPECT_EQ(texts.render(texts.accepted(talk)),
            "<|im_start|>user\nHi\nthere<|im_end|>\n<|im_start|>assistant\nHel\nlo<|im_end|>\n");
  EXPECT_EQ(both.accepted(talk)[0].parts.size(), 2u);
  EXPECT_EQ(parts.render(parts.accepted(conversation("answered"))), "user:What is 2+2?;assistant:four;");
  EXPECT_TRUE(parts.takes_parts());
  EXPECT_THROW((void)parts.render(conversation("answered")), rlcore::data_error);
  EXPECT_EQ(texts.accepted(conversation("developer"))[0].role, "system");
  const auto knows = shipped_templates::parsed(
      "{% for m in messages %}{% if m.role == 'developer' %}{{ 'D' }}{% endif %}"
      "{{ m.content }}{% endfor %}");
  EXPECT_EQ(knows.accepted(conversation("developer"))[0].role, "developer");
}

TEST(message, thoughts_have_three_names) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto read = text::messages_from_json(json::array({{{"role", "assistant"}, {"content", "A"}, {name, "why"}}}));
    EXPECT_EQ(read[0].reasoning_content, "why") << name;
    EXPECT_EQ(text::chat_template::named("qwen3").render(std::vector<text::message>{{"user", "x"}, read[0]}),
              "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\nwhy\n</think>\n\nA<|im_end|>\n")
        << name;
    EXPECT_THAT(dropped(text::chat_template::named("qwen3"), {{"user", "x"}, read[0]}), IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
