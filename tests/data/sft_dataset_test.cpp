#include "rlcore/data/sft_dataset.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/train_bpe.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::data;
using rlcore::data_error;
using ids = std::vector<std::int32_t>;

TEST(sft_dataset, learns_response_and_eos_from_the_last_prompt_token_on) {
  const sft_example e = make_sft_example(ids{1, 2, 3}, ids{4, 5}, 9, 0, truncation::error, "row");
  EXPECT_EQ(e.tokens, (ids{1, 2, 3, 4, 5, 9}));
  EXPECT_EQ(e.written, (std::vector<std::uint8_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(e.trained(), 3u);
  EXPECT_EQ(e.loss_mask(), (std::vector<std::uint8_t>{0, 0, 1, 1, 1, 0}));  // positions 2 to 4 = len - 2
  EXPECT_EQ(make_sft_example(ids{1}, ids{}, 9, 0, truncation::error, "row").loss_mask(),
            (std::vector<std::uint8_t>{1, 0}));
}

TEST(sft_dataset, truncates_the_whole_row) {
  const ids prompt{1, 2, 3}, response{4, 5};
  const sft_example right = make_sft_example(prompt, response, 9, 4, truncation::right, "row");
  EXPECT_EQ(right.tokens, (ids{1, 2, 3, 4}));
  EXPECT_EQ(right.loss_mask(), (std::vector<std::uint8_t>{0, 0, 1, 0}));
  const sft_example left = make_sft_example(prompt, response, 9, 4, truncation::left, "row");
  EXPECT_EQ(left.tokens, (ids{3, 4, 5, 9}));
  EXPECT_EQ(left.loss_mask(), (std::vector<std::uint8_t>{1, 1, 1, 0}));
  const sft_example tail = make_sft_example(prompt, response, 9, 2, truncation::left, "row");
  EXPECT_EQ(tail.tokens, (ids{5, 9}));
  EXPECT_EQ(tail.loss_mask(), (std::vector<std::uint8_t>{1, 0}));
}

TEST(sft_dataset, refuses_rows_without_anything_to_learn) {
  const ids prompt{1, 2, 3}, response{4, 5};
  scratch::error_of<data_error>([&] { make_sft_example(prompt, response, 9, 5, truncation::error, "row 7"); },
                                {"row 7", "6 tokens", "data.max_length is 5"});
  scratch::error_of<data_error>([&] { make_sft_example(prompt, response, 9, 3, truncation::right, "row 7"); },
                                {"row 7", "nothing of the response"});
  scratch::error_of<data_error>([&] { make_sft_example(prompt, response, 9, 1, truncation::left, "row 7"); },
                                {"nothing of the response"});
  scratch::error_of<data_error>([&] { make_sft_example({}, response, 9, 0, truncation::error, "row 7"); },
                                {"no tokens"});
  scratch::error_of<rlcore::config_error>(
      [&] { make_sft_example(prompt, response, 9, 3, truncation::middle, "row 7"); }, {"middle"});
}

namespace text = rlcore::text;

/// Bytes, and the tokens of ChatML.
const text::tokenizer& tokenizer() {
  static const auto only = text::train_bpe(std::vector<std::string>{"assistant"}, 259,
                                           std::vector<std::string>{"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  return only;
}

TEST(sft_dataset, refuses_what_a_row_teaches_and_the_template_drops) {
  const auto qwen3 = text::chat_template::named("qwen3");
  const auto cuts = text::chat_template::from_jinja(
      "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  const std::vector<text::message> last{{"user", "1"}, {"assistant", "<think>why</think>A"}},
      earlier{{"user", "1"}, {"assistant", "<think>why</think>A"}, {"user", "2"}, {"assistant", "B"}};
  scratch::error_of<data_error>([&] { conversation_example(cuts, tokenizer(), last, {}); },
                                {"messages[1]", "a part of the content (\"why\")", "has no place in chat template"});
  template_notes notes;
  conversation_example(cuts, tokenizer(), earlier, {}, learnt_turns::all, &notes, "a.jsonl: row 0");
  conversation_example(cuts, tokenizer(), earlier, {}, learnt_turns::all, &notes, "a.jsonl: row 1");
  conversation_example(qwen3, tokenizer(), last, {}, learnt_turns::all, &notes, "a.jsonl: row 2");
  EXPECT_EQ(notes.sentences(), (std::vector<std::string>{"the chat template leaves out a part of the content in 2 "
                                                         "rows, first in a.jsonl: row 0: messages[1]"}));
}

TEST(sft_dataset, an_opening_has_the_tokens_of_a_prompt) {
  const std::vector<text::message> turns{{"user", "Hi"}, {"assistant", "\nA"}};
  const auto tagged = text::chat_template::from_jinja(
      "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.role == 'assistant' %}{% generation %}{{ '\n' + "
      "m.content }}"
      "<|im_end|>{% endgeneration %}{% else %}{{ '\n' + m.content }}<|im_end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}");
  const auto prompt =
      tokenizer().encode(tagged.render(std::vector<text::message>{turns[0]}, {.add_generation_prompt = true}));
  const sft_example e = conversation_example(tagged, tokenizer(), turns, {});
  ASSERT_GT(e.tokens.size(), prompt.size());
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), e.tokens.begin()));
  EXPECT_EQ(e.written[prompt.size() - 1], 1) << "the line end is learnt: the tags say so";
  EXPECT_EQ(e.written[prompt.size() - 2], 0);
  EXPECT_EQ(tokenizer().decode(e.tokens), tagged.render(turns));
  template_notes notes;
  const auto opens = text::chat_template::from_jinja(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}");
  conversation_example(opens, tokenizer(), turns, {}, learnt_turns::all, &notes, "row 3");
  EXPECT_EQ(notes.sentences(), (std::vector<std::string>{"the answer begins otherwise than the chat template opens one "
                                                         "(\"<assistant><think>\") in 1 row: row 3"}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
