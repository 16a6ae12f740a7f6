// Supervised rows with images against transformers' processor (reference/image_rows.py), and rows that are no good.
#include "rlcore/data/sft_dataset.hpp"

#include "data/image_golden.hpp"
#include "data/scratch.hpp"
#include "rlcore/data/sft_rows.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using namespace rlcore::data;
using json = nlohmann::ordered_json;
using ids = std::vector<std::int32_t>;
using image_golden::chat, image_golden::golden, image_golden::tokenizer;

sft_settings settings(sft_layout layout) {
  sft_settings s;
  s.layout = layout;
  s.prompt_key = "problem", s.response_key = "answer";
  image_golden::expect_images(s.images);
  s.images.written = "<|vision_start|><|image_pad|><|vision_end|>";
  return s;
}
sft_example read(const row& from, const sft_settings& s) {
  const auto example = sft_reader(s, tokenizer(), &chat())(from, "f: row 0");
  EXPECT_TRUE(example.has_value());
  return example.value_or(sft_example{});
}

TEST(sft_images, conversations_have_the_tokens_of_transformers_and_no_image_is_learnt) {
  ASSERT_EQ(golden()["supervised"].size(), 3u);
  for (const json& c : golden()["supervised"]) {
    const sft_example e =
        read({{"messages", c["messages"]}, {"images", c["images"]}}, settings(sft_layout::conversation));
    // Tables keep the end of a line behind an answer apart; the tokens are the same here.
    EXPECT_EQ(e.tokens, c["ids"].get<ids>());
    EXPECT_EQ(e.written, c["written"].get<std::vector<std::uint8_t>>());
    EXPECT_EQ(e.images.size(), c["images"].size());
  }
}

TEST(sft_images, a_question_may_show_an_image) {
  const json& c = golden()["supervised"][0];
  const row one{
      {"problem", c["messages"][0]["content"]}, {"answer", c["messages"][1]["content"]}, {"images", c["images"]}};
  const sft_example e = read(one, settings(sft_layout::question));
  const ids conversation = c["ids"];  // with a line end behind the end mark
  EXPECT_EQ(e.tokens, ids(conversation.begin(), conversation.begin() + std::ssize(e.tokens)));
  EXPECT_EQ(e.images.size(), 1u);
  EXPECT_EQ(e.trained(), tokenizer().encode("x is 3.").size() + 1);
}

TEST(sft_images, rows_of_openrlhf_show_images) {
  const json& c = golden()["supervised"][0];
  ids whole = c["ids"];
  auto written = c["written"].get<std::vector<std::uint8_t>>();
  whole.pop_back(), written.pop_back();  // the line end behind the end mark
  sft_settings s = settings(sft_layout::chat);
  s.prompt_key = "input", s.response_key = "";
  const row conversation{{"input", c["messages"]}, {"images", c["images"]}};
  EXPECT_EQ(read(conversation, s).tokens, whole);
  EXPECT_EQ(read(conversation, s).written, written);
  s.response_key = "output";
  const row apart{{"input", "<image>Find x."}, {"output", "x is 3."}, {"images", c["images"]}};
  EXPECT_EQ(read(apart, s).tokens, whole);
  EXPECT_EQ(read(apart, s).images.size(), 1u);

  for (const sft_layout layout : {sft_layout::plain, sft_layout::text}) {
    s.layout = layout;
    const sft_example e = read(apart, s);
    const auto begin = std::find(whole.begin(), whole.end(), *tokenizer().id_of("<|vision_start|>"));
    const auto shown = 2 + std::count(whole.begin(), whole.end(), s.images.token);
    ASSERT_GT(std::ssize(e.tokens), shown);
    EXPECT_EQ(ids(e.tokens.begin(), e.tokens.begin() + shown), ids(begin, begin + shown));
    const std::size_t answer = tokenizer().encode("x is 3. <|im_end|>").size();
    const std::size_t text = tokenizer().encode("<|vision_start|><|vision_end|>Find x.").size() - 1;
    EXPECT_EQ(e.trained(), layout == sft_layout::plain ? answer : text) << "no token of the image is learnt";
    s.max_length = static_cast<std::size_t>(shown) - 2;
    if (layout == sft_layout::plain) {
      EXPECT_FALSE(sft_reader(s, tokenizer(), nullptr)(apart, "f: row 0")) << "no room for an answer";
    } else {
      scratch::error_of<data_error>([&] { sft_reader(s, tokenizer(), nullptr)(apart, "f: row 0"); },
                                    {"f: row 0: ", "tokens with images, but --max_len is", "images are not cut"});
    }
    s.max_length = 1024;
  }
}

TEST(sft_images, refuses_what_does_not_fit) {
  const json& c = golden()["supervised"][1];
  const row good{{"messages", c["messages"]}, {"images", c["images"]}};
  const auto refused = [&](row bad, sft_settings s, std::vector<std::string> parts) {
    parts.push_back("f: row 0: ");
    scratch::error_of<data_error>([&] { sft_reader(s, tokenizer(), &chat())(bad, "f: row 0"); }, parts);
  };
  sft_settings s = settings(sft_layout::conversation);
  row bad = good;
  bad["images"].erase(0);
  refused(bad, s, {"3 <image> marks (messages[1]: 1, messages[2]: 2), but 2 images"});
  bad = good;
  bad["messages"][4]["content"] = "<|image_pad|>";
  refused(bad, s, {"4 image tokens for 3 images"});
  s.max_length = c["ids"].size() - 1;
  refused(good, s, {std::to_string(c["ids"].size()) + " tokens, but data.max_length"});
  s.truncation = truncation::right;
  refused(good, s, {std::to_string(c["ids"].size()) + " tokens with images", "images are not truncated"});
  s = settings(sft_layout::conversation);
  s.images.processor.reset();
  refused(good, s, {"the model reads no images"});
  row words{{"problem", "p"}, {"answer", "a"}, {"images", c["images"]}};
  for (const sft_layout layout : {sft_layout::plain, sft_layout::chat, sft_layout::text})
    refused(words, settings(layout), {"0 <image> marks, but 3 images"});
  refused(words, settings(sft_layout::question), {"0 <image> marks, but 3 images"});
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
