// A tokenizer of Llama 3's structure against `tokenizers` and transformers (golden files of text_llama3.py).
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;
using nlohmann::json;
using ids_t = std::vector<std::int32_t>;

namespace {

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

json golden(const char* name) { return json::parse(text::read_text_file(reference / name)); }

TEST(llama_tokenizer, difficult_strings_encode_and_decode_equally) {
  const auto t = text::tokenizer::load(reference / "text_llama3");
  const json g = golden("text_llama3.json"), qwen2 = golden("text_qwen2.json");
  std::vector<std::string> strings;
  for (const json& c : qwen2["cases"]) strings.push_back(c["text"]);
  ASSERT_EQ(strings.size(), g["strings_before"].get<std::size_t>());
  for (const json& s : g["strings"]) strings.push_back(s);
  ASSERT_EQ(strings.size(), g["cases"].size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const json& c = g["cases"][i];
    const auto ids = c["ids"].get<ids_t>();
    EXPECT_EQ(t.encode(strings[i]), ids) << strings[i];
    ids_t with{g["begin_of_text"].get<std::int32_t>()};
    with.insert(with.end(), ids.begin(), ids.end());
    EXPECT_EQ(t.encode_with_special_tokens(strings[i]), with) << strings[i];
    EXPECT_EQ(t.encode(strings[i], false), c.value("plain_ids", ids)) << strings[i];
    EXPECT_EQ(t.decode(ids), c.value("decoded", strings[i])) << strings[i];
    EXPECT_EQ(t.decode(ids, true), c.value("skipped", strings[i])) << strings[i];
  }
}

TEST(llama_tokenizer, names_its_tokens) {
  const auto t = text::tokenizer::load(reference / "text_llama3");
  EXPECT_EQ(t.eos_id(), t.id_of("<|eot_id|>"));
  EXPECT_EQ(t.pad_id(), std::nullopt);
  EXPECT_TRUE(t.is_special(*t.id_of("<|begin_of_text|>")));
}

TEST(llama_tokenizer, others_put_nothing_around_a_text) {
  const auto t = text::tokenizer::load(reference / "text_qwen2");
  EXPECT_EQ(t.encode_with_special_tokens("one <|im_end|>"), t.encode("one <|im_end|>"));
  EXPECT_EQ(t.encode_with_special_tokens("one <|im_end|>", false), t.encode("one <|im_end|>", false));
}

TEST(llama_tokenizer, templates_add_on_both_sides_and_within_each_other) {
  json j = json::parse(text::read_text_file(reference / "text_llama3" / "tokenizer.json"));
  const auto template_of = [](json single) {
    return json{{"type", "TemplateProcessing"},
                {"single", std::move(single)},
                {"special_tokens", {{"a", {{"ids", {1, 2}}}}, {"b", {{"ids", {3}}}}}}};
  };
  const json a{{"SpecialToken", {{"id", "a"}}}}, b{{"SpecialToken", {{"id", "b"}}}}, x{{"Sequence", {{"id", "A"}}}};
  j["post_processor"] = {{"type", "Sequence"},
                         {"processors", {template_of({a, x, b}), {{"type", "ByteLevel"}}, template_of({b, x})}}};
  const auto t = text::tokenizer::parse(j.dump(), "");
  ids_t expected{3, 1, 2};
  for (const std::int32_t id : t.encode("abc")) expected.push_back(id);
  expected.push_back(3);
  EXPECT_EQ(t.encode_with_special_tokens("abc"), expected);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
