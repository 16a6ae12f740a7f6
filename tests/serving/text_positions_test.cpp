// Positions of tokens in a text, over the tokenizers of tests/reference.
#include "rlcore/serving/protocol/log_probs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "rlcore/text/decoder.hpp"
#include "rlcore/text/text_file.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
namespace text = rlcore::text;
using nlohmann::json;
using rlcore::serving::characters;
using ids = std::vector<std::int32_t>;

/// Characters that `a` and `b` begin with in common.
std::size_t common(const std::string& a, const std::string& b) {
  std::size_t n = 0;
  while (n < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
  while (n > 0 && n < b.size() && (b[n] & '\xC0') == '\x80') --n;
  return characters(std::string_view(b).substr(0, n));
}

class text_positions : public testing::TestWithParam<const char*> {};

TEST_P(text_positions, are_where_the_decoded_text_goes_on) {
  const fs::path reference = RLCORE_REFERENCE_DIR;
  const std::string name = std::string("text_") + GetParam();
  const auto tokenizer = text::tokenizer::load(reference / name);
  const json golden = json::parse(text::read_text_file(reference / (name + ".json")));
  std::size_t parts = 0;
  const auto check = [&](const ids& all) {
    const std::string whole = tokenizer.decode(all);
    rlcore::serving::text_positions positions(tokenizer, false);
    std::size_t last = SIZE_MAX;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t at = positions.push(all[i]);
      const bool in_run =
          text::decoder::fallback_byte(tokenizer.token_of(all[i])) >= 0;  // decoded as a whole, see below
      if (!in_run) {
        EXPECT_EQ(at, common(tokenizer.decode(std::span(all).first(i)), whole)) << whole << ", token " << i;
      }
      parts += at == last ? 1 : 0;
      last = at;
    }
  };
  for (const json& c : golden["cases"])
    if (const ids all = c["ids"]; all.size() < 200 && tokenizer.decode(all).find("\xEF\xBF\xBD") == std::string::npos)
      check(all);
  for (const char* emoji :
       {"a\xF0\x9F\x99\x82z", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80!", "\xF0\x9F\xA6\x84\xF0\x9F\xA6\x84"})
    check(tokenizer.encode(emoji));
  EXPECT_GT(parts, 3u) << "several tokens of one character";
}

INSTANTIATE_TEST_SUITE_P(tokenizers, text_positions, testing::Values("qwen2", "llama3", "gpt2", "fallback"),
                         [](const auto& i) { return std::string(i.param); });

TEST(text_positions_of_bytes, in_a_run_of_bytes_are_those_of_its_characters) {
  const auto tokenizer = text::tokenizer::load(fs::path(RLCORE_REFERENCE_DIR) / "text_fallback");
  rlcore::serving::text_positions positions(tokenizer, false);
  std::vector<std::size_t> found;
  for (const std::int32_t id : tokenizer.encode("\xF0\x9F\xA6\x84\xF0\x9F\xA6\x84"))
    if (text::decoder::fallback_byte(tokenizer.token_of(id)) >= 0) found.push_back(positions.push(id));
  EXPECT_EQ(found, (std::vector<std::size_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(bytes_of_tokens, of_a_character_together_are_the_character) {
  const std::string emoji = "\xF0\x9F\xA6\x84";
  for (const char* name : {"text_qwen2", "text_fallback"}) {
    const auto tokenizer = text::tokenizer::load(fs::path(RLCORE_REFERENCE_DIR) / name);
    std::string bytes;
    for (const std::int32_t id : tokenizer.encode(emoji)) bytes += rlcore::serving::bytes_of_token(tokenizer, id);
    EXPECT_TRUE(bytes.ends_with(emoji)) << name;
    EXPECT_GT(tokenizer.encode(emoji).size(), 1u) << name;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
