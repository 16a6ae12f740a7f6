#include "rlcore/data/jsonl.hpp"

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::data_error;
using rlcore::file_error;
using namespace rlcore::data;

TEST(jsonl, accepts_marks_line_ends_and_blank_lines) {
  const auto rows = parse_jsonl("\xef\xbb\xbf{\"b\": 1, \"a\": \"\xe6\xb0\xb4\"}\r\n\r\n  \n{\"a\": [1.5, null]}", "f");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].dump(), "{\"b\":1,\"a\":\"\xe6\xb0\xb4\"}");  // order of the file
  EXPECT_EQ(rows[1]["a"][0], 1.5);
  EXPECT_TRUE(parse_jsonl("", "f").empty());
  EXPECT_TRUE(parse_jsonl("\n\n", "f").empty());
  EXPECT_EQ(parse_jsonl(to_jsonl(rows), "f"), rows);
}

TEST(jsonl, names_the_line) {
  const auto refused = [](const std::string& text, std::vector<std::string> parts) {
    scratch::error_of<data_error>([&] { parse_jsonl(text, "some.jsonl"); }, parts);
  };
  refused("{}\n\n{\"a\": }\n", {"some.jsonl: line 3", "not valid JSON (at byte 7 of 7)"});
  refused("{}\n[1]", {"line 2", "expected a JSON object, found array"});
  refused("{} {}", {"line 1", "not valid JSON"});
  refused("{\"a\": \"\xff\"}", {"line 1", "not valid JSON"});
  refused("{\"a\": 1e999}", {"line 1", "out of range"});
  refused("{\"a\": \"cut", {"line 1", "not valid JSON"});
}

TEST(jsonl, integers_beyond_64_bits_keep_their_digits) {
  const std::string line =
      "{\"a\":[-100000000000000000000,18446744073709551615],\"b\":{\"c\":99999999999999999999999}}\n";
  EXPECT_EQ(to_jsonl(parse_jsonl(line, "some.jsonl")), line);
}

TEST(jsonl, reads_files_and_json_arrays) {
  const scratch::folder place;
  scratch::write(place / "x.jsonl", "{\"a\": 1}\n{\"a\": 2}");
  EXPECT_EQ(read_jsonl(place / "x.jsonl").size(), 2u);
  EXPECT_EQ(read_json(place / "x.jsonl").size(), 2u);
  scratch::write(place / "x.json", " [{\"a\": 1},\n {\"a\": 2}]\n");
  EXPECT_EQ(read_json(place / "x.json"), read_jsonl(place / "x.jsonl"));
  scratch::write(place / "x.json", "[{\"a\": 1}, 2]");
  scratch::error_of<data_error>([&] { read_json(place / "x.json"); }, {"x.json: row 1", "found number"});
  scratch::write(place / "x.json", "[{\"a\": 1}");
  scratch::error_of<data_error>([&] { read_json(place / "x.json"); }, {"x.json: not valid JSON (at byte 10 of "});
  scratch::error_of<file_error>([&] { read_jsonl(place / "no.jsonl"); }, {"no.jsonl", "No such file"});
  scratch::error_of<file_error>([&] { read_jsonl(place.path()); }, {"Is a directory"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
