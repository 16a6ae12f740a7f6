// Pieces of a streamed answer: whole characters, and together what decoding at once gives.
#include "rlcore/text/stream_decoder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/text/text_file.hpp"

namespace RLCORE_TEST_ID {

namespace fs = std::filesystem;
namespace text = rlcore::text;
using nlohmann::json;
using ids_t = std::vector<std::int32_t>;

namespace {

const fs::path reference = RLCORE_REFERENCE_DIR;

class stream_decoder : public testing::TestWithParam<const char*> {};

TEST_P(stream_decoder, pieces_are_whole_and_add_up_to_the_reference) {
  const auto t = text::tokenizer::load(reference / (std::string("text_") + GetParam()));
  const json g = json::parse(text::read_text_file(reference / (std::string("text_") + GetParam() + ".json")));
  text::stream_decoder stream(t), quiet(t, true);
  const auto run = [](text::stream_decoder& decoder, const ids_t& ids) {
    std::string all;
    for (const std::int32_t id : ids) {
      const std::string piece = decoder.push(id);
      EXPECT_EQ(text::first_broken_utf8(piece), piece.size());
      all += piece;
    }
    return all + decoder.finish();
  };
  for (const char* part : {"cases", "random_ids"}) {
    for (const json& c : g[part]) {
      const auto ids = c["ids"].get<ids_t>();
      if (ids.size() > 200) continue;
      EXPECT_EQ(run(stream, ids), c["decoded"].get<std::string>()) << c["ids"];
      EXPECT_EQ(run(quiet, ids), t.decode(ids, true)) << c["ids"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(files, stream_decoder, testing::Values("gpt2", "qwen2", "fallback"),
                         [](const auto& i) { return std::string(i.param); });

TEST(stream_decoder, a_character_appears_when_its_last_byte_does) {
  const auto t = text::tokenizer::load(reference / "text_gpt2");
  // U+1F600 is F0 9F 98 80; the bytes are single tokens, spelled as in GPT-2's alphabet.
  const ids_t ids{*t.id_of("\xC3\xB0"), *t.id_of("\xC4\x81") /* 0x01 */,
                  *t.id_of("\xC3\xB0"), *t.id_of("\xC5\x81"),
                  *t.id_of("\xC4\xBA"), *t.id_of("\xC4\xA2")};
  text::stream_decoder stream(t);
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(ids[1]), "\xEF\xBF\xBD\x01");  // F0 cannot go on like this
  EXPECT_EQ(stream.push(ids[2]), "");
  EXPECT_EQ(stream.push(ids[3]), "");
  EXPECT_EQ(stream.push(ids[4]), "");
  EXPECT_EQ(stream.push(ids[5]), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(ids[2]), "");
  EXPECT_EQ(stream.push(ids[3]), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");  // one for the whole cut-off character
  EXPECT_EQ(stream.finish(), "");
  EXPECT_THROW((void)stream.push(-1), std::invalid_argument);
}

TEST(stream_decoder, a_decoder_that_looks_further_is_given_everything_at_once) {
  json file = json::parse(text::read_text_file(reference / "text_fallback" / "tokenizer.json"));
  file["decoder"]["decoders"].back()["start"] = 2;
  const auto t = text::tokenizer::parse(file.dump(), "");
  const ids_t ids = t.encode("and the");  // the space in front is stripped, and then no other one
  text::stream_decoder stream(t);
  for (const std::int32_t id : ids) EXPECT_EQ(stream.push(id), "");
  EXPECT_EQ(stream.finish(), t.decode(ids));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
