// Rows with images, from the files of datasets and pyarrow to the tokens of transformers' processor
// (reference/image_rows.py), and rows that are no good.
#include "rlcore/data/image_rows.hpp"

#include <algorithm>
#include <fstream>
#include <map>

#include "data/image_golden.hpp"
#include "data/scratch.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using namespace rlcore::data;
using json = nlohmann::ordered_json;
using ids = std::vector<std::int32_t>;
using image_golden::chat, image_golden::golden, image_golden::tokenizer;

const std::filesystem::path reference = RLCORE_REFERENCE_DIR;

ids encode(const std::vector<text::message>& messages) {
  return tokenizer().encode(chat().render(messages, {.add_generation_prompt = true}));
}
prompt_settings settings(std::size_t longest = 4096) {
  prompt_settings s;
  s.max_prompt_length = longest;
  image_golden::expect_images(s.images);
  return s;
}
prompt_dataset read(const table& rows, const prompt_settings& s) {
  return make_prompts(std::span(&rows, 1), s, encode, [](const std::string&) {});
}

/// The rows of image_rows.parquet as JSON Lines, with images in base64: for builds without Parquet, too.
table golden_rows() {
  table rows{"rows.jsonl", read_jsonl(reference / "image_rows.jsonl")};
  return rows;
}
void expect_golden(const prompt_dataset& found) {
  ASSERT_EQ(found.size(), golden()["rows"].size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const json& row = golden()["rows"][i];
    SCOPED_TRACE(row["name"].get<std::string>());
    EXPECT_EQ(chat().render(found[i].messages, {.add_generation_prompt = true}), row["text"].get<std::string>());
    EXPECT_EQ(found[i].ids, row["read"].get<ids>());
    ASSERT_EQ(found[i].images.size(), row["sizes"].size());
    for (std::size_t k = 0; k < found[i].images.size(); ++k) {
      const image_file& f = *found[i].images[k];
      EXPECT_EQ((std::vector<std::int64_t>{f.size.height, f.size.width}),
                row["sizes"][k].get<std::vector<std::int64_t>>());
      const image::patches p = image::processor(*settings().images.processor)(f.bytes);
      EXPECT_EQ((std::vector<std::int64_t>{1, p.rows, p.columns}), row["grids"][k].get<std::vector<std::int64_t>>());
    }
  }
}

TEST(image_rows, json_lines_read_as_transformers_processor_does) { expect_golden(read(golden_rows(), settings())); }

#ifdef RLCORE_HAS_PARQUET
TEST(image_rows, parquet_of_datasets_and_of_pyarrow_read_the_same) {
  for (const char* file : {"image_rows.parquet", "image_rows_plain.parquet"}) {
    SCOPED_TRACE(file);
    const table rows = read_table(reference / file);
    expect_golden(read(rows, settings()));
    const scratch::folder place;
    write_parquet(place / "again.parquet", rows.rows);
    EXPECT_EQ(read_parquet(place / "again.parquet"), rows.rows);
    EXPECT_EQ(to_jsonl(rows.rows), to_jsonl(golden_rows().rows));
  }
}
#endif

TEST(image_rows, openrlhf_takes_white_space_from_around_marks) {
  prompt_settings s = settings();
  s.images.strip = true;
  const table rows = golden_rows();
  const prompt_dataset found = read(rows, s);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(encode(found[i].messages), golden()["rows"][i]["stripped"].get<ids>()) << i;
}

TEST(image_rows, contents_in_parts_are_marks) {
  table rows = golden_rows();
  rows.rows[0]["prompt"] = json::parse(
      R"([{"role": "user", "content": [{"type": "image", "text": null}, {"type": "text", "text": "Find x."}]}])");
  rows.rows[2]["prompt"] = json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "What is 2+2?"}]}])");
  expect_golden(read(rows, settings()));
  const auto refused = [&](const char* content, const std::string& part) {
    table bad = golden_rows();
    bad.rows[0]["prompt"][0]["content"] = json::parse(content);
    scratch::error_of<data_error>([&] { read(bad, settings()); }, {"rows.jsonl: row 0", part});
  };
  refused(R"([{"type": "video"}])", "messages[0].content[0]: expected");
  refused(R"([{"type": "image", "image": "a.png"}])", "\"image\" has no place here");
  refused(R"([{"type": "text"}])", "content[0].text");
  refused(R"([{"type": "text", "text": "<image>"}])", "0 <image> marks, but 1 image in column 'images'");
}

