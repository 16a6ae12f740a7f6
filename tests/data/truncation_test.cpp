#include "rlcore/data/truncation.hpp"

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::data;
using ids = std::vector<std::int32_t>;

ids cut(truncation how, std::size_t limit) {
  ids tokens{1, 2, 3, 4, 5, 6, 7};
  truncate(tokens, limit, how, "f: row 3: prompt", "data.max_prompt_length");
  return tokens;
}

TEST(truncation, keeps_what_the_word_says) {
  EXPECT_EQ(cut(truncation::left, 5), (ids{3, 4, 5, 6, 7}));
  EXPECT_EQ(cut(truncation::right, 5), (ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(cut(truncation::middle, 5), (ids{1, 2, 5, 6, 7}));  // 5 / 2 of the head, the rest from the tail
  EXPECT_EQ(cut(truncation::middle, 1), (ids{7}));
  for (const auto how : {truncation::left, truncation::right, truncation::middle, truncation::error}) {
    EXPECT_EQ(cut(how, 7).size(), 7u);
    EXPECT_EQ(cut(how, 0).size(), 7u);
  }
}

TEST(truncation, errors_name_row_and_both_lengths) {
  scratch::error_of<rlcore::data_error>([] { cut(truncation::error, 5); },
                                        {"f: row 3", "7 tokens", "data.max_prompt_length is 5"});
  EXPECT_EQ(parse_truncation("middle"), truncation::middle);
  scratch::error_of<rlcore::config_error>([] { parse_truncation("rigth"); }, {"'rigth'", "did you mean 'right'?"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
