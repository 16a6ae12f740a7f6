// No text and no file from outside takes quadratic time: twice the input takes about twice the time.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/text/added_tokens.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/jinja/program.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pattern.hpp"
#include "rlcore/text/pre_tokenizer.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/utf8.hpp"
#include "rlcore/text/word_automaton.hpp"
#include "support/growth.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using nlohmann::json;
using namespace rlcore;
using namespace rlcore::text;

std::string repeated(std::string_view part, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += part;
  return all;
}

/// A byte-level tokenizer.json without merges, with `added` added tokens <|0|>, <|1|>, ...
std::string tokenizer_json(std::size_t added) {
  const byte_alphabet alphabet;
  json vocabulary = json::object(), tokens = json::array();
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    append_utf8(name, alphabet.character(static_cast<std::uint8_t>(byte)));
    vocabulary[name] = byte;
  }
  for (std::size_t i = 0; i < added; ++i)
    tokens.push_back({{"id", 256 + i}, {"content", "<|" + std::to_string(i) + "|>"}, {"special", true}});
  const json split{{"type", "Split"}, {"pattern", {{"Regex", qwen2_split}}}, {"behavior", "Isolated"}},
      bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
              {"added_tokens", tokens},
              {"normalizer", {{"type", "NFC"}}},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
              {"decoder", {{"type", "ByteLevel"}}}}
      .dump();
}

std::vector<message> conversation(std::size_t turns) {
  std::vector<message> messages{{"system", "be brief"}};
  for (std::size_t i = 0; i < turns; ++i)
    messages.push_back({i % 2 == 0 ? "user" : "assistant", "turn number " + std::to_string(i)});
  return messages;
}

TEST(linear_time, a_letter_with_many_marks_is_normalised) {
  for (const normal_form form : {normal_form::nfc, normal_form::nfd, normal_form::nfkc, normal_form::nfkd})
    EXPECT_LE(growth_of_time(
                  5000, [](std::size_t n) { return "a" + repeated("\xCC\x81\xCC\xA3", n); },
                  [&](const std::string& text) { normalized(text, form); }),
              linear_growth);
}

std::string by_utf8proc(std::string_view text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::string out(reinterpret_cast<const char*>(result), static_cast<std::size_t>(size));
  std::free(result);
  return out;
}

