// Encodings and decodings equal to those of the Hugging Face `tokenizers` library (golden files of text_tokenizer.py).
#include "rlcore/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/text/text_file.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {

namespace fs = std::filesystem;
namespace text = rlcore::text;
using nlohmann::json;
using ids_t = std::vector<std::int32_t>;

namespace {

const fs::path reference = RLCORE_REFERENCE_DIR;
const fs::path shared = RLCORE_SHARED_DIR;

json golden(const std::string& name) {
  return json::parse(text::read_text_file(reference / ("text_" + name + ".json")));
}

fs::path folder(const std::string& name) {
  return name == "shared" ? shared / "tokenizer" : reference / ("text_" + name);
}

/// FNV-1a over the ids as little-endian 32-bit words, each text ended by -1: as the generator digests them.
std::uint64_t digest(const ids_t& ids, std::uint64_t value) {
  for (const std::int32_t id : ids)
    for (unsigned shift = 0; shift < 32; shift += 8)
      value = (value ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xFFu)) * 0x100000001B3ull;
  return value;
}

std::vector<json> gsm8k() {
  std::vector<json> rows;
  for (const char* name : {"train.jsonl", "test.jsonl"}) {
    const std::string all = text::read_text_file(shared / "gsm8k" / name);
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      if (end > at)
        rows.push_back(
            json::parse(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end)));
      at = end + 1;
    }
  }
  return rows;
}

class against_tokenizers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(folder(GetParam()))) GTEST_SKIP() << "no shared data at " << shared;
  }
};

TEST_P(against_tokenizers, difficult_strings_encode_and_decode_equally) {
  const auto t = text::tokenizer::load(folder(GetParam()));
  const json g = golden(GetParam());
  for (const json& c : g["cases"]) {
    const auto s = c["text"].get<std::string>();
    const auto ids = c["ids"].get<ids_t>();
    EXPECT_EQ(t.encode(s), ids) << s;
    EXPECT_EQ(t.encode(s, false), c.value("plain_ids", ids)) << s;
    EXPECT_EQ(t.decode(ids), c["decoded"].get<std::string>()) << s;
    if (c.contains("skipped")) {
      EXPECT_EQ(t.decode(ids, true), c["skipped"].get<std::string>()) << s;
    }
  }
}

TEST_P(against_tokenizers, random_ids_decode_equally) {
  const auto t = text::tokenizer::load(folder(GetParam()));
  const json g = golden(GetParam());
  for (const json& c : g["random_ids"])
    EXPECT_EQ(t.decode(c["ids"].get<ids_t>()), c["decoded"].get<std::string>()) << c["ids"];
}

