// From columns to tokens by OpenRLHF's rules (datasets/*.py of 0.7.5), on a tokenizer with ChatML's template.
#include <gtest/gtest.h>

#include "rlcore/train/preference/read_rows.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using data::row;

const std::filesystem::path folder = RLCORE_REFERENCE_DIR "/first_steps/tokenizer";
const text::tokenizer& tokenizer() {
  static const text::tokenizer t = text::tokenizer::load(folder);
  return t;
}
row_rules rules(std::size_t max_len = 200, bool chat = false) {
  row_rules r{tokenizer(), {}, {}, max_len};
  if (chat) r.chat = text::chat_template::detect(folder);
  return r;
}
data::blend rows(std::vector<row> list) {
  data::blend b;
  for (std::uint32_t i = 0; i < list.size(); ++i) b.order.push_back({0, i});
  b.sets.push_back({"file", std::move(list)});
  return b;
}
std::string text_of(const std::vector<std::int32_t>& ids) { return tokenizer().decode(ids); }
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}
row message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

TEST(row_rules, every_text_ends_with_the_end_token) {
  bool cut = false;
  EXPECT_EQ(text_of(rules().ended("Bo has 18 coins.\n\n", cut)), "Bo has 18 coins. <|im_end|>");
  EXPECT_EQ(text_of(rules().ended("Bo has 18 coins.<|im_end|>\n", cut)), "Bo has 18 coins.<|im_end|>");
  EXPECT_FALSE(cut);
  const auto whole = rules().ended("Bo has 18 coins and gives 1 away.", cut);
  auto head = std::vector<std::int32_t>(whole.begin(), whole.begin() + 4);
  head.back() = *tokenizer().eos_id();  // whatever stood there
  EXPECT_EQ(rules(4).ended("Bo has 18 coins and gives 1 away.", cut), head);
  EXPECT_TRUE(cut);
}

TEST(row_rules, templates_are_filled_as_python_does) {
  EXPECT_EQ(fill_template("User: {}\nAssistant: ", "a{}b"), "User: a{}b\nAssistant: ");
  EXPECT_EQ(fill_template("{{{}}}", "x"), "{x}");
  EXPECT_NO_THROW(check_template("{{}} {}"));
  for (const char* bad : {"none", "{} {}", "{name}", "{", "}"}) EXPECT_THROW(check_template(bad), config_error) << bad;
}

TEST(pair_rows, plain_texts_with_a_template) {
  auto r = rules();
  r.input_template = "Q: {} ";
  const auto set = read_pairs(rows({{{"prompt", "2?"}, {"chosen", "two"}, {"rejected", "three\n"}, {"margin", 0.5}},
                                    {{"prompt", "3?"}, {"chosen", "three"}, {"rejected", "two"}, {"margin", nullptr}}}),
                              {.prompt = "prompt"}, r, true);
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(text_of(set[0].chosen), "Q: 2? two <|im_end|>");
  EXPECT_EQ(text_of(set[0].rejected), "Q: 2? three <|im_end|>");
  EXPECT_EQ(set[0].prompt_length, tokenizer().encode("Q: 2? ").size());
  EXPECT_EQ(set[0].margin, 0.5);
  EXPECT_EQ(set[1].margin, 0);
}

