// openai_server with a model that sees: the answers of `evaluate`, and what its command line says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/random.hpp"
#include "serving/image_model.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using image_model::png, image_model::url_of, image_model::question, image_model::json;
using testing::HasSubstr;

struct image_server : testing::Test {
  inline static std::unique_ptr<scratch::folder> place;
  static std::filesystem::path model() { return *place / "model"; }
  static void SetUpTestSuite() {
    place = std::make_unique<scratch::folder>();
    image_model::save(model());
    std::filesystem::create_directories(*place / "files");
    const auto bytes = png(3);
    scratch::write(*place / "files" / "drawn.png", std::string(bytes.begin(), bytes.end()));
  }
  static void TearDownTestSuite() { place.reset(); }
  static json chat(const server_process& s, const json& body) { return s.post("/v1/chat/completions", body.dump()); }
};

/// A row of `evaluate` and the same as a conversation.
json row_of(const std::vector<std::string>& urls, std::size_t i) {
  std::string marks;
  for (std::size_t k = 0; k < urls.size(); ++k) marks += "<image>";
  return {{"data_source", "tiny"},
          {"prompt", {{{"role", "user"}, {"content", marks + "What is this?"}}}},
          {"images", urls},
          {"reward_model", {{"ground_truth", "1"}}},
          {"extra_info", {{"index", i}}}};
}

TEST_F(image_server, answers_as_evaluate_does) {
  const std::vector<std::vector<std::string>> problems{
      {url_of(png(1))}, {url_of(png(2, 120, 70)), url_of(png(3))}, {}, {url_of(png(4, 8, 8))}};
  std::string rows;
  for (std::size_t i = 0; i < problems.size(); ++i) rows += row_of(problems[i], i).dump() + "\n";
  scratch::write(*place / "rows.jsonl", rows);
  for (const auto& [temperature, more] : std::vector<std::pair<double, std::vector<std::string>>>{
           {0, {}}, {0.8, {"rlcore.image_resampling=pillow", "data.mm_processor_kwargs={max_pixels:6000}"}}}) {
    std::vector<std::string> words{"model.path=" + model().string(),
                                   "data.files=" + (*place / "rows.jsonl").string(),
                                   "data.max_response_length=16",
                                   "output_dir=" + (*place / "out").string(),
                                   "rollout.temperature=" + std::to_string(temperature),
                                   "rule=last_number",
                                   "rlcore.seed=7"};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove_all(*place / "out");
    const program::result own = program::run("evaluate", words);
    ASSERT_EQ(own.code, 0) << own.err;
    std::vector<std::string> flags;
    if (!more.empty()) flags = {"rlcore.image_resampling=pillow", "--mm-processor-kwargs", R"({"max_pixels": 6000})"};
    const server_process s(model(), flags);
    std::istringstream lines(scratch::read(*place / "out" / "generations.jsonl"));
    std::string line;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      ASSERT_TRUE(std::getline(lines, line));
      // The key of a problem's responses, as `evaluate --server` sends it.
      const std::uint64_t seed = rlcore::random_key{7}.child(0x6576616c).child(static_cast<std::uint32_t>(i)).seed >> 1;
      const json answer =
          chat(s, question(problems[i], {{"temperature", temperature}, {"max_tokens", 16}, {"seed", seed}}));
      EXPECT_EQ(answer["choices"][0]["message"]["content"], json::parse(line)["response"]) << i << answer;
    }
  }
}

TEST_F(image_server, an_image_is_read_once_and_counted) {
  const server_process s(model(), {"--allowed-local-media-path", (*place / "files").string()});
  const auto read = [&] {
    const std::string page = s.client().Get("/metrics")->body, name = "rlcore_images_read_total{model_name=\"auto\"} ";
    return page.substr(page.find(name) + name.size(), 2);
  };
  const json more{{"n", 4}, {"seed", 1}, {"max_tokens", 5}};
  const std::string url = "file://" + std::filesystem::canonical(*place / "files" / "drawn.png").string();
  const json from_file = chat(s, question({url}, more)), sent = chat(s, question({url_of(png(3))}, more));
  EXPECT_EQ(from_file["choices"], sent["choices"]);
  EXPECT_EQ(from_file["choices"].size(), 4u);
  EXPECT_EQ(read(), "2\n");
  EXPECT_EQ(s.post("/tokenize", question({url}).dump())["count"], from_file["usage"]["prompt_tokens"]);
  const json refused = chat(s, question({"file:///etc/passwd"}));
  EXPECT_THAT(refused["error"]["message"].get<std::string>(), HasSubstr("does not lie below"));
}

