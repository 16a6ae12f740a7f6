#include "rlcore/data/prompt_dataset.hpp"

#include <set>

#include "data/scratch.hpp"
#include "rlcore/data/jsonl.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::data;
using rlcore::data_error;

// One token per byte of the last message, behind one per message.
std::vector<std::int32_t> encode(const std::vector<rlcore::text::message>& messages) {
  std::vector<std::int32_t> ids(messages.size(), -1);
  for (const char c : messages.back().content) ids.push_back(c);
  return ids;
}
void check_source(const std::string& source) {
  if (source != "openai/gsm8k") throw data_error("data_source '" + source + "' has no reward function");
}
row good(const std::string& content, const row& truth = "72") {
  return {{"data_source", "openai/gsm8k"},
          {"prompt", {{{"role", "user"}, {"content", content}}}},
          {"ability", "math"},
          {"reward_model", {{"style", "rule"}, {"ground_truth", truth}}},
          {"extra_info", {{"index", 5}}}};
}
prompt_dataset make(std::vector<row> rows, const prompt_settings& settings = {}) {
  const std::vector<table> tables{{"a.jsonl", {good("first")}}, {"b.jsonl", std::move(rows)}};
  return make_prompts(tables, settings, encode, check_source);
}

TEST(prompt_dataset, reads_verls_columns_of_all_files_in_order) {
  row text = good("");
  text["prompt"] = "plain";
  row pair = good("second", 7);
  pair["prompt"].insert(pair["prompt"].begin(), row{{"role", "system"}, {"content", "Be brief."}});
  const prompt_dataset d = make({pair, text});
  ASSERT_EQ(d.size(), 3u);
  EXPECT_EQ(d.rows_read, 3u);
  EXPECT_EQ(d[0].ids, encode({{"user", "first"}}));
  EXPECT_EQ(d[1].messages[0].role, "system");
  EXPECT_EQ(d[1].messages[1].content, "second");
  EXPECT_EQ(d[1].ids.size(), 8u);
  EXPECT_EQ(d[1].data_source, "openai/gsm8k");
  EXPECT_EQ(d[1].ground_truth, "7");
  EXPECT_EQ(d[1].ability, "math");
  EXPECT_EQ(d[1].extra["index"], 5);
  EXPECT_EQ(d[1].row_number, 1u);
  EXPECT_EQ(d[2].messages[0].role, "user");
  EXPECT_EQ(d[2].messages[0].content, "plain");
}

TEST(prompt_dataset, filters_or_truncates_what_is_too_long) {
  const std::vector<row> rows{good("abcdefghij"), good("k")};  // 11 and 2 tokens, and 6 of the first file
  const prompt_dataset filtered = make(rows, {.max_prompt_length = 6, .filter_overlong_prompts = true});
  EXPECT_EQ(filtered.rows_read, 3u);
  ASSERT_EQ(filtered.size(), 2u);
  EXPECT_EQ(filtered[1].row_number, 2u);
  const prompt_dataset tail = make(rows, {.max_prompt_length = 6, .truncation = truncation::left});
  EXPECT_EQ(tail[1].ids, (std::vector<std::int32_t>{'e', 'f', 'g', 'h', 'i', 'j'}));
  scratch::error_of<data_error>([&] { make(rows, {.max_prompt_length = 6}); },
                                {"b.jsonl: row 0", "11 tokens", "data.max_prompt_length is 6"});
  scratch::error_of<data_error>([&] { make(rows, {.max_prompt_length = 1, .filter_overlong_prompts = true}); },
                                {"a.jsonl, b.jsonl", "all 3 prompts"});
}

TEST(prompt_dataset, names_file_row_and_column) {
  const auto refused = [](const std::string& pointer, const row& value, std::vector<std::string> parts) {
    row bad = good("x");
    bad[row::json_pointer(pointer)] = value;
    parts.push_back("b.jsonl: row 1");
    scratch::error_of<data_error>([&] { make({good("y"), bad}); }, parts);
  };
  refused("/data_source", "openai/gsm", {"'openai/gsm'", "no reward function"});
  refused("/data_source", 3, {"'data_source' is 3", "expected a string"});
  refused("/prompt", 3, {"'prompt' is 3", "list of {role, content} or a string"});
  refused("/prompt", row::array(), {"'prompt' is []"});
  refused("/prompt/0/role", 3, {"'prompt'", "role"});
  refused("/prompt", {{{"content", "x"}}}, {"'prompt'", "role"});
  refused("/reward_model", "72", {"'reward_model' is \"72\""});
  refused("/reward_model", {{"groundtruth", "7"}},
          {"'reward_model'", "no column 'ground_truth'", "did you mean 'groundtruth'?"});
  refused("/reward_model/ground_truth", 7.5, {"'ground_truth' is 7.5", "expected a string"});

  for (const auto& [column, way_out] : {std::pair("data_source", "rlcore.data_source=openai/gsm8k"),
                                        std::pair("reward_model", "rlcore.label_key=COLUMN")}) {
    row lacks = good("x");
    lacks.erase(column);
    scratch::error_of<data_error>([&] { make({good("y"), lacks}); },
                                  {"b.jsonl: row 1: no column '" + std::string(column) + "'", way_out});
  }

  row bad = good("x");
  bad.erase("prompt");
  bad["promt"] = 1;
  scratch::error_of<data_error>(
      [&] { make({bad}); }, {"b.jsonl: row 0: no column 'prompt'", "data_source, ability", "did you mean 'promt'?"});
  scratch::error_of<data_error>([&] { make({row{{"question", "q"}, {"answer", "#### 1"}}}); }, {"gsm8k_preprocess"});
  scratch::error_of<data_error>([&] { make({good("x")}, {.prompt_key = "messages"}); },
                                {"a.jsonl: row 0", "'messages'"});
  scratch::error_of<data_error>([] { make_prompts({}, {}, encode, check_source); }, {"no rows"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
