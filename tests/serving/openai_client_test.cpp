// openai-python as it comes, against openai_server: openai_client.py says what it looks at.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "serving/server_process.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

/// A random model that has the call of a tool as a few tokens, so that a request can make it write one.
void save_model_that_can_call(const std::filesystem::path& folder) {
  std::vector<std::string> corpus{"system\nuser\nassistant\n"};
  for (std::size_t i = 0; i < 28; ++i)
    corpus.push_back(tiny_model::problem(i, "train")["prompt"][0]["content"].get<std::string>());
  const std::vector<std::string> added{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
      pieces{"Let me look. ", R"(<tool_call>{"name": "weather")", R"(, "arguments": {"city": "Köln"})", "}</tool_call>",
             "<over>"};
  std::vector<std::string> all = pieces;
  all.insert(all.end(), added.begin(), added.end());
  rlcore::text::save(rlcore::text::train_bpe(corpus, 360, all), folder);
  auto json = nlohmann::ordered_json::parse(scratch::read(folder / "tokenizer.json"));
  for (auto& token : json["added_tokens"])
    if (!token["content"].get<std::string>().starts_with("<|")) token["special"] = false;
  tiny_model::write(folder / "tokenizer.json", json.dump());
  tiny_model::save_weights(folder, 3);
}

TEST(openai_python, gets_what_it_asks_for) {
  const std::string python = scratch::python_with("openai");
  if (python.empty()) GTEST_SKIP() << "no Python with openai";
  const scratch::folder place;
  save_model_that_can_call(place.path());
  const server_process server(place.path(), {"--served-model-name", "auto", "other", "--chat-template", "qwen2.5",
                                             "--enable-auto-tool-choice", "--tool-call-parser", "hermes"});
  const server_process locked(place.path(), {"--api-key", "secret"});
  ASSERT_FALSE(HasFailure());
  const auto result = scratch::run_python(python, scratch::read(RLCORE_SOURCE_DIR "/tests/serving/openai_client.py"),
                                          server.url() + " " + locked.url() + " secret");
  EXPECT_EQ(result.code, 0) << result.output;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