TEST(image_rows, images_are_found_beside_their_rows) {
  const scratch::folder place;
  table rows = golden_rows();
  rows.file = (place / "rows.jsonl").string();
  std::filesystem::create_directory(place / "sub");
  const auto bytes = text::from_base64(rows.rows[0]["images"][0]["bytes"].get<std::string>()).value();
  scratch::write(place / "sub" / "a.png", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const std::string uri = "data:image/png;base64," + text::to_base64(bytes);
  const json full = (place / "sub" / "a.png").string();
  for (const json& way : {json("sub/a.png"), json{{"path", "sub/a.png"}, {"bytes", nullptr}}, full,
                          json("file://" + full.get<std::string>()), json(uri), json{{"image", "sub/a.png"}}}) {
    SCOPED_TRACE(printable(way.dump()));
    for (const bool single : {false, true}) {
      rows.rows[0]["images"] = single ? way : json::array({nullptr, way});
      EXPECT_EQ(read(rows, settings())[0].ids, golden()["rows"][0]["read"].get<ids>());
    }
  }
  const auto refused = [&](const json& images, std::vector<std::string> parts) {
    rows.rows[0]["images"] = images;
    parts.push_back("rows.jsonl: row 0: images[0]");
    scratch::error_of<data_error>([&] { read(rows, settings()); }, parts);
  };
  refused({"https://x.org/a.png"}, {"nothing is downloaded"});
  refused({"b.png"}, {"'b.png' is neither in", "nor in the working directory"});
  refused({"/no/b.png"}, {"(/no/b.png): /no/b.png: cannot open: No such file"});
  refused({place.path().string()}, {"Is a directory"});
  refused({""}, {"an empty path"});
  refused({7}, {"is 7; expected a path"});
  refused({{{"bytes", nullptr}}}, {"neither bytes nor a path"});
  refused({{{"byte", "x"}}}, {"\"byte\"", "did you mean 'bytes'?"});
  refused({{{"bytes", "x!"}}}, {"'x!' is not base64"});
  refused({{{"bytes", {1, 2}}}}, {"\"bytes\" is [1,2]"});
  refused({{{"bytes", "aGVsbG8="}, {"path", "h.png"}}},
          {std::string("(h.png): no image; expected ") + image::known_formats});
  refused({"data:image/png,xyz"}, {"is no data:image/...;base64,..."});
}

TEST(image_rows, marks_and_images_must_match) {
  const auto refused = [](const char* pointer, const json& value, std::vector<std::string> parts) {
    table rows = golden_rows();
    rows.rows[1][json::json_pointer(pointer)] = value;
    parts.push_back("rows.jsonl: row 1: ");
    scratch::error_of<data_error>([&] { read(rows, settings()); }, parts);
  };
  refused("/prompt/1/content", "<image>", {"1 <image> mark (messages[1]: 1), but 2 images in column 'images'"});
  refused("/prompt/0/content", "<image>", {"3 <image> marks (messages[0]: 1, messages[1]: 2), but 2 images"});
  refused("/images", json::array(), {"2 <image> marks (messages[1]: 2), but 0 images"});
  refused("/prompt/0/content", "<video>", {"a mark <video>"});
  refused("/videos", {"v.mp4"}, {"column 'videos' has content; videos are not read"});
  refused("/prompt/0/content", "<|image_pad|>", {"3 image tokens for 2 images", "<|image_pad|> may not stand"});

  table rows = golden_rows();
  rows.rows[0]["pics"] = rows.rows[0]["images"];
  rows.rows[0].erase("images");
  scratch::error_of<data_error>([&] { read(rows, settings()); },
                                {"row 0: 1 <image> mark", "no column 'images'", "data.image_key", "pics"});
  rows.rows.resize(1);
  prompt_settings s = settings();
  s.images.image_key = "pics";
  EXPECT_EQ(read(rows, s).size(), 1u);
  s.images.most = 0;
  scratch::error_of<data_error>([&] { read(rows, s); }, {"row 0: 1 image, but --data.max_images_per_prompt is 0"});
}

TEST(image_rows, a_model_of_words_reads_words) {
  prompt_settings s = settings();
  s.images = {.model = "m/text"};
  table rows = golden_rows();
  scratch::error_of<data_error>([&] { read(rows, s); },
                                {"row 0: 1 <image> mark", "images in column 'images'", "m/text reads no images"});
  rows.rows.resize(1);
  rows.rows[0].erase("images");  // a mere word then, as it always was
  EXPECT_EQ(read(rows, s)[0].messages[0].content, "<image>Find x.");
  EXPECT_TRUE(read(rows, s)[0].messages[0].parts.empty());
  rows.rows[0]["prompt"][0]["content"] = json::parse(R"([{"type": "image"}])");
  scratch::error_of<data_error>([&] { read(rows, s); }, {"m/text reads no images"});
}

TEST(image_rows, lengths_count_what_the_model_reads) {
  std::map<std::size_t, std::size_t> lengths;
  for (const json& row : golden()["rows"]) ++lengths[row["read"].size()];
  const std::size_t longest = lengths.rbegin()->first;
  prompt_settings s = settings(longest - 1);
  scratch::error_of<data_error>([&] { read(golden_rows(), s); }, {std::to_string(longest) + " tokens"});
  for (const truncation mode : {truncation::left, truncation::right, truncation::middle}) {
    s.truncation = mode;
    scratch::error_of<data_error>([&] { read(golden_rows(), s); },
                                  {std::to_string(longest) + " tokens with", "images are not truncated"});
  }
  s.filter_overlong_prompts = true;
  const prompt_dataset found = read(golden_rows(), s);
  EXPECT_EQ(found.size() + 1, found.rows_read);
  EXPECT_EQ(found.images.rows, 4u);
  EXPECT_EQ(found.images.left_out, 1u);
  std::size_t most = 0;
  for (const prompt& p : found.prompts)
    for (const image_pointer& i : p.images) most = std::max(most, count_image_tokens(*i, s.images));
  EXPECT_EQ(found.images.most_tokens, most);
}

TEST(image_cache, makes_an_image_once_while_there_is_room) {
  const prompt_settings s = settings();
  const prompt_dataset found = read(golden_rows(), s);
  const image::processor process(*s.images.processor);
  const auto& [a, b] = std::tie(*found[1].images[0], *found[1].images[1]);
  const std::size_t size = process(a.bytes).values.size() * sizeof(float);
  image_cache cache(process, size);
  const auto first = cache(a);
  EXPECT_EQ(*first, process(a.bytes));
  EXPECT_EQ(cache(a), first);
  EXPECT_EQ(cache.bytes(), size);
  cache(b);  // takes the place of a, unless it is too large
  EXPECT_LE(cache.bytes(), size);
  EXPECT_EQ(*cache(a), *first);
  image_cache none(process, 0);
  EXPECT_NE(none(a), none(a));
  EXPECT_EQ(none.bytes(), 0u);
}

TEST(image_cache, names_the_image_that_cannot_be_read) {
  const scratch::folder place;
  table rows = golden_rows();
  rows.file = (place / "rows.jsonl").string();
  const auto bytes = text::from_base64(rows.rows[0]["images"][0]["bytes"].get<std::string>()).value();
  const std::string_view whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  scratch::write(place / "cut.png", whole.substr(0, whole.size() / 2));
  rows.rows[0]["images"] = {"cut.png"};
  const prompt_settings s = settings();
  const prompt_dataset found = read(rows, s);  // its header is good
  image_cache cache{image::processor(*s.images.processor)};
  scratch::error_of<data_error>([&] { cache(*found[0].images[0]); },
                                {"rows.jsonl: row 0: images[0] (", "cut.png): a damaged PNG"});
  scratch::write(place / "cut.png", whole);
  scratch::error_of<data_error>([&] { cache(*found[0].images[0]); }, {"images[0]", "has changed"});
  std::filesystem::remove(place / "cut.png");
  scratch::error_of<data_error>([&] { cache(*found[0].images[0]); }, {"images[0]", "No such file"});
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