/// The first block of commands behind this heading of docs/serving.md.
std::string command_of_the_page(const std::string& heading) {
  const std::string page = scratch::read(std::filesystem::path(RLCORE_SOURCE_DIR) / "docs" / "serving.md");
  const std::size_t section = page.find("\n## " + heading + "\n"), begin = page.find("```sh\n", section) + 6;
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST_F(image_server, the_command_of_the_page_is_answered) {
  if (std::system("command -v curl base64 >/dev/null") != 0) GTEST_SKIP() << "this machine has no curl";
  const server_process s(model());
  std::string command = command_of_the_page("Images");
  const std::string shown = "http://localhost:6380";
  ASSERT_NE(command.find(shown), command.npos);
  command.replace(command.find(shown), shown.size(), s.url());
  const std::filesystem::path files = *place / "files";
  scratch::write(files / "command.sh", command);
  ASSERT_EQ(std::system(("cd '" + files.string() + "' && bash -eu command.sh >answer.json").c_str()), 0);
  const json answer = json::parse(scratch::read(files / "answer.json"));
  const json expected =
      chat(s, question({url_of(png(3))}, {{"max_tokens", 64}, {"temperature", 0}}, "How many red squares are there?"));
  EXPECT_EQ(answer["choices"], expected["choices"]);
  EXPECT_FALSE(answer["choices"][0]["message"]["content"].get<std::string>().empty());
}

TEST_F(image_server, mistakes_are_one_line) {
  const std::string m = model().string();
  const auto fails = [&](const std::vector<std::string>& words, const std::string& message) {
    const program::result r = program::run("openai_server", words);
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.err, HasSubstr(message));
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  fails({m, "--limit-mm-per-prompt", R"({"imgae": 2})"}, "'imgae' is unknown (did you mean 'image'?)");
  fails({m, "--limit-mm-per-prompt", R"({"image": -1})"}, "--limit-mm-per-prompt.image=-1: expected a whole number");
  fails({m, "--limit-mm-per-prompt", R"({"image": {"count": 1}})"}, "expected a whole number, 0 or more");
  fails({m, "--limit-mm-per-prompt", "image=two"}, R"(expected {"image": N}, or image=N)");
  fails({m, "--limit-mm-per-prompt", "3"}, "--limit-mm-per-prompt: expected a JSON object, found number");
  fails({m, "--mm-processor-kwargs", R"({"max_pixel": 2})"}, "did you mean 'max_pixels'?");
  fails({m, "--mm-processor-kwargs", R"({"max_pixels": 2.5})"}, "expected a whole number, 1 or more");
  fails({m, "--mm-processor-kwargs", R"({"max_pixels": 100})"}, "--mm-processor-kwargs: at least 3136 pixels");
  fails({m, "--allowed-local-media-path", "/nowhere"}, "--allowed-local-media-path /nowhere is no folder");
  fails({m, "--allowed-media-domains", "x.org"}, "nothing is downloaded");
  const std::filesystem::path blind = *place / "blind";
  std::filesystem::create_directories(blind);
  tiny_model::save_tokenizer(blind);
  tiny_model::save_weights(blind, 3);
  fails({blind.string(), "--allowed-local-media-path", "/tmp"}, "its config.json has no vision_config");
}

TEST_F(image_server, limits_in_both_spellings) {
  const std::string url = url_of(png(1));
  for (const std::string limit : {"{\"image\": 1, \"video\": 0}", "image=1,video=0"}) {
    const server_process s(model(), {"--limit-mm-per-prompt", limit});
    EXPECT_EQ(s.post("/tokenize", question({url}).dump()).count("tokens"), 1u);
    EXPECT_THAT(s.post("/tokenize", question({url, url}).dump()).dump(), HasSubstr("expected at most 1"));
  }
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
