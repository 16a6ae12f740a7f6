// Every command of README.md, CONTRIBUTING.md and docs/ is run, made small: tests/commands/run.sh says how.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "rlcore/text/train_bpe.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

/// README.md, CONTRIBUTING.md and the pages of docs/ with a block of commands.
std::vector<std::string> pages() {
  std::vector<std::string> found;
  std::vector<fs::path> files{fs::path(RLCORE_SOURCE_DIR) / "README.md",
                              fs::path(RLCORE_SOURCE_DIR) / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(RLCORE_SOURCE_DIR) / "docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  for (const fs::path& file : files) {
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    if (text.find("\n```sh\n") != text.npos) found.push_back(fs::relative(file, RLCORE_SOURCE_DIR).string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// OpenAI's form of model solutions: one line for each question, four models, some right.
std::string solutions(std::size_t count) {
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = tiny_model::problem(i, "test");
    const std::string right = row["reward_model"]["ground_truth"].get<std::string>();
    nlohmann::ordered_json line{{"question", row["prompt"][0]["content"]}, {"ground_truth", "So it is.\nA: " + right}};
    int model = 0;
    for (const char* name : {"6B_finetuning", "6B_verification", "175B_finetuning", "175B_verification"}) {
      const bool correct = (static_cast<std::size_t>(model++) + i) % 2 == 0;
      line[name] = {{"solution", "It is simple.\nA: " + (correct ? right : right + "1")}, {"is_correct", correct}};
    }
    lines += line.dump() + "\n";
  }
  return lines;
}

/// A model whose tokenizer has a placeholder for judged steps, and rows of every form that the pages name.
void make_task(const fs::path& root) {
  fs::create_directories(root / "model");
  std::vector<std::string> corpus{"system\nuser\nassistant\n"};
  for (std::size_t i = 0; i < 28; ++i) corpus.push_back(tiny_model::problem(i, "train")["prompt"][0]["content"]);
  const std::vector<std::string> added{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|buffer1|>"};
  rlcore::text::save(rlcore::text::train_bpe(corpus, 340, added), root / "model");
  tiny_model::save_weights(root / "model", 11);
  tiny_model::write(root / "train.jsonl", tiny_model::rows(16, "train"));
  tiny_model::write(root / "test.jsonl", tiny_model::rows(4, "test"));
  std::string raw;
  for (std::size_t i = 0; i < 16; ++i) {
    const auto row = tiny_model::problem(i, "train");
    raw += nlohmann::ordered_json{{"question", row["prompt"][0]["content"]},
                                  {"answer", "#### " + row["reward_model"]["ground_truth"].get<std::string>()}}
               .dump() +
           "\n";
  }
  tiny_model::write(root / "raw.jsonl", raw);
  tiny_model::write(root / "sft.jsonl", raw);
  tiny_model::write(root / "solutions.jsonl", solutions(16));
}

/// "test_nn --gtest_filter='*rope*'", wherever README.md, CONTRIBUTING.md and the pages say which tests show a thing.
std::set<std::string> named_tests() {
  std::set<std::string> found;
  const std::regex named("(test_\\w+)\\s+(--gtest_filter='[^']+')");
  std::vector<fs::path> files{fs::path(RLCORE_SOURCE_DIR) / "README.md",
                              fs::path(RLCORE_SOURCE_DIR) / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(RLCORE_SOURCE_DIR) / "docs")) files.push_back(entry.path());
  for (const fs::path& file : files) {
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator m(text.begin(), text.end(), named); m != std::sregex_iterator(); ++m)
      found.insert((*m)[1].str() + " " + (*m)[2].str());
  }
  return found;
}

TEST(docs, name_tests_that_exist) {
  const std::set<std::string> all = named_tests();
  EXPECT_GT(all.size(), 20u);
  for (const std::string& named : all) {
    const fs::path folder = fs::path(RLCORE_BIN_DIR).parent_path() / "tests";
    if (!fs::exists(folder / named.substr(0, named.find(' ')))) continue;  // a build of some suites
    const std::string list = "'" + folder.string() + "'/" + named + " --gtest_list_tests | grep -q '^  '";
    EXPECT_EQ(std::system(list.c_str()), 0) << named << " selects no test";
  }
}

class commands : public testing::TestWithParam<std::string> {};

TEST_P(commands, of_page) {
  const scratch::folder place;
  make_task(place.path() / "task");
  fs::create_directories(place.path() / "run");
  const std::string root = RLCORE_SOURCE_DIR, bin = RLCORE_BIN_DIR, out = (place.path() / "out").string();
  const std::string line = "cd '" + (place.path() / "run").string() + "' && RLCORE_ROOT='" + root + "' RLCORE_BUILD='" +
                           fs::path(bin).parent_path().string() + "' RLCORE_TASK='" + (place.path() / "task").string() +
                           "' '" + root + "/tests/commands/run.sh' '" + GetParam() + "' > '" + out + "' 2>&1";
  const int status = std::system(line.c_str());
  std::ifstream in(out);
  EXPECT_EQ(status, 0) << std::string((std::istreambuf_iterator<char>(in)), {});
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(docs, commands, testing::ValuesIn(pages()), name_of);

}  // namespace
}  // namespace RLCORE_TEST_ID
