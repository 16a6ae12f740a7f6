// With the libraries linked, a recipe compiles in seconds: it sees declarations alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "layering/layers.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

/// Every path that `file` includes with RLCORE_COMPILED, itself or through our headers.
void collect(const fs::path& file, std::set<std::string>& seen) {
  for (const auto& include : layering::read_header(file).includes)
    if (!include.definitions && seen.insert(include.path).second && include.path.starts_with("rlcore/"))
      collect(RLCORE_SOURCE_DIR "/include/" + include.path, seen);
}

layering::strings slow_headers(const fs::path& file) {
  layering::strings third_parties{"regex"}, out;
  for (const auto& [beginning, users] : layering::third_parties()) third_parties.push_back(beginning);
  std::set<std::string> seen;
  collect(file, seen);
  for (const std::string& path : seen)
    if (layering::starts_with_any(path, third_parties) ||
        layering::starts_with_any(path, {"rlcore/text/", "rlcore/data/", "rlcore/checkpoint/", "rlcore/parallel/",
                                         "rlcore/train/files/", "rlcore/train/model/", "rlcore/train/ranks/"}))
      out.push_back(path);
  return out;
}

TEST(recipe_includes, of_every_trainer_are_declarations) {
  int trainers = 0;
  for (const auto& entry : fs::directory_iterator(RLCORE_SOURCE_DIR "/examples")) {
    if (!entry.path().filename().string().ends_with("_trainer.cpp")) continue;
    ++trainers;
    EXPECT_THAT(slow_headers(entry.path()), testing::IsEmpty()) << entry.path().filename();
  }
  EXPECT_GE(trainers, 9);
}

TEST(recipe_includes, of_texts_and_command_lines_are_declarations) {
  std::set<std::string> seen;
  for (const char* interface :
       {"text/tokenizer.hpp", "text/chat_template.hpp", "text/big_integer.hpp", "config/options.hpp"})
    collect(RLCORE_SOURCE_DIR "/include/rlcore/" + std::string(interface), seen);
  EXPECT_TRUE(seen.contains("rlcore/text/parse_json.hpp"));
  for (const char* definition : {"text/bpe_model.hpp", "text/jinja/program.hpp", "config/read_options.hpp",
                                 "config/grammar/override.hpp", "config/help.hpp"}) {
    EXPECT_TRUE(fs::exists(RLCORE_SOURCE_DIR "/include/rlcore/" + std::string(definition))) << definition;
    EXPECT_FALSE(seen.contains("rlcore/" + std::string(definition))) << definition;
  }
}

TEST(recipe_includes, the_check_can_fail) {
  EXPECT_THAT(slow_headers(RLCORE_SOURCE_DIR "/src/policy_trainers.cpp"),
              testing::IsSupersetOf({"nlohmann/json.hpp", "rlcore/text/tokenizer.hpp"}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
