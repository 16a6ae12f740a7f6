#include "rlcore/data/sft_dataset.hpp"

#include "data/scratch.hpp"

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

}  // namespace
}  // namespace RLCORE_TEST_ID
