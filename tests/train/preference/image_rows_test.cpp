// Preference rows with images: transformers' token ids (reference/image_rows.py), and rows that are no good.
#include <gtest/gtest.h>

#include "data/scratch.hpp"
#include "rlcore/train/preference/read_rows.hpp"
#include "train/preference/drawn_rows.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using namespace rlcore::train;
using data::row;
using ids = std::vector<std::int32_t>;

/// A question with an image; its tokens in transformers, which end with a line end behind the end mark.
const nlohmann::ordered_json& shown() { return drawn_rows::golden()["supervised"][0]; }
ids shown_ids() {
  auto all = shown()["ids"].get<ids>();
  all.pop_back();
  return all;
}
std::size_t answer_tokens() { return drawn_rows::tokenizer().encode("x is 3.<|im_end|>").size(); }
row pair() {
  return {{"chosen", shown()["messages"]},
          {"rejected", {shown()["messages"][0], {{"role", "assistant"}, {"content", "No."}}}},
          {"images", shown()["images"]}};
}
const pair_columns of_prompt{.prompt = "prompt"};

preference_pair read_pair(const row& from, const pair_columns& keys, const row_rules& rules, bool for_dpo) {
  const auto set = read_pairs(drawn_rows::blend({from}), keys, rules, for_dpo);
  EXPECT_EQ(set.size(), 1u);
  EXPECT_NE(set.images.find("; 1 of them have images, the largest of "), std::string::npos) << set.images;
  EXPECT_EQ(set.cache, rules.images.cache);
  return set.size() == 1 ? set[0] : preference_pair{};
}
void refused(const row& bad, const pair_columns& keys, const row_rules& rules, bool for_dpo, const std::string& part) {
  scratch::error_of<data_error>([&] { read_pairs(drawn_rows::blend({bad}), keys, rules, for_dpo); },
                                {"file: row 0: ", part});
}

TEST(preference_image_rows, pairs_have_the_tokens_of_transformers_and_share_their_images) {
  const row_rules rules = drawn_rows::rules(true, false);
  for (const bool for_dpo : {true, false}) {
    const preference_pair whole = read_pair(pair(), {}, rules, for_dpo);
    EXPECT_EQ(whole.chosen, shown_ids());
    EXPECT_EQ(whole.images.size(), 1u);
    const std::size_t prompt = shown_ids().size() - answer_tokens();
    EXPECT_EQ(whole.prompt_length, for_dpo ? prompt : 0);
    ids rejected = shown_ids();
    rejected.resize(prompt);
    for (const std::int32_t id : drawn_rows::tokenizer().encode("No.<|im_end|>")) rejected.push_back(id);
    EXPECT_EQ(whole.rejected, rejected);
    const row parts = {{{"type", "image"}}, {{"type", "text"}, {"text", "Find x."}}};
    for (const row& prompt_of : {row("<image>Find x."), row{{{"role", "user"}, {"content", parts}}}}) {
      const preference_pair apart =
          read_pair({{"prompt", prompt_of}, {"chosen", "x is 3."}, {"rejected", "No."}, {"images", shown()["images"]}},
                    of_prompt, rules, for_dpo);
      EXPECT_EQ(apart.chosen, whole.chosen);
      EXPECT_EQ(apart.rejected, whole.rejected);
    }
  }
}

TEST(preference_image_rows, single_answers_keep_the_images_of_their_prompt) {
  const row_rules rules = drawn_rows::rules(true, false);
  const row one{{"input", shown()["messages"]}, {"label", 1}, {"images", shown()["images"]}};
  const auto set = read_unpaired(drawn_rows::blend({one}), {}, rules);
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set[0].tokens, shown_ids());
  EXPECT_EQ(set[0].prompt_length, shown_ids().size() - answer_tokens());
  EXPECT_EQ(set[0].text.images.size(), 1u);
}

