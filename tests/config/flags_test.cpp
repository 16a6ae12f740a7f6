// Flags in the style of argparse. What argparse itself does with each line: tests/reference/flag_grammar.py.
#include "rlcore/config/flags.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "rlcore/config/options.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
using arguments = std::vector<std::string>;

value doubled(const value& v) { return value(std::stod(scalar_text(v)) * 2); }

registry example() {
  using namespace keys;
  static constexpr key flat[] = {
      {"text", keys::text, "null", honoured, "any text"},
      {"count", integer, "128", honoured, "a whole number", at_least(-1)},
      {"rate", real, "0.1", honoured, "a number"},
      {"rate_floor", real, "0.0", honoured, "a number"},
      {"switch_on", boolean, "False", honoured, "a switch"},
      {"names", texts, "all-linear", honoured, "a list"},
      {"offload", boolean, "False", accepted, "a switch without effect"},
  };
  static constexpr key dotted[] = {
      {"optim.betas", any, "[0.9,0.95]", honoured, "two numbers"},
      {"optim.lr", real, "0.001", honoured, "learning rate"},
      {"model.compute", keys::text, "float32", honoured, "type", words("float32|bfloat16")}};
  static constexpr flag aliases[] = {{"pair", "optim.betas", 2},
                                     {"twice", "optim.lr", 1, "True", doubled},
                                     {"half", "model.compute", flag::switch_only, "bfloat16"}};
  registry known;
  known.program = "example";
  known.summary = "an example";
  return known.add_as_flags(flat).add(dotted).add_flags(aliases);
}

options parse(const arguments& args) { return options::parse(args, example()); }