TEST_P(against_tokenizers, every_row_of_gsm8k_encodes_equally) {
  if (!fs::exists(shared / "gsm8k")) GTEST_SKIP() << "no shared data at " << shared;
  const auto t = text::tokenizer::load(folder(GetParam()));
  const json g = golden(GetParam());
  static const std::vector<json> rows = gsm8k();
  ASSERT_EQ(rows.size(), 8792u);
  for (std::size_t i = 0; i < g["rows"].size(); ++i)
    EXPECT_EQ(t.encode(rows[i]["question"].get<std::string>()), g["rows"][i].get<ids_t>()) << i;
  for (std::size_t chunk = 0; chunk < g["digests"].size(); ++chunk) {
    std::uint64_t value = 0xCBF29CE484222325ull;
    for (std::size_t r = 100 * chunk; r < std::min(rows.size(), 100 * (chunk + 1)); ++r) {
      for (const char* key : {"question", "answer"}) {
        const auto s = rows[r][key].get<std::string>();
        ids_t ids = t.encode(s);
        if (std::string(GetParam()) == "shared") {  // the others change the text: spaces, NFC, added tokens
          ASSERT_EQ(t.decode(ids), s);
        }
        ids.push_back(-1);
        value = digest(ids, value);
      }
    }
    EXPECT_EQ(value, std::stoull(g["digests"][chunk].get<std::string>(), nullptr, 16)) << "rows from " << 100 * chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(files, against_tokenizers, testing::Values("shared", "gpt2", "qwen2", "fallback"),
                         [](const auto& i) { return std::string(i.param); });

TEST(tokenizer, shared_vocabulary_and_named_tokens) {
  if (!fs::exists(folder("shared"))) GTEST_SKIP() << "no shared data at " << shared;
  const auto t = text::tokenizer::load(folder("shared") / "tokenizer.json");
  EXPECT_EQ(t.vocab_size(), 6400u);
  EXPECT_EQ(t.eos_id(), 2);
  EXPECT_EQ(t.pad_id(), 0);
  EXPECT_EQ(t.id_of("<|im_end|>"), 2);
  EXPECT_EQ(t.token_of(2), "<|im_end|>");
  EXPECT_EQ(t.id_of("no such token"), std::nullopt);
  EXPECT_TRUE(t.is_special(2));
  EXPECT_FALSE(t.is_special(25));  // <think> is added, but not special
  EXPECT_FALSE(t.is_special(300));
  EXPECT_EQ(t.decode(ids_t{300, 999999}), t.decode(ids_t{300}));  // beyond the vocabulary: no text
  EXPECT_THROW((void)t.decode(ids_t{-1}), std::invalid_argument);
  EXPECT_THROW((void)t.token_of(6400), std::invalid_argument);
}

TEST(tokenizer, one_very_long_word_does_not_take_quadratic_time) {
  for (const char* name : {"gpt2", "qwen2", "fallback"}) {
    const auto t = text::tokenizer::load(folder(name));
    for (const std::string& unit : {std::string("a"), std::string("the"), std::string(" "), std::string("!"),
                                    std::string("\n"), std::string("\xE6\x97\xA5")}) {
      std::string s;
      while (s.size() < 100000) s += unit;
      const double start = cpu_seconds();
      const ids_t ids = t.encode(s);
      EXPECT_LT(cpu_seconds() - start, 10.0) << name << unit;
      const std::string back = t.decode(ids);
      EXPECT_TRUE(back == s || back == ' ' + s) << name << unit;
    }
  }
}

TEST(tokenizer, threads_get_the_ids_that_one_gets) {
  const auto t = text::tokenizer::load(folder("qwen2"));
  const json g = golden("qwen2");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round)
        for (const json& c : g["cases"]) wrong[i] += t.encode(c["text"].get<std::string>()) != c["ids"].get<ids_t>();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(tokenizer, broken_utf8_is_refused_with_its_place) {
  const auto t = text::tokenizer::load(folder("gpt2"));
  for (const std::string bad : {"abc\xFFz", "abc\xC3", "abc\xED\xA0\x80", "abc\xC0\x80", "abc\xF4\x90\x80\x80"}) {
    try {
      (void)t.encode(bad);
      ADD_FAILURE() << "accepted";
    } catch (const rlcore::data_error& e) {
      EXPECT_NE(std::string(e.what()).find("at byte 3"), std::string::npos) << e.what();
    }
  }
}

/// The message that parsing `j` ends with.
std::string refusal(const json& j, const json& config = nullptr) {
  try {
    (void)text::tokenizer::parse(j.dump(), config.is_null() ? "" : config.dump(), "x/tokenizer.json");
  } catch (const rlcore::format_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    EXPECT_EQ(std::string(e.what()).rfind("x/tokenizer.json: ", 0), 0u) << e.what();
    return e.what();
  }
  return "accepted";
}

TEST(tokenizer, what_is_not_supported_is_refused_by_name) {
  const json good = json::parse(text::read_text_file(folder("gpt2") / "tokenizer.json"));
  ASSERT_EQ(refusal(good), "accepted");
  const auto with = [&](const char* path, const json& value) {
    json j = good;
    j[json::json_pointer(path)] = value;
    return refusal(j);
  };
  const auto names = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  names(with("/model/type", "Unigram"), "model.type \"Unigram\"");
  names(with("/model/dropout", 0.1), "model.dropout 0.1");
  names(with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  names(with("/model/vocab", 3), "model.vocab");
  names(with("/model/vocab/a", -3), "model.vocab['a']");
  names(with("/model/vocab/a", 272272272), "model.vocab['a']: expected an id from 0 to 4194303, found 272272272");
  names(with("/added_tokens/0/id", 1 << 22), "expected an id from 0 to 4194303, found 4194304");
  names(with("/model/merges/0", "qq zz"), "model.merges[0]");
  names(with("/normalizer", {{"type", "Precompiled"}}), "normalizer.type 'Precompiled'");
  names(with("/pre_tokenizer", {{"type", "Metaspace"}}), "pre_tokenizer.type 'Metaspace'");
  names(with("/decoder", {{"type", "WordPiece"}}), "decoder.type 'WordPiece'");
  names(with("/post_processor", {{"type", "BertProcessing"}}), "post_processor.type 'BertProcessing'");
  names(with("/post_processor", json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken":
      {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}})")),
        "special_tokens['<s>']");
  names(with("/post_processor", json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken":
      {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>":
      {"id": "<s>", "ids": [99999], "tokens": ["<s>"]}}})")),
        "the id 99999, which is no token");
  names(with("/post_processor", json::parse(R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})")),
        "found it 0 times");
  names(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}}), "'(a'");
  names(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "[a&&b]"}}}, {"behavior", "Isolated"}}),
        "&&");
  names(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "MergedWithNext"}}),
        "'MergedWithNext'");
  names(refusal(good, {{"eos_token", "<none>"}}), "eos_token '<none>'");
  names(refusal(good, {{"pad_token", 7}}), "pad_token: expected a string");
  EXPECT_EQ(refusal(good, {{"eos_token", {{"content", "<|im_end|>"}}}, {"pad_token", nullptr}}), "accepted");
  EXPECT_THROW((void)text::tokenizer::load(reference / "no_such_folder"), rlcore::file_error);
  EXPECT_THROW((void)text::tokenizer::parse("{\"a\":", ""), rlcore::format_error);
}

