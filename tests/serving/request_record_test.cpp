// What --rlcore-record keeps.
#include "rlcore/serving/request_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/serving/service.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
using serving::json;
using testing::HasSubstr;

struct recorded {
  scratch::folder place;
  scripted::house house;
  serving::service service{house.shared};
  std::vector<std::string> logged;
  std::string file = (place / "record.jsonl").string();
  serving::request_record record{file, [this](const std::string& line) { logged.push_back(line); }};

  serving::http_response ask(const std::string& method, const std::string& path, const std::string& body) {
    const serving::http_request q{method, path, body, "application/json", "Bearer secret"};
    return record.keep(q, service(q));
  }
  std::vector<json> lines() const {
    std::istringstream text(scratch::read(file));
    std::vector<json> all;
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }
};

TEST(request_record, has_bodies_and_streams_with_their_texts) {
  recorded r;
  const std::string completions = "/v1/completions", chat = "/v1/chat/completions";
  const serving::http_response whole = r.ask("POST", completions, R"({"prompt": ["a", "b"]})");
  std::string events;
  r.ask("POST", chat, R"({"messages": [{"role": "user", "content": "hi"}], "stream": true, "n": 2})")
      .stream([&](std::string_view event) { return events += event, true; });
  EXPECT_THAT(events, HasSubstr("data: [DONE]")) << "the client gets all of it";
  const std::vector<json> lines = r.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["path"], completions);
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["request"], json::parse(R"({"prompt": ["a", "b"]})"));
  EXPECT_EQ(lines[0]["response"], json::parse(whole.body));
  const json texts = {"Hello, world", "Hello, world"};
  EXPECT_EQ(lines[0]["responses"], texts);
  EXPECT_EQ(lines[1]["responses"], texts) << "the pieces of each choice are joined";
  EXPECT_EQ(lines[1]["events"][0]["object"], "chat.completion.chunk");
  EXPECT_FALSE(lines[1].contains("response"));
  EXPECT_EQ(scratch::read(r.file).find("secret"), std::string::npos);
}

TEST(request_record, has_what_was_refused_as_it_was_sent) {
  recorded r;
  const std::string deep(100000, '[');
  for (const std::string& body : {std::string("{"), std::string("\xff"), deep, std::string(R"({"prompt": ""})")})
    EXPECT_EQ(r.ask("POST", "/v1/completions", body).status, 400);
  r.ask("GET", "/v1/models", "");
  const std::vector<json> lines = r.lines();
  ASSERT_EQ(lines.size(), 4u) << "no line for a request without a body";
  EXPECT_EQ(lines[0]["request"], "{");
  EXPECT_EQ(lines[2]["request"], deep);
  EXPECT_EQ(lines[3]["response"]["error"]["code"], 400);
  EXPECT_FALSE(lines[3].contains("responses"));
}

TEST(request_record, a_file_that_cannot_be_written_is_said_once_and_nobody_waits_for_it) {
  recorded r;
  EXPECT_THROW(serving::request_record((r.place / "nowhere" / "x").string(), {}), rlcore::file_error);
  serving::request_record full("/dev/full", [&](const std::string& line) { r.logged.push_back(line); });
  for (int i = 0; i < 3; ++i) {
    const serving::http_request q{"POST", "/v1/completions", R"({"prompt": "a"})", "application/json"};
    EXPECT_EQ(full.keep(q, r.service(q)).status, 200);
  }
  ASSERT_EQ(r.logged.size(), 1u);
  EXPECT_THAT(r.logged[0], HasSubstr("--rlcore-record /dev/full: No space left"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
