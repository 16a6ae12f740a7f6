#include "rlcore/verify/geo3k.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace RLCORE_TEST_ID {

using namespace rlcore::verify;

namespace {

// TRL's think_format_reward, and Python's re on a pattern for <think>...</think><answer>...</answer>.
TEST(format, equals_trl_and_a_regular_expression) {
  std::ifstream in(RLCORE_REFERENCE_DIR "/divergence.json");
  const auto golden = nlohmann::json::parse(in)["format"];
  for (std::size_t k = 0; k < golden["text"].size(); ++k) {
    const std::string text = golden["text"][k];
    EXPECT_EQ(has_think_format(text), golden["trl_think"][k].get<double>() == 1) << text;
    EXPECT_EQ(has_tagged_format(text, {"think", "answer"}), golden["tagged"][k].get<bool>()) << text;
  }
}

TEST(format, other_tags) {
  EXPECT_TRUE(has_tagged_format("<plan>a</plan> <code>b</code> <check>c</check>", {"plan", "code", "check"}));
  EXPECT_FALSE(has_tagged_format("<plan>a</plan> <check>c</check>", {"plan", "code", "check"}));
  EXPECT_TRUE(has_tagged_format(" \n", {}));
  EXPECT_FALSE(has_tagged_format("x", {}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
