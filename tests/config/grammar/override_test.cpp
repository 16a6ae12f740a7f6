// Overrides against Hydra itself (tests/reference/options_grammar.py).
#include "rlcore/config/grammar/override.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "rlcore/config/grammar/compose.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using json = nlohmann::json;

const json& golden() {
  static const json data = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/options_grammar.json"));
  return data;
}

/// The generator's encoding: floats as {"float": repr}, maps as {"map": [[key, value], ...]}.
json encode(const value& v) {
  if (v.is_null()) return nullptr;
  if (const bool* x = v.as<bool>()) return *x;
  if (const std::int64_t* x = v.as<std::int64_t>()) return *x;
  if (const double* x = v.as<double>()) return {{"float", real_text(*x)}};
  if (const std::string* x = v.as<std::string>()) return *x;
  json items = json::array();
  if (const auto* list = v.as<value::list>()) {
    for (const value& item : *list) items.push_back(encode(item));
    return items;
  }
  for (const member& m : *v.as<value::map>()) items.push_back(json::array({m.name, encode(m.item)}));
  return {{"map", items}};
}

value decode(const json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<std::int64_t>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_array()) {
    value::list items;
    for (const json& item : j) items.push_back(decode(item));
    return value(std::move(items));
  }
  if (!j.is_object()) return {};
  if (j.contains("float")) return std::stod(j["float"].get<std::string>());
  value::map members;
  for (const json& pair : j["map"]) members.push_back({pair[0].get<std::string>(), decode(pair[1])});
  return value(std::move(members));
}

std::string kind_name(override_kind kind) {
  switch (kind) {
    case override_kind::change:
      return "CHANGE";
    case override_kind::add:
      return "ADD";
    case override_kind::force_add:
      return "FORCE_ADD";
    default:
      return "DEL";
  }
}

TEST(override_setting, reads_every_token_as_hydra_does) {
  ASSERT_GT(golden()["tokens"].size(), 200u);
  for (const json& test : golden()["tokens"]) {
    const std::string text = test["text"];
    SCOPED_TRACE(text);
    if (test.contains("error")) {
      try {
        parse_override(text);
        ADD_FAILURE() << "accepted";
      } catch (const rlcore::config_error& e) {
        EXPECT_NE(std::string(e.what()).find("'" + text + "'"), std::string::npos) << e.what();
        if (text.find('\n') == std::string::npos) {
          EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
        }
      }
      continue;
    }
    try {
      const override_setting o = parse_override(text);
      EXPECT_EQ(kind_name(o.kind), test["kind"]);
      EXPECT_EQ(o.key, test["key"]);
      EXPECT_EQ(o.has_value, test.contains("value"));
      if (o.has_value) {
        EXPECT_EQ(encode(o.item), test["value"]);
      }
    } catch (const rlcore::config_error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(override_setting, composes_as_hydra_does) {
  ASSERT_GT(golden()["compose"].size(), 50u);
  for (const json& test : golden()["compose"]) {
    SCOPED_TRACE(test["overrides"].dump());
    value root = decode(golden()["base"]);
    try {
      for (const std::string text : test["overrides"]) apply(root, parse_override(text));
      const value result = interpolation(root).run();
      if (test.contains("error")) {
        ADD_FAILURE() << "accepted, Hydra: " << test["error"];
      } else {
        EXPECT_EQ(encode(result), test["result"]);
      }
    } catch (const rlcore::config_error& e) {
      EXPECT_TRUE(test.contains("error")) << e.what();
    }
  }
}

TEST(override_setting, refuses_an_integer_beyond_64_bits) {
  EXPECT_THROW(parse_override("a=99999999999999999999"), rlcore::config_error);
}

TEST(override_setting, explains_the_common_traps) {
  const auto message = [](const char* text) {
    try {
      parse_override(text);
    } catch (const rlcore::config_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("a=x,y"),
            "'a=x,y' is not a setting: ambiguous value: a list is written [a,b], a text with a comma in quotes");
  EXPECT_EQ(message("a"), "'a' is not a setting: it has no '='; expected key=value");
  EXPECT_EQ(message("a =1"), "'a =1' is not a setting: 'a ' is no key (no blank may stand in or around it)");
  EXPECT_EQ(message("a=~/x"), "'a=~/x' is not a setting: '~' cannot stand outside quotes; write $HOME");
}

TEST(override_setting, takes_a_map_of_4096_members_at_most) {
  const auto map_of = [](int members) {
    std::string text = "a={k0:0";
    for (int i = 1; i < members; ++i) text += ",k" + std::to_string(i) + ":0";
    return text + "}";
  };
  EXPECT_EQ(parse_override(map_of(4096)).item.as<value::map>()->size(), 4096u);
  EXPECT_NE(thrown_by([&] { parse_override(map_of(4097)); }).find("a map of more than 4096 members"),
            std::string::npos);
}

// Numbers as Python prints them; the expected spellings are those of CPython 3.11.
TEST(real_text, is_pythons_repr) {
  EXPECT_EQ(real_text(1.0), "1.0");
  EXPECT_EQ(real_text(-0.0), "-0.0");
  EXPECT_EQ(real_text(0.1), "0.1");
  EXPECT_EQ(real_text(1e-4), "0.0001");
  EXPECT_EQ(real_text(1e-5), "1e-05");
  EXPECT_EQ(real_text(5e-7), "5e-07");
  EXPECT_EQ(real_text(1.5e-7), "1.5e-07");
  EXPECT_EQ(real_text(1e15), "1000000000000000.0");
  EXPECT_EQ(real_text(1e16), "1e+16");
  EXPECT_EQ(real_text(1.2345e22), "1.2345e+22");
  EXPECT_EQ(real_text(123456.789), "123456.789");
  EXPECT_EQ(real_text(0.17391938503519522), "0.17391938503519522");
  EXPECT_EQ(real_text(5e-324), "5e-324");
  EXPECT_EQ(real_text(1.7976931348623157e308), "1.7976931348623157e+308");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