std::string refusal(const arguments& args, const registry& known = example()) {
  try {
    options::parse(args, known);
  } catch (const rlcore::config_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}

/// What argparse stored, or null where it refused, next to what we store.
TEST(flags, read_a_command_line_as_argparse_does) {
  const auto cases = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/flag_grammar.json"));
  ASSERT_GT(cases.size(), 25u);
  for (const auto& one : cases) {
    const auto args = one.at("arguments").get<arguments>();
    SCOPED_TRACE(one.at("arguments").dump());
    if (one.at("stored").is_null()) {
      EXPECT_NE(refusal(args), "accepted");
      continue;
    }
    const options opt = parse(args);
    for (const auto& [name, theirs] : one.at("stored").items()) {
      const value& mine = opt.at(name == "pair" ? "optim.betas" : name);
      if (theirs.is_array()) {
        const auto* items = mine.as<value::list>();
        ASSERT_NE(items, nullptr) << name;
        ASSERT_EQ(items->size(), theirs.size()) << name;
        for (std::size_t i = 0; i < theirs.size(); ++i) {
          const value& item = (*items)[i];
          if (theirs[i].is_string()) {
            EXPECT_EQ(scalar_text(item), theirs[i].get<std::string>());
          } else {
            EXPECT_EQ(std::stod(scalar_text(item)), theirs[i].get<double>());
          }
        }
      } else if (theirs.is_boolean()) {
        EXPECT_EQ(opt.get<bool>(name), theirs.get<bool>());
      } else if (theirs.is_string()) {
        EXPECT_EQ(scalar_text(mine), theirs.get<std::string>()) << name;
      } else if (theirs.is_number()) {
        EXPECT_EQ(std::stod(scalar_text(mine)), theirs.get<double>()) << name;
      } else {
        EXPECT_TRUE(mine.is_null()) << name;
      }
    }
  }
}

TEST(flags, mix_with_keys_and_the_last_word_wins) {
  EXPECT_EQ(parse({"--rate", "1", "rate=2"}).get<double>("rate"), 2);
  EXPECT_EQ(parse({"rate=2", "--rate=1"}).get<double>("rate"), 1);
  const options list = parse({"--names", "q_proj", "a=b", "rate=3"});  // a=b is no key, so it is a name
  EXPECT_EQ(list.list("names"), (arguments{"q_proj", "a=b"}));
  EXPECT_EQ(list.get<double>("rate"), 3);
  EXPECT_EQ(parse({"switch_on=True"}).get<bool>("switch_on"), true);
}

TEST(flags, set_keys_of_another_name_and_type) {
  const options opt = parse({"--twice", "0.5", "--half", "--pair", "0.8", "1e-3"});
  EXPECT_EQ(opt.get<double>("optim.lr"), 1);
  EXPECT_EQ(opt.get<std::string>("model.compute"), "bfloat16");
  EXPECT_EQ(inline_text(opt.at("optim.betas")), "[0.8,0.001]");
  EXPECT_TRUE(opt.is_set("optim.lr"));
}

TEST(flags, take_texts_literally) {
  EXPECT_EQ(parse({"--text", "a=${rate}, b"}).get<std::string>("text"), "a=${rate}, b");
  EXPECT_EQ(parse({"--text", "User: {}\nAssistant: "}).get<std::string>("text"), "User: {}\nAssistant: ");
  EXPECT_EQ(parse({"--text=True"}).get<std::string>("text"), "True");
}

TEST(flags, name_what_is_wrong) {
  EXPECT_EQ(refusal({"--cuont", "1"}), "unknown flag '--cuont' (did you mean '--count'?); see --help");
  EXPECT_EQ(refusal({"--rat", "1"}), "ambiguous flag '--rat': it may mean '--rate' or '--rate_floor'");
  EXPECT_EQ(refusal({"--switch-on"}), "unknown flag '--switch-on' (did you mean '--switch_on'?); see --help");
  EXPECT_EQ(refusal({"--optim.lr", "1"}), "'--optim.lr' is a key and no flag; expected optim.lr=value");
  EXPECT_EQ(refusal({"optim.lr", "=", "1"}),
            "'=' has no key in front of it; expected key=value without blanks around '='");
  EXPECT_EQ(refusal({"--count", "many"}), "--count=many: expected an integer (a whole number)");
  EXPECT_EQ(refusal({"--count", "-7"}), "--count=-7: expected an integer >= -1 (a whole number)");
  EXPECT_EQ(refusal({"--rate"}), "--rate needs a value");
  EXPECT_EQ(refusal({"--rate", "--half"}), "--rate needs a value before '--half'");
  EXPECT_EQ(refusal({"--pair", "1"}), "--pair needs 2 values, got 1");
  EXPECT_EQ(refusal({"--half=yes"}), "--half takes no value, got 'yes'; to set it, write model.compute=...");
  EXPECT_EQ(refusal({"--switch_on", "False"}),
            "--switch_on takes no value, got 'False'; to set it, write switch_on=False");
  EXPECT_EQ(refusal({"--switch_on", "true", "--count", "1"}),
            "--switch_on takes no value, got 'true'; to set it, write switch_on=true");
  EXPECT_EQ(refusal({"stray"}), "'stray' is not a setting: it has no '='; expected key=value or a flag; see --help");
  EXPECT_EQ(refusal({"cuont", "3"}),
            "'cuont' is not a setting: it has no '='; expected key=value or a flag (did you mean '--count'?); see "
            "--help");
  EXPECT_EQ(refusal({"-rate", "1"}),
            "unknown option '-rate' (did you mean '--rate'?); settings are written key=value, see --help");
}

TEST(flags, stand_in_the_help) {
  const std::string help = *parse({"--help"}).answer();
  for (const char* part : {"--flag value", "--rate_floor 0.0 ", "also --half (bfloat16)", "--pair ",
                           "options: name=value sets the same", "optim.*"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  EXPECT_EQ(help.find("--config-name"), std::string::npos);
}

TEST(flags, without_effect_are_noted) {
  const options opt = parse({"--offload"});
  ASSERT_EQ(opt.notes().size(), 1u);
  EXPECT_EQ(opt.notes()[0], "accepted, without effect on this device: --offload");
}

registry with_words() {
  using namespace keys;
  static constexpr key table[] = {
      {"operation", text, "null", honoured, "what to do", words("copy|compare")},
      {"file", texts, "null", honoured, "files to read"},
      {"target", text, "out", honoured, "where to write", not_empty},
  };
  static constexpr key more[] = {{"only", texts, "null", honoured, "names"}, {"seed", integer, "1", honoured, "seed"}};
  static constexpr flag flags[] = {{"target", "target"}, {"only", "only", flag::append}};
  registry known;
  known.program = "example";
  known.details = "First line.\nexample copy a b\n";
  known.add(table).add_as_flags(more).add_flags(flags);
  return known.add_positional({"operation"})
      .add_positional({"file", 2, positional::any_number})
      .add_positional({"target", 0});
}

TEST(positionals, take_words_in_their_order) {
  const options opt = options::parse(arguments{"copy", "--seed", "3", "a", "lr=1e-3", "~/${c}"}, with_words());
  EXPECT_EQ(opt.get<std::string>("operation"), "copy");
  EXPECT_EQ(opt.list("file"), (arguments{"a", "lr=1e-3", "~/${c}"})) << "lr is no key";
  EXPECT_EQ(opt.get<std::string>("target"), "out");
  EXPECT_EQ(opt.get<std::int64_t>("seed"), 3);
  const options named = options::parse(arguments{"a", "operation=copy", "--target", "t", "b"}, with_words());
  EXPECT_EQ(named.get<std::string>("operation"), "copy");
  EXPECT_EQ(named.list("file"), (arguments{"a", "b"}));
  EXPECT_EQ(named.get<std::string>("target"), "t");
}

TEST(positionals, name_what_is_wrong) {
  EXPECT_EQ(refusal({}, with_words()), "expected OPERATION (what to do: copy compare); see --help");
  EXPECT_EQ(refusal({"copy", "a"}, with_words()),
            "expected FILE ... (files to read), 2 words or more, got 1; see --help");
  EXPECT_EQ(refusal({"compar", "a", "b"}, with_words()),
            "operation=compar: expected copy, compare (did you mean 'compare'?)");
  EXPECT_EQ(refusal({"copy", "file=[x,y]", "a", "target"}, with_words()),
            "'target' is one word too many; expected key=value or a flag (did you mean '--target'?); see --help");
}

TEST(positionals, stand_in_the_help) {
  const std::string help = *options::parse(arguments{"--help"}, with_words()).answer();
  for (const char* part : {"Usage: example OPERATION FILE ... [TARGET] [key=value ...] [options]\n\nFirst line.\n",
                           "\n  operation=null    what to do\n", "\n  --target out      where to write\n"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

TEST(flags, of_one_list_append_to_it) {
  EXPECT_EQ(options::parse(arguments{"copy", "--only", "a", "b", "--only=c*", "d"}, with_words()).list("only"),
            (arguments{"a", "c*"}));
  EXPECT_EQ(refusal({"--only"}, with_words()), "--only needs a value");
}

TEST(flags, refuse_an_empty_text_where_it_says_nothing) {
  EXPECT_EQ(refusal({"--target", ""}, with_words()), "--target=: expected a text that is not empty (where to write)");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