TEST(pair_rows, conversations) {
  const row asked = message("user", "2?"), good = message("assistant", "two"), bad = message("assistant", "three");
  const std::string turn = "<|im_start|>user\n2?<|im_end|>\n<|im_start|>assistant\n";
  const auto whole = rows({{{"chosen", {asked, good}}, {"rejected", {asked, bad}}}});
  const auto pairs = read_pairs(whole, {}, rules(200, true), true);
  EXPECT_EQ(text_of(pairs[0].chosen), turn + "two<|im_end|>");
  EXPECT_EQ(text_of(pairs[0].rejected), turn + "three<|im_end|>");
  EXPECT_EQ(pairs[0].prompt_length, tokenizer().encode(turn).size());
  const auto scored = read_pairs(whole, {}, rules(200, true), false);
  EXPECT_EQ(scored[0].chosen, pairs[0].chosen);
  EXPECT_EQ(scored[0].prompt_length, 0u);
  for (const row& prompt : {row::array({asked}), row("2?")}) {  // a list of messages, or a text as one
    const auto split = read_pairs(rows({{{"q", prompt}, {"chosen", {good}}, {"rejected", "three"}}}), {.prompt = "q"},
                                  rules(200, true), true);
    EXPECT_EQ(split[0].chosen, pairs[0].chosen);
    EXPECT_EQ(split[0].rejected, pairs[0].rejected);
  }
}

TEST(pair_rows, what_does_not_fit_is_counted) {
  const std::size_t n = tokenizer().encode("Bo has 18 coins and gives 1 away.").size();
  const auto one =
      rows({{{"prompt", "Bo has 18 coins and gives 1 away."}, {"chosen", " a b c d"}, {"rejected", " e"}}});
  EXPECT_EQ(read_pairs(one, {.prompt = "prompt"}, rules(n + 2), true).long_prompts, 1u);
  const auto kept = read_pairs(one, {.prompt = "prompt"}, rules(n + 3), true);
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.truncated, 1u);
  EXPECT_EQ(kept.summary("train"), "train  1 row (1 cut to max_len)");
  EXPECT_EQ(read_pairs(one, {.prompt = "prompt"}, rules(n), false).size(), 1u);  // reward models keep it
  EXPECT_THROW(read_pairs(one, {.prompt = "prompt"}, rules(n + 2), true).require_some("file"), data_error);
}

TEST(pair_rows, errors_name_row_and_column) {
  const auto read = [](const row& r, bool chat = false) {
    return refusal([&] { read_pairs(rows({{{"chosen", "a"}, {"rejected", "b"}}, r}), {}, rules(200, chat), false); });
  };
  EXPECT_EQ(read({{"chosen", "a"}, {"rejectd", "b"}}),
            "file: row 1: no column 'rejected'; it has chosen, rejectd (did you mean 'rejectd'?)");
  EXPECT_NE(read({{"chosen", {message("user", "a")}}, {"rejected", "b"}}).find("pass --apply_chat_template"),
            std::string::npos);
  EXPECT_NE(
      read({{"chosen", "a"}, {"rejected", "b"}, {"margin", "big"}}).find("'margin' is \"big\"; expected a number"),
      std::string::npos);
  EXPECT_NE(read({{"chosen", 3}, {"rejected", "b"}}, true).find("row 1: column 'chosen' is 3; expected a list"),
            std::string::npos);
}

TEST(unpaired_rows, texts_and_conversations) {
  const unpaired_columns keys{.output = "output"};
  const auto set = read_unpaired(rows({{{"input", "2?"}, {"output", " two"}, {"label", 1}},
                                       {{"input", "2?"}, {"output", " x"}, {"label", false}}}),
                                 keys, rules());
  EXPECT_EQ(text_of(set[0].tokens), "2? two <|im_end|>");
  EXPECT_TRUE(set[0].desirable);
  EXPECT_FALSE(set[1].desirable);
  const row whole{{"input", {message("user", "2?"), message("assistant", "two")}}, {"label", 1}};
  const auto chat = read_unpaired(rows({whole}), {}, rules(200, true));
  EXPECT_EQ(chat[0].text.answer, "two<|im_end|>\n");
  EXPECT_EQ(text_of(chat[0].tokens), chat[0].text.prompt + "two<|im_end|>");
  EXPECT_NE(refusal([&] { read_unpaired(rows({whole}), {}, rules()); }).find("--output_key is needed"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              read_unpaired(rows({{{"input", "2?"}, {"output", "x"}, {"label", 0.5}}}), keys, rules());
            }).find("row 0: column 'label' is 0.5; expected 1 (desirable) or 0"),
            std::string::npos);
}

