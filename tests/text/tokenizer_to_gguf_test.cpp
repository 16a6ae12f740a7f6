// Tokenizers that become GGUF metadata, and those that cannot: in one line, whatever their files say.
#include "rlcore/text/gguf/tokenizer_to_gguf.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;

/// A byte-level tokenizer.
json byte_level() {
  return json::parse(R"({"added_tokens": [{"id": 5, "content": "<|end|>", "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4}, "merges": ["a b", ["Ġ", "a"]]}})");
}

/// One with SentencePiece's steps.
json sentencepiece() {
  return json::parse(R"({"added_tokens": [], "pre_tokenizer": null, "decoder": {"type": "Fuse"},
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "model": {"type": "BPE", "byte_fallback": true,
              "vocab": {"▁": 0, "H": 1, "e": 2, "He": 3, "t": 4, "▁t": 5}, "merges": [["▁", "t"], ["H", "e"]]}})");
}

text::gguf_tokenizer converted(const json& tokenizer, const json& config = json::object()) {
  const scratch::folder place;
  scratch::write(place / "tokenizer.json", tokenizer.dump());
  scratch::write(place / "tokenizer_config.json", config.dump());
  return text::tokenizer_to_gguf(place.path(), 8);
}

void refused(const json& tokenizer, const std::string& part, const json& config = json::object()) {
  SCOPED_TRACE(tokenizer.dump());
  scratch::error_of<format_error>([&] { converted(tokenizer, config); }, {part});
}

TEST(tokenizer_to_gguf, tokens_types_merges_and_scores) {
  const auto bytes = converted(byte_level(), {{"eos_token", "<|end|>"}});
  EXPECT_EQ(bytes.model, "gpt2");
  EXPECT_EQ(bytes.pre, "gpt-2");
  EXPECT_EQ(bytes.tokens, (std::vector<std::string>{"a", "b", "ab", "Ġ", "Ġa", "<|end|>", "[PAD6]", "[PAD7]"}));
  EXPECT_EQ(bytes.types, (std::vector<std::int32_t>{1, 1, 1, 1, 1, 3, 5, 5}));
  EXPECT_EQ(bytes.merges, (std::vector<std::string>{"a b", "Ġ a"}));
  EXPECT_EQ(bytes.ids, (std::map<std::string, std::int32_t>{{"eos", 5}}));
  const auto pieces = converted(sentencepiece());
  EXPECT_EQ(pieces.model, "llama");
  EXPECT_FALSE(pieces.add_space);
  // The merges are made in the order of the scores; what nothing makes comes last, what is no token has none.
  EXPECT_EQ(pieces.scores, (std::vector<float>{-1e6F, -1e6F, -1e6F, -1, -1e6F, 0, 0, 0}));
}

TEST(tokenizer_to_gguf, null_is_an_absent_setting) {
  json t = byte_level();
  t["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": null}]})");
  t["model"]["ignore_merges"] = nullptr, t["added_tokens"][0]["special"] = nullptr;
  t["normalizer"] = {{"type", "Sequence"}};  // of no steps
  EXPECT_EQ(converted(t).pre, "smollm");
  EXPECT_EQ(converted(t).types[5], 3);  // llama.cpp takes it for a control token
  t["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = nullptr;
  refused(t, "no tokenizer of llama.cpp has its normalizer and pre_tokenizer");
}

TEST(tokenizer_to_gguf, odd_files_are_refused_in_one_line) {
  json t = byte_level();
  t["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"String": "a", "Regex": 1}, "behavior": "Isolated"},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  refused(t, "no tokenizer of llama.cpp has its normalizer and pre_tokenizer");
  const json known{{"content", "<|end|>"}, {"special", true}}, odd{{"content", "<|end|>"}, {"special", 1}};
  EXPECT_EQ(converted(byte_level(), {{"added_tokens_decoder", {{"five", known}}}}).types[5], 3);
  refused(byte_level(), "added_tokens_decoder.special: expected true or false, found number",
          {{"added_tokens_decoder", {{"5", odd}}}});
  t = sentencepiece();
  t["added_tokens"] = json::array({{{"id", 3}, {"content", "<x>"}}});
  refused(t, "model.merges[1] makes 'He', whose id is that of an added token");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