TEST(preference_image_rows, texts_without_a_template_have_the_tokens_that_qwen2_5_vl_has) {
  const row_rules rules = drawn_rows::rules(false, false);
  const row one{{"prompt", "<image>Find x."}, {"chosen", "3"}, {"rejected", "4"}, {"images", shown()["images"]}};
  const preference_pair pair = read_pair(one, of_prompt, rules, true);
  const ids whole = shown_ids();  // from <|vision_start|> to the question's end
  const auto begin = std::find(whole.begin(), whole.end(), *drawn_rows::tokenizer().id_of("<|vision_start|>"));
  ASSERT_GT(pair.prompt_length, 10u);
  EXPECT_EQ(ids(pair.chosen.begin(), pair.chosen.begin() + static_cast<std::ptrdiff_t>(pair.prompt_length)),
            ids(begin, begin + static_cast<std::ptrdiff_t>(pair.prompt_length)));

  const step_columns keys{.placeholder = "<tool_call>", .reward_tokens = {"<think>", "</think>"}};
  const row judged{{"input", "<image>One.<tool_call>"}, {"label", {"</think>"}}, {"images", shown()["images"]}};
  const auto steps =
      read_steps(drawn_rows::blend({judged}), keys, find_step_tokens(drawn_rows::tokenizer(), keys), rules);
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_EQ(steps[0].steps.size(), 1u);
  EXPECT_EQ(static_cast<std::size_t>(steps[0].steps[0]) + 1, steps[0].tokens.size());
  EXPECT_EQ(steps[0].tokens.back(), *drawn_rows::tokenizer().id_of("<tool_call>"));
  EXPECT_EQ(std::count(steps[0].tokens.begin(), steps[0].tokens.end(), rules.images.token),
            std::count(whole.begin(), whole.end(), rules.images.token));
}

TEST(preference_image_rows, a_long_prompt_is_left_out_and_an_answer_is_cut_but_no_image) {
  row_rules rules = drawn_rows::rules(true, false);
  const std::size_t all = shown_ids().size(), prompt = all - answer_tokens();
  rules.max_len = prompt + 2;
  const auto set = read_pairs(drawn_rows::blend({pair()}), {}, rules, true);
  EXPECT_EQ(set.long_prompts, 1u);
  EXPECT_NE(set.summary("train").find("(1 rows with images are left out)"), std::string::npos);
  rules.max_len = all - 1;
  EXPECT_EQ(read_pairs(drawn_rows::blend({pair()}), {}, rules, true).truncated, 1u);
  rules.max_len = 30;  // in the image's tokens
  refused(pair(), {}, rules, false, std::to_string(all) + " tokens with images, but --max_len is 30");
}

TEST(preference_image_rows, refuses_what_does_not_fit) {
  const row_rules rules = drawn_rows::rules(true, false);
  for (const bool for_dpo : {true, false}) {
    row bad = pair();
    bad["images"].push_back(bad["images"][0]);
    refused(bad, {}, rules, for_dpo, "1 <image> mark (messages[0]: 1), but 2 images in column 'images'");
    bad = pair();
    bad["rejected"][0]["content"] = "Find x.";
    refused(bad, {}, rules, for_dpo, "column 'rejected': 0 <image> marks, but 1 image");
    bad = pair();
    bad["chosen"][1]["content"] = "x is <|image_pad|>.";
    refused(bad, {}, rules, for_dpo, "2 image tokens for 1 image; <|image_pad|> may not stand in a message");
    bad = pair();
    bad["images"][0]["bytes"] = "aGVsbG8=";
    refused(bad, {}, rules, for_dpo, "images[0]");
    row_rules words = rules;
    words.images.processor.reset(), words.images.model = "folder";
    refused(pair(), {}, words, for_dpo, "folder reads no images: its config.json has no vision_config");
  }
  row answered{{"prompt", "<image>?"}, {"chosen", "a <image>"}, {"rejected", "b <image>"}};
  answered["images"] = {shown()["images"][0], shown()["images"][0]};
  refused(answered, of_prompt, rules, true, "1 of 2 images in an answer; expected all <image> marks in the prompt");
  EXPECT_EQ(read_pairs(drawn_rows::blend({answered}), of_prompt, rules, false).size(), 1u);
  // Words alone, for a model that reads images.
  const row pads{{"prompt", "p"}, {"chosen", "<|image_pad|>"}, {"rejected", "b"}};
  refused(pads, of_prompt, rules, true, "1 image tokens for 0 images; <|image_pad|> may not stand in a message");
  const row one{{"input", "2?"}, {"output", "<|image_pad|>"}, {"label", 1}};
  scratch::error_of<data_error>([&] { read_unpaired(drawn_rows::blend({one}), {.output = "output"}, rules); },
                                {"file: row 0: ", "1 image tokens for 0 images"});
  const step_columns keys{.placeholder = "<tool_call>", .reward_tokens = {"<think>", "</think>"}};
  const row step{{"input", "<|image_pad|><tool_call>"}, {"label", {"<think>"}}};
  scratch::error_of<data_error>(
      [&] { read_steps(drawn_rows::blend({step}), keys, find_step_tokens(drawn_rows::tokenizer(), keys), rules); },
      {"file: row 0: ", "1 image tokens for 0 images"});
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
