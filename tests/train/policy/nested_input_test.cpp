// Every entrance of JSON, lists and maps refuses what is nested too deep, in one line that says where.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/config/grammar/compose.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/reward/command_rewards.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"
#include "rlcore/verify/search_answer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

std::string lists(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }
const std::string deep = lists(100000);
const std::string map_of_deep = "{\"a\": " + deep + "}";
const std::string too_deep = "nested deeper than 1000";

TEST(nested_input, rows) {
  const scratch::folder place;
  scratch::error_of<data_error>([] { data::parse_jsonl("{}\n" + map_of_deep, "x.jsonl"); },
                                {"x.jsonl: line 2: JSON " + too_deep});
  scratch::write(place / "x.json", "[" + map_of_deep + "]");
  scratch::error_of<data_error>([&] { data::read_json(place / "x.json"); }, {"x.json: JSON " + too_deep});
  scratch::error_of<data_error>([] { data::detail::messages_at(deep, "row 1: column 'messages'"); },
                                {"row 1: column 'messages'", "expected a list"});
  scratch::error_of<data_error>([] { data::detail::tools_at(deep, "row 1: column 'tools'"); },
                                {"row 1: column 'tools'", "expected a list"});
}

TEST(nested_input, files_of_a_model) {
  const scratch::folder place;
  scratch::write(place / "config.json", map_of_deep);
  scratch::error_of<format_error>([&] { checkpoint::read_config(place.path()); }, {"config.json: JSON " + too_deep});
  scratch::write(place / "model.safetensors.index.json", map_of_deep);
  scratch::error_of<format_error>([&] { checkpoint::tensor_folder folder(place.path()); },
                                  {"index.json: JSON " + too_deep});
  scratch::error_of<format_error>([] { text::tokenizer::parse(map_of_deep, ""); }, {"tokenizer.json", too_deep});
  scratch::write(place / "tokenizer_config.json", map_of_deep);
  scratch::error_of<format_error>([&] { text::chat_template::detect(place.path()); },
                                  {"tokenizer_config.json", too_deep});
}

TEST(nested_input, files_and_answers_of_a_run) {
  const scratch::folder place;
  scratch::write(place / "cluster.json", map_of_deep);
  scratch::error_of<format_error>([&] { train::planning::read_cluster(place / "cluster.json"); },
                                  {"cluster.json: JSON " + too_deep});
  scratch::write(place / "metrics.jsonl", map_of_deep + "\n{}\n");
  scratch::error_of<format_error>([&] { train::read_metric_rows(place / "metrics.jsonl"); }, {"metrics.jsonl: line 1"});
  scratch::write(place / train::surplus_file_name, std::string(100000, '\x81') + '\x01');
  scratch::error_of<format_error>([&] { train::read_surplus(place.path()); }, {too_deep});
  scratch::error_of<data_error>([] { train::read_judgement(map_of_deep); }, {"expected a finite number"});
  EXPECT_EQ(verify::score_search_answer("<answer>b</answer>", deep).score, 0);
}

TEST(nested_input, overrides) {
  EXPECT_NO_THROW(train::parse_override("a=" + lists(1000)));
  const auto refused = [](const std::string& override_text) {
    scratch::error_of<config_error>([&] { train::parse_override(override_text); }, {"1000"});
  };
  refused("a=" + deep);
  refused("a=" + std::string(100000, '['));
  std::string maps = "+a=";
  for (int i = 0; i < 20000; ++i) maps += "{a:";
  refused(maps);
  std::string key = "+a";
  for (int i = 0; i < 20000; ++i) key += ".a";
  refused(key + "=1");
}

TEST(nested_input, removing_a_key_without_a_name_is_refused) {
  train::value root{train::value::map{{"a", 1}}};
  for (const char* removal : {"~", "~="})
    scratch::error_of<config_error>([&] { train::apply(root, train::parse_override(removal)); }, {"names no key"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