const std::string mark = "\u043a\u0438";

TEST(step_rows, hard_and_soft_labels) {
  const step_columns keys{.label = "value", .placeholder = mark, .reward_tokens = {"+", "-"}};
  const step_tokens words = find_step_tokens(tokenizer(), keys);
  const std::string text = "Bo keeps 17. " + mark + "\nBo keeps 16. " + mark + "\n";
  const auto hard = read_steps(rows({{{"input", text}, {"value", {"-", "+"}}}}), keys, words, rules());
  ASSERT_EQ(hard[0].steps.size(), 2u);
  for (const std::int32_t t : hard[0].steps) EXPECT_EQ(hard[0].tokens[static_cast<std::size_t>(t)], words.placeholder);
  EXPECT_EQ(hard[0].labels, (std::vector<std::int32_t>{1, 0}));
  const auto soft = read_steps(rows({{{"input", text}, {"value", {0.25, 1}}}}), keys, words, rules());
  EXPECT_EQ(soft[0].probabilities, (std::vector<float>{0.25f, 1.0f}));
  EXPECT_TRUE(soft[0].labels.empty());
  const step_columns open{.label = "value", .placeholder = mark, .reward_tokens = {}};
  const auto any =
      read_steps(rows({{{"input", text}, {"value", {"-", "+"}}}}), open, find_step_tokens(tokenizer(), open), rules());
  EXPECT_EQ(any[0].labels, (std::vector<std::int32_t>{*tokenizer().id_of("-"), *tokenizer().id_of("+")}));
}

TEST(step_rows, counts_have_to_agree_unless_the_text_was_cut) {
  const step_columns keys{.label = "value", .placeholder = mark, .reward_tokens = {"+", "-"}};
  const step_tokens words = find_step_tokens(tokenizer(), keys);
  const std::string text = "Bo keeps 17. " + mark + "\nBo keeps 16. " + mark + "\n";
  const auto read = [&](const row& labels, std::size_t max_len = 200) {
    return read_steps(rows({{{"input", text}, {"value", labels}}}), keys, words, rules(max_len));
  };
  EXPECT_EQ(refusal([&] { read({"+"}); }),
            "file: row 0: 2 placeholders '" + mark + "' in 'input', but 1 labels in 'value'");
  EXPECT_NE(refusal([&] { read({"+", "-", "+"}); }).find("but 3 labels"), std::string::npos);
  const std::size_t half = tokenizer().encode(text).size() - 4;
  const auto cut = read({"+", "-"}, half);
  EXPECT_EQ(cut[0].labels, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(cut.truncated, 1u);
  EXPECT_EQ(read({"+", "-"}, 4).nothing_left, 1u);
  EXPECT_NE(refusal([&] { read({"+", "?"}); }).find("'?' is none of --reward_tokens (+, -)"), std::string::npos);
  EXPECT_NE(refusal([&] { read({0.5, 1.5}); }).find("1.5 is no probability"), std::string::npos);
  EXPECT_NE(refusal([&] { read({0.5, "+"}); }).find("mixes"), std::string::npos);
  EXPECT_NE(refusal([&] { read("+"); }).find("expected a list"), std::string::npos);
}

TEST(step_rows, special_words_are_single_tokens) {
  const auto find = [&](step_columns keys) { return refusal([&] { find_step_tokens(tokenizer(), keys); }); };
  EXPECT_NE(find({}).find("--placeholder_token is needed"), std::string::npos);
  EXPECT_NE(find({.placeholder = "two words"}).find("tokens; expected one token"), std::string::npos);
  EXPECT_NE(find({.placeholder = mark, .reward_tokens = {"+"}}).find("two tokens or more"), std::string::npos);
  EXPECT_NE(find({.placeholder = mark, .reward_tokens = {"+", "+"}}).find("twice"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
