// What say() prints under the names that a command line has.
#include "rlcore/telemetry/console.hpp"

#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

TEST(say, prints_what_was_typed_in_the_place_of_keys) {
  testing::internal::CaptureStdout();
  say("data.max_prompt_length=%d %s\n", 8, "as it is");
  displayed_option_names().add("data.max_prompt_length", "--prompt_max_len", "8", "--prompt_max_len 8");
  say("data.max_prompt_length=%d %s\n", 8, "as typed");
  {
    const silence quiet;
    say("data.max_prompt_length=%d\n", 8);
  }
  displayed_option_names() = {};
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "data.max_prompt_length=8 as it is\n--prompt_max_len 8 as typed\n");
}

TEST(fitted, breaks_sentences_at_blanks_and_leaves_tables_and_commands) {
  EXPECT_EQ(fitted("note: one two three\n", 10), "note: one\n  two\n  three\n");
  EXPECT_EQ(fitted("note: one two three\nx\n", 19), "note: one two three\nx\n");
  EXPECT_EQ(fitted("ab /a/path/that/is/long and", 8), "ab\n  /a/path/that/is/long\n  and");
  EXPECT_EQ(fitted("  python3 -c \"import json, sys\" a b c\n\n", 10), "  python3 -c \"import json, sys\" a b c\n\n");
  EXPECT_EQ(fitted("model  a: b\n", 7), "model\n  a: b\n");
  EXPECT_EQ(fitted("12345678   ", 10), "12345678   ");
  EXPECT_EQ(fitted("1234567890    x", 10), "1234567890\n  x");
  EXPECT_EQ(fitted("note: one two\n", 0), "note: one two\n");
  EXPECT_EQ(fitted("", 10), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