TEST(linear_time, normal_forms_are_those_of_utf8proc) {
  // Letters with marks below and above, Hangul, ligatures, excluded and singleton compositions, marks of all classes.
  const std::vector<char32_t> some{'a',    'A',    0xC5,   0x301,   0x323,   0x307,   0x334,  0x345, 0x1E0B, 0xAC00,
                                   0x1100, 0x1161, 0x11A8, 0xFB01,  0x212B,  0xFDFA,  0x3099, 0xF71, 0xF72,  0xF74,
                                   0x5B0,  0x5B1,  0x93C,  0x915,   0x958,   0x2ADC,  0x1F82, 0x390, 0x200D, 0x338,
                                   0x2260, 0x378,  0xE000, 0x1D15E, 0x1D165, 0x1D16E, 0x110BA};
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) {
      const auto any = static_cast<char32_t>(random() % 0x110000);
      append_utf8(text, random() % 4 > 0 || (any >> 11) == 0x1B ? some[random() % some.size()] : any);
    }
    EXPECT_EQ(normalized(text, normal_form::nfc), by_utf8proc(text, UTF8PROC_COMPOSE));
    EXPECT_EQ(normalized(text, normal_form::nfd), by_utf8proc(text, UTF8PROC_DECOMPOSE));
    EXPECT_EQ(normalized(text, normal_form::nfkc), by_utf8proc(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
    EXPECT_EQ(normalized(text, normal_form::nfkd), by_utf8proc(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
  }
}

TEST(linear_time, many_added_tokens_are_loaded_and_found) {
  EXPECT_LE(growth_of_time(
                500, [](std::size_t n) { return tokenizer_json(n); },
                [](const std::string& file) { tokenizer::parse(file, ""); }),
            linear_growth);
  const std::string plain = tokenizer_json(0);
  EXPECT_LE(growth_of_time(
                500,
                [](std::size_t n) {
                  json config;
                  for (std::size_t i = 0; i < n; ++i)
                    config["added_tokens_decoder"][std::to_string(256 + i)] = {{"content", "<|" + std::to_string(i)}};
                  return config.dump();
                },
                [&](const std::string& config) { tokenizer::parse(plain, config); }),
            linear_growth);
}

TEST(linear_time, tokens_that_repeat_their_text_are_found) {
  // Every position begins a part of all tokens, and tokens take the white space around them.
  EXPECT_LE(growth_of_time(
                2000,
                [](std::size_t n) {
                  std::vector<added_token_finder::entry> entries;
                  for (std::size_t i = 1; i <= 40; ++i) entries.push_back({std::string(n / i, 'a') + "b", {}});
                  return std::pair(added_token_finder(entries), std::string(50 * n, 'a'));
                },
                [](const auto& input) {
                  input.first.split(input.second, true, [](std::string_view) {}, [](std::int32_t) {});
                }),
            linear_growth);
  added_token space;
  space.lstrip = space.rstrip = true;
  const added_token_finder finder({{" ", space}});
  EXPECT_LE(
      growth_of_time(
          40000, [](std::size_t n) { return std::string(n, ' '); },
          [&](const std::string& text) { finder.split(text, true, [](std::string_view) {}, [](std::int32_t) {}); }),
      linear_growth);
}

TEST(linear_time, the_longest_word_at_every_position_is_found) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto word = [&](std::size_t most) {
      std::string text;
      for (std::size_t n = random() % (most + 1); n > 0; --n) text += "ab\xC3"[random() % 3];
      return text;
    };
    const std::vector<std::string> words{word(4), word(4), word(3), word(2), word(5)};
    const std::string text = word(20);
    const std::vector<std::string_view> views(words.begin(), words.end());
    const word_automaton automaton(views);
    std::vector<std::size_t> found(text.size(), words.size()), expected = found;
    automaton.for_each(text, [&](std::size_t begin, std::size_t w) { found[begin] = w; });
    const std::vector<bool> occurring = automaton.occurring(text);
    for (std::size_t w = 0; w < words.size(); ++w) {
      bool occurs = false;
      for (std::size_t at = 0; at < text.size() && !words[w].empty(); ++at) {
        if (text.compare(at, words[w].size(), words[w]) != 0) continue;
        occurs = true;
        if (expected[at] == words.size() || words[expected[at]].size() < words[w].size()) expected[at] = w;
      }
      EXPECT_EQ(occurring[w], occurs);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(linear_time, a_run_of_blanks_of_any_length_is_one_word) {
  const pattern split(qwen2_split);
  const auto ends_in = [&](const std::string& text) {
    std::vector<std::size_t> ends;
    split.for_each_match(text, [&](std::size_t, std::size_t end) { ends.push_back(end); });
    return ends;
  };
  constexpr std::size_t many = 12'000'000;  // more than the steps that PCRE2 takes without being told
  EXPECT_EQ(ends_in(std::string(many, ' ') + "x"), (std::vector<std::size_t>{many - 1, many + 1}));
  EXPECT_LE(growth_of_time(200'000, [](std::size_t n) { return std::string(n, ' '); }, ends_in), linear_growth);
  EXPECT_NE(thrown_by([] {
              pattern("(a+)+$").for_each_match(std::string(40, 'a') + "b", [](auto, auto) {});
            }).find("gave up at byte 0 of 41: match limit exceeded"),
            std::string::npos);
}

TEST(linear_time, literal_patterns_and_replacements) {
  EXPECT_LE(growth_of_time(
                1000,
                [](std::size_t n) {
                  return std::pair(std::make_shared<pattern>(std::string(n, 'a') + "b" + std::string(n, 'a'), true),
                                   std::string(20 * n, 'a'));
                },
                [](const auto& input) { input.first->for_each_match(input.second, [](auto, auto) {}); }),
            linear_growth);
  json steps = json::array();  // each makes a text ten times as long
  for (int i = 0; i < 12; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "xxxxxxxxxx"}});
  const text::normalizer grow(json{{"type", "Sequence"}, {"normalizers", steps}});
  EXPECT_EQ(thrown_by([&] { grow("xy"); }), "normalizer: a text of 2 bytes becomes longer than 16777216");
  const json around{{"type", "TemplateProcessing"},
                    {"single", {{{"SpecialToken", {{"id", "s"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                    {"special_tokens", {{"s", {{"ids", std::vector<int>(4097, 1)}}}}}};
  EXPECT_EQ(thrown_by([&] { post_processor{around}; }), "post_processor adds more than 4096 ids to a text");
}

TEST(linear_time, texts_are_encoded_and_decoded) {
  json file = json::parse(tokenizer_json(0));
  std::string token = "a";
  for (int i = 0; i < 10; ++i) {
    file["model"]["merges"].push_back(token + " " + token);
    file["model"]["vocab"][token += token] = 256 + i;
  }
  const tokenizer t = tokenizer::parse(file.dump(), "");
  const auto encode = [&](const std::string& text) { return t.encode(text); };
  EXPECT_LE(growth_of_time(20000, [](std::size_t n) { return std::string(n, 'a'); }, encode), linear_growth);
  EXPECT_LE(growth_of_time(5000, [](std::size_t n) { return repeated(" aab ac", n); }, encode), linear_growth);
  EXPECT_LE(growth_of_time(
                20000, [](std::size_t n) { return std::vector<std::int32_t>(n, 0xC3); },
                [&](const std::vector<std::int32_t>& ids) {
                  stream_decoder stream(t);
                  for (const std::int32_t id : ids) stream.push(id);
                  EXPECT_EQ(t.decode(ids).size(), 3 * ids.size());
                }),
            linear_growth);
}

TEST(linear_time, a_conversation_of_many_turns_is_rendered) {
  for (const char* family : {"chatml", "qwen2.5", "qwen3", "minimind"}) {
    const chat_template chat = chat_template::named(family);
    EXPECT_LE(growth_of_time(300, conversation,
                             [&](const std::vector<message>& messages) {
                               std::vector<written_bytes> written;
                               chat.render(messages, {}, written);
                             }),
              linear_growth)
        << family;
  }
}

/// Templates as published ones are written: of Llama 3, of Qwen3, of Hermes.
const std::vector<std::string> templates = {
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = '<|begin_of_text|>' + content %}{% endif %}{{ content }}{% endfor %}",
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}"
    "{%- set messages = messages[1:] %}{%- endif %}{{ system_message }}{%- for message in messages %}"
    "{%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}"
    "{%- elif messages | length == 1 %}{{- 'one' }}{%- endif %}{%- endfor %}",
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}"
    "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
    "{%- if ns.multi_step_tool and message.role == 'user' and message.content is string %}"
    "{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}"
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if messages is defined and (loop.last or (loop.previtem and loop.previtem.role != 'tool')) %}"
    "{{- message.content.split('</think>')[-1].lstrip('\n') }}{%- else %}{{- message.content }}{%- endif %}"
    "{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}",
    "{%- macro turn(m) %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endmacro %}"
    "{%- for message in messages | rejectattr('role', 'equalto', 'tool') %}{{ turn(message) }}{%- endfor %}"};

TEST(linear_time, templates_of_published_kinds_render_many_turns) {
  for (const std::string& jinja : templates) {
    const chat_template chat = chat_template::from_jinja(jinja);
    EXPECT_LE(growth_of_time(300, conversation, [&](const std::vector<message>& m) { chat.render(m); }), linear_growth)
        << jinja;
    EXPECT_NE(chat.render(conversation(2500)).find("turn number 2499"), std::string::npos) << jinja;
  }
}

TEST(linear_time, messages_that_no_loop_writes_are_looked_for) {
  const chat_template chat = chat_template::from_jinja("{{ messages[0].content }}{% for m in messages %}{% endfor %}");
  const auto dropped = [](std::size_t n) {
    std::vector<message> messages{{"user", repeated("x", 100 * n)}};
    for (std::size_t i = 0; i < n; ++i) {
      messages.push_back({"note", "y" + std::to_string(i)});
      messages[0].content += messages.back().content + " ";
    }
    return messages;
  };
  std::vector<dropped_part> parts;
  const auto render = [&](const std::vector<message>& m) { parts.clear(), chat.render(m, {}, &parts); };
  EXPECT_LE(growth_of_time(500, dropped, render), linear_growth);
  std::vector<message> lost = dropped(3);
  render(lost);
  EXPECT_EQ(parts.size(), 3u) << "the first message has the same words";
  lost[2].content = "nowhere";
  EXPECT_EQ(thrown_by([&] { render(lost); }), "messages[2]: role 'note' has no place in chat template");
}

TEST(linear_time, a_dictionary_of_many_keys_is_read_and_searched) {
  const jinja::program each("{% for k in d %}{{ d[k] }}{% endfor %}");
  EXPECT_LE(growth_of_time(
                2000,
                [](std::size_t n) {
                  jinja::dictionary variables, d;
                  for (std::size_t i = 0; i < n; ++i) d.set("key" + std::to_string(i), static_cast<std::int64_t>(i));
                  variables.set("d", std::move(d));
                  return variables;
                },
                [&](const jinja::dictionary& variables) { each.render(variables); }),
            linear_growth);
}

TEST(linear_time, an_object_of_many_keys_is_parsed) {
  const auto object = [](std::size_t n) {
    std::string text = "{\"key\": 0";
    for (std::size_t i = 0; i < n; ++i) text += ",\"key" + std::to_string(i) + "\": [" + std::to_string(i) + "]";
    return text + "}";
  };
  using ordered = nlohmann::ordered_json;
  EXPECT_LE(growth_of_time(2000, object, [](const std::string& t) { parse_json<format_error, ordered>(t, ""); }),
            linear_growth);
  EXPECT_LE(growth_of_time(2000, object, [](const std::string& t) { parse_exact_json<format_error, ordered>(t, ""); }),
            linear_growth);
  EXPECT_LE(growth_of_time(2000, object, [](const std::string& t) { try_parse_json(t); }), linear_growth);
  EXPECT_LE(growth_of_time(
                1000,
                [&](std::size_t n) {
                  ordered m = ordered::parse(object(n));
                  m["role"] = "user", m["content"] = "x";
                  return ordered::array({m});
                },
                [](const ordered& list) { messages_from_json(list); }),
            linear_growth);
}

TEST(linear_time, values_are_those_of_the_parser_of_nlohmann) {
  const std::vector<std::string> parts{"{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"a\"",
                                       "\"b\"",
                                       "\"\"",
                                       "1",
                                       "-2.5e3",
                                       "null",
                                       "true",
                                       " ",
                                       "\"a\":1",
                                       "\"a\":{\"b\":[]}",
                                       "18446744073709551616",
                                       "1e999",
                                       "x"};
  const auto ordered = [](const std::string& text) -> std::string {
    try {
      return nlohmann::ordered_json::parse(text).dump();
    } catch (const json::parse_error& e) {
      return "x: not valid JSON (at byte " + std::to_string(e.byte) + " of " + std::to_string(text.size()) + ")";
    } catch (const json::exception&) {
      return "x: not valid JSON (a number is out of range)";
    }
  };
  std::mt19937 random(1);
  std::string many = "{";
  for (int i = 0; i < 100; ++i)
    many += (i > 0 ? ",\"" : "\"") + std::to_string(random() % 50) + "\":" + std::to_string(i);
  std::vector<std::string> texts{many + "}", "[" + many + "}]"};
  for (int i = 0; i < 3000; ++i) {
    std::string text = random() % 2 == 0 ? "{\"a\":1,\"b\":2,\"a\":" : "[";
    for (std::size_t n = random() % 8; n > 0; --n) text += parts[random() % parts.size()];
    texts.push_back(text + (text[0] == '{' ? "}" : "]"));
  }
  for (const std::string& text : texts) {
    const std::string expected = ordered(text);
    std::string found;
    const std::string problem = thrown_by([&] {
      found = parse_json<format_error, nlohmann::ordered_json>(text, "x").dump();
      EXPECT_EQ(parse_json<format_error>(text, "x"), json::parse(text));
      EXPECT_EQ(try_parse_json(text), json::parse(text));
    });
    EXPECT_EQ(found.empty() ? problem : found, expected) << text;
    EXPECT_EQ(try_parse_json(text).is_discarded(), found.empty()) << text;
  }
  EXPECT_FALSE(try_parse_json(std::string(1000, '[') + std::string(1000, ']')).is_discarded());
  EXPECT_TRUE(try_parse_json(std::string(1001, '[') + std::string(1001, ']')).is_discarded());
}

TEST(linear_time, what_a_template_writes_is_limited_before_it_is_there) {
  std::string deep = "1";
  for (int i = 0; i < 900; ++i) deep = "[" + deep + ",1]";
  const jinja::program written("{{ x | tojson(indent=100) }}");
  jinja::value::list many(100, jinja::from_json(json::parse(deep)));
  jinja::dictionary variables;
  variables.set("x", jinja::value(std::move(many)));
  EXPECT_EQ(thrown_by([&] { written.render(variables); }),
            "line 1: the template does more work than it may; it may loop over too much");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