TEST(tokenizer, merges_as_strings_and_ignored_merges) {
  json j = json::parse(text::read_text_file(folder("gpt2") / "tokenizer.json"));
  for (auto& merge : j["model"]["merges"]) merge = merge[0].get<std::string>() + ' ' + merge[1].get<std::string>();
  const auto t = text::tokenizer::parse(j.dump(), "");
  const json g = golden("gpt2");
  for (const json& c : g["cases"]) EXPECT_EQ(t.encode(c["text"].get<std::string>()), c["ids"].get<ids_t>());
  // A word that is a token although no merge leads to it.
  j["model"]["vocab"]["\xC4\xA0zqx"] = 5000;  // " zqx"
  EXPECT_GT(text::tokenizer::parse(j.dump(), "").encode(" zqx").size(), 1u);
  j["model"]["ignore_merges"] = true;
  EXPECT_EQ(text::tokenizer::parse(j.dump(), "").encode(" zqx"), ids_t{5000});
}

TEST(tokenizer, added_tokens_of_the_settings_file_join_those_of_the_tokenizer) {
  const std::string file = text::read_text_file(folder("gpt2") / "tokenizer.json");
  const json config = {{"added_tokens_decoder",
                        {{"7000", {{"content", "<extra>"}, {"special", true}, {"normalized", false}}},
                         {"7001", {{"content", "<think>"}, {"special", true}}}}},
                       {"eos_token", "<extra>"}};
  const auto t = text::tokenizer::parse(file, config.dump());
  EXPECT_EQ(t.eos_id(), 7000);
  EXPECT_TRUE(t.is_special(7000));
  EXPECT_EQ(t.vocab_size(), 7001u);
  EXPECT_EQ(t.encode("<extra>"), ids_t{7000});
  EXPECT_NE(t.id_of("<think>"), 7001);  // tokenizer.json has it already
}

// Spelled out from tokenizers 0.23.3: id_to_token and decode give the normalised content, also of special tokens.
TEST(tokenizer, added_tokens_that_are_searched_normalised_are_decoded_normalised) {
  json j = json::parse(text::read_text_file(folder("gpt2") / "tokenizer.json"));
  j["normalizer"] = {{"type", "Lowercase"}};
  const auto add = [&](int id, const char* content, bool special, bool normalized) {
    j["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", special}, {"normalized", normalized}});
  };
  add(6000, "FooBar", false, true);
  add(6001, "<|SpecIal|>", true, true);
  add(6002, " Raw ", false, false);
  const auto t = text::tokenizer::parse(j.dump(), "");
  EXPECT_EQ(t.decode(ids_t{6000, 6001, 6002}), "foobar<|special|> Raw ");
  EXPECT_EQ(t.decode(ids_t{6000, 6001, 6002}, true), "foobar<|special|> Raw ");  // "<|SpecIal|>" alone is skipped
  EXPECT_EQ(t.token_of(6000), "foobar");
  EXPECT_EQ(t.id_of("FooBar"), 6000);
  EXPECT_EQ(t.encode("FooBar").back(), 6000);
}

// Ids of tokenizers 0.23.3: what follows a token with rstrip may begin with the white space that it took.
TEST(tokenizer, added_tokens_are_found_in_white_space_that_others_took) {
  json j = json::parse(text::read_text_file(folder("gpt2") / "tokenizer.json"));
  const auto add = [&](int id, const char* content) {
    j["added_tokens"].push_back({{"id", id}, {"content", content}, {"rstrip", true}, {"normalized", false}});
  };
  add(6000, "  "), add(6001, "QQ"), add(6002, " Qa");
  const auto t = text::tokenizer::parse(j.dump(), "");
  EXPECT_EQ(t.encode("    "), (ids_t{6000, 6000}));
  EXPECT_EQ(t.encode("QQ QaQQ"), (ids_t{6001, 6002, 6001}));
}

TEST(tokenizer, nested_sequences_take_linear_time) {
  json j = json::parse(text::read_text_file(folder("gpt2") / "tokenizer.json"));
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 450; ++i)
    nested = {{"type", "Sequence"}, {"normalizers", {std::move(nested), {{"type", "Prepend"}, {"prepend", ""}}}}};
  j["normalizer"] = std::move(nested);
  EXPECT_EQ(text::tokenizer::parse(j.dump(), "").decode(ids_t{}), "");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
