// evaluate's responses through openai_server, beside those of the model itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/http_server.hpp"
#include "serving/server_process.hpp"
#include "support/program.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using testing::HasSubstr;

struct evaluate_by_server : testing::Test {
  program::result run(std::vector<std::string> more, const std::string& out) {
    std::vector<std::string> words{"model.path=" + files.model.string(), "data.files=" + files.val.string(),
                                   "data.max_response_length=12", "output_dir=" + (place / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    return program::run("evaluate", words);
  }
  std::string generations(const std::string& out) { return scratch::read(place / out / "generations.jsonl"); }

  const scratch::folder place;
  const tiny_model::files files = tiny_model::make(place.path());
};

TEST_F(evaluate_by_server, gives_the_bytes_of_the_model_itself) {
  const server_process running(files.model);
  const std::string url = "--server=" + running.url();
  const std::vector<std::vector<std::string>> settings = {
      {},
      {"rollout.n=3", "rollout.temperature=0.7", "rollout.top_p=0.9", "rollout.top_k=20"},
      {"rollout.n=2", "rollout.temperature=1", "rollout.repetition_penalty=1.03", "rollout.min_p=0.01",
       "rlcore.seed=9"},
  };
  std::string before;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string number = std::to_string(i);
    std::vector<std::string> by_server = settings[i];
    by_server.insert(by_server.end(), {url, "rollout.max_num_seqs=" + std::to_string(i + 1)});
    const program::result own = run(settings[i], "own" + number), asked = run(by_server, "asked" + number);
    ASSERT_EQ(own.code, 0) << own.err;
    ASSERT_EQ(asked.code, 0) << asked.err;
    EXPECT_EQ(generations("asked" + number), generations("own" + number)) << i;
    EXPECT_NE(generations("own" + number), before);
    before = generations("own" + number);
  }
}

TEST_F(evaluate_by_server, says_what_is_wrong) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& part) {
    const program::result r = run(more, "none");
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(place / "none" / "result.json"));
  };
  refused({"--server", "127.0.0.1:1"}, "'127.0.0.1:1' is no server; expected http://host:port");
  refused({"--server", "http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer");
  refused({"--server", "http://127.0.0.1:1", "rlcore.threads=2"}, "server= and rlcore.threads= together");
  refused({"--server", "http://127.0.0.1:1", "responses=x.jsonl"}, "responses= and server= together");
  const server_process locked(files.model, {"--api-key", "secret"});
  refused({"--server", locked.url()}, "401");
  const server_process small(files.model, {"--max-model-len", "16"});
  refused({"--server", small.url()}, "400 ");
}

/// What a server answers that is stopped in the middle, or that does not know n.
TEST_F(evaluate_by_server, takes_no_response_that_is_not_whole) {
  using rlcore::serving::json;
  json choices;
  const rlcore::serving::http_settings settings{.port = 0};
  rlcore::serving::listening_sockets sockets(settings);
  rlcore::serving::http_server server(sockets, settings, [&](const rlcore::serving::http_request&) {
    return rlcore::serving::json_response({{"choices", choices}});
  });
  server.start();
  const auto choice = [](int index, const json& reason) {
    return json{{"index", index}, {"token_ids", {1, 2}}, {"finish_reason", reason}};
  };
  const auto evaluated = [&](const json& answer) {
    choices = answer;
    return run({"--server=" + sockets.url(), "rollout.n=2", "rollout.temperature=1"}, "faulty");
  };
  const auto refused = [&](const json& answer, const std::string& part) {
    const program::result r = evaluated(answer);
    EXPECT_EQ(r.code, 1) << answer;
    EXPECT_THAT(r.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(place / "faulty" / "result.json"));
  };
  refused({choice(0, "stop"), choice(1, "abort")}, "ended with finish_reason \"abort\"");
  refused({choice(0, "stop"), choice(1, nullptr)}, "ended with finish_reason null");
  refused(json::array({choice(0, "stop")}), "choice 1 of n = 2 is missing");
  refused({choice(0, "stop"), choice(0, "stop")}, "choice 0 comes twice");
  refused({choice(0, "stop"), choice(2, "stop")}, "the answer has no choices with token_ids");
  const program::result whole = evaluated({choice(1, "stop"), choice(0, "length")});
  EXPECT_EQ(whole.code, 0) << whole.err;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
