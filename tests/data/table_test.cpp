#include "rlcore/data/table.hpp"

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::data_error;
using namespace rlcore::data;

TEST(table, reads_by_extension) {
  const scratch::folder place;
  scratch::write(place / "x.jsonl", "{\"a\": 1}\n");
  scratch::write(place / "x.json", "[{\"a\": 1}]");
  EXPECT_EQ(read_table(place / "x.jsonl").rows, read_table(place / "x.json").rows);
  EXPECT_EQ(read_table(place / "x.jsonl").file, (place / "x.jsonl").string());
  scratch::error_of<data_error>([&] { read_table(place / "x.csv"); }, {"x.csv", "'.csv'", ".jsonl, .json or .parquet"});
  scratch::error_of<rlcore::file_error>([&] { read_table(place / "no.json"); }, {"no.json", "No such file"});
}

#ifndef RLCORE_HAS_PARQUET

TEST(table, says_how_to_get_parquet) {
  scratch::error_of<data_error>([] { read_table("x.parquet"); }, {"x.parquet", "pip install pyarrow", ".jsonl"});
}

#else

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

TEST(parquet, reads_what_pyarrow_wrote) {
  const auto expected = read_json(reference / "data_nested.json");
  for (const char* file : {"data_nested_snappy.parquet", "data_nested_zstd.parquet"}) {
    const auto rows = read_table(reference / file).rows;
    ASSERT_EQ(rows.size(), expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], expected[i]) << i;
  }
}

TEST(parquet, comes_back_as_written) {
  const scratch::folder place;
  auto rows = read_json(reference / "data_nested.json");
  write_parquet(place / "x.parquet", rows);
  EXPECT_EQ(read_parquet(place / "x.parquet"), rows);
  const std::vector<row> loose{{{"a", 1}, {"s", {{"x", row::array()}}}},
                               {{"a", 2.5}, {"s", nullptr}, {"b", "late"}},
                               {{"s", {{"x", {true, nullptr}}, {"y", -7}}}}};
  write_parquet(place / "x.parquet", loose);
  EXPECT_EQ(row(read_parquet(place / "x.parquet")).dump(),
            R"([{"a":1.0,"s":{"x":[],"y":null},"b":null},{"a":2.5,"s":null,"b":"late"},)"
            R"({"a":null,"s":{"x":[true,null],"y":-7},"b":null}])");
}

TEST(parquet, refuses_what_has_no_common_type) {
  const scratch::folder place;
  const auto refused = [&](const row& a, const row& b, std::vector<std::string> parts) {
    const std::vector<row> rows{{{"a", a}}, {{"a", b}}};
    scratch::error_of<data_error>([&] { write_parquet(place / "x", rows); }, parts);
  };
  refused(1, "x", {"row 1: column 'a'", "\"x\" is of another type"});
  refused({{"b", 1}}, {{"b", true}}, {"column 'a.b'"});
  refused({1}, {1, "x"}, {"column 'a[]'"});
  refused(1, std::uint64_t{1} << 63, {"does not fit"});
  scratch::error_of<data_error>([&] { write_parquet(place / "x", {}); }, {"no rows"});
  EXPECT_TRUE(std::filesystem::is_empty(place.path()));
  const std::vector<row> one{{{"a", 1}}};
  scratch::error_of<rlcore::file_error>([&] { write_parquet(place / "no" / "x", one); }, {"x"});
  scratch::error_of<rlcore::file_error>([&] { write_parquet("/dev/full", one); }, {"/dev/full", "No space left"});
}

TEST(parquet, damaged_files_are_errors_not_crashes) {
  const scratch::folder place;
  const std::string bytes = scratch::read(reference / "data_nested_snappy.parquet");
  scratch::write(place / "x", "");
  scratch::error_of<data_error>([&] { read_parquet(place / "x"); }, {"not a readable Parquet file"});
  scratch::write(place / "x", "{\"a\": 1}\n");
  scratch::error_of<data_error>([&] { read_parquet(place / "x"); }, {"not a readable Parquet file"});
  for (std::size_t length = bytes.size() - 1; length > 100; length -= 997 < length ? 997 : length) {
    scratch::write(place / "x", bytes.substr(0, length));
    scratch::error_of<data_error>([&] { read_parquet(place / "x"); }, {"not a readable Parquet file"});
  }
  scratch::error_of<rlcore::file_error>([&] { read_parquet(place / "no"); }, {"No such file"});
  // 1632 bytes with a page that announces a dictionary of 1.3 * 10^9 texts.
  scratch::error_of<data_error>(
      [] { read_parquet(RLCORE_SOURCE_DIR "/tests/fuzz/seeds/parquet/dictionary_of_20_gib"); },
      {"a page announces values of 21643929", " bytes; at most 2147646848 are taken"});
}

/// Columns that no trainer reads, such as dates, refuse no file; the JSON type of `datasets` is its text.
TEST(parquet, reads_types_that_json_lacks) {
  const row expected = row::parse(R"({"when": "2026-01-02 03:04:05.000000", "day": "2026-01-02", "price": "1.50",
      "half": 1.5, "map": {"a": 1, "b": null}, "pairs": [[1, "x"]], "nested": [{"at": "2026-01-02"}],
      "json": "{\"a\": [1]}"})");
  EXPECT_EQ(read_parquet(reference / "data_types.parquet"), std::vector<row>{expected});
}

TEST(parquet, pyarrow_reads_what_we_wrote) {
  const std::string python = scratch::python_with("pyarrow.parquet");
  if (python.empty()) GTEST_SKIP() << "needs Python with pyarrow";
  const scratch::folder place;
  write_parquet(place / "x.parquet", read_json(reference / "data_nested.json"));
  const auto result =
      scratch::run_python(python, R"(
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
assert table.to_pylist() == json.load(open(sys.argv[2]))
assert table.schema.field("prompt").type == pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
assert pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0).compression == "SNAPPY"
)",
                          (place / "x.parquet").string() + " " + (reference / "data_nested.json").string());
  EXPECT_EQ(result.code, 0) << result.output;
}

#endif

}  // namespace
}  // namespace RLCORE_TEST_ID
