// One conversation has the same tokens in training and in the server, over templates of many kinds (those of
// shipped_templates.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "rlcore/data/sft_rows.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "serving/scripted_engine.hpp"
#include "text/shipped_templates.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;
namespace text = rlcore::text;
using json = nlohmann::ordered_json;
using ids = std::vector<std::int32_t>;

/// The tokens of a request's conversation, as /v1/chat/completions reads it; none if it is refused.
std::optional<ids> served(serving::served_model& model, const json& messages, const json& tools, bool prompt,
                          std::optional<bool> thinking = {}) {
  json body{{"messages", messages}, {"add_generation_prompt", prompt}};
  if (!tools.is_null()) body["tools"] = tools;
  if (thinking) body["chat_template_kwargs"] = {{"enable_thinking", *thinking}};
  model.features = {.tool_calls = true};
  try {
    serving::body_fields fields(body);
    const auto request = serving::read_chat_request(fields, {}, model.features);
    return serving::prompt_of(model, request.talk, false).ids;
  } catch (const serving::api_error&) {
    return std::nullopt;
  }
}

/// The tokens of a training row with these messages; none if it is refused.
std::optional<rlcore::data::sft_example> taught(const serving::served_model& model, const json& messages,
                                                const json& tools) {
  const rlcore::data::sft_settings settings{.layout = rlcore::data::sft_layout::conversation, .max_length = 0};
  const rlcore::data::sft_reader read(settings, model.tokenizer, &*model.chat);
  json row{{"messages", messages.dump()}};  // as JSON text, for nulls of tables are missing members
  if (!tools.is_null()) row["tools"] = tools;
  try {
    return read(row, "row");
  } catch (const rlcore::data_error&) {
    return std::nullopt;
  }
}

struct counts {
  std::size_t conversations = 0, prompts = 0, opened_otherwise = 0;
};

/// Every conversation as a whole, and as the prompt of each answer.
void same_tokens(const std::string& name, const std::string& jinja, counts& found) {
  serving::served_model model = scripted::model();
  model.chat = shipped_templates::parsed(jinja);
  for (const auto& [talk, messages] : shipped_templates::golden()["conversations"].items()) {
    const bool calls = messages.dump().find("tool_calls") != std::string::npos;
    const json tools = calls && model.chat->has_tools() ? shipped_templates::golden()["tools"] : json();
    for (std::size_t i = 1; i < messages.size(); ++i) {
      if (messages[i]["role"] != "assistant") continue;
      const json before(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(i));
      json row = before;
      row.push_back(messages[i]);
      const auto example = taught(model, row, tools);
      if (!example) continue;
      const std::string where = name + ": " + talk + ", answer " + std::to_string(i);
      const auto whole = served(model, row, tools, false);
      ASSERT_TRUE(whole) << where;
      EXPECT_EQ(model.tokenizer.decode(example->tokens), model.tokenizer.decode(*whole)) << where;
      ++found.conversations;
      bool begins = false, in_text = false;
      for (const std::optional<bool> thinking : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
        const auto prompt = served(model, before, tools, true, thinking);
        if (!prompt) continue;
        const std::string opened = model.tokenizer.decode(*prompt);
        in_text = in_text || model.tokenizer.decode(example->tokens).starts_with(opened);
        begins = begins || (example->tokens.size() >= prompt->size() &&
                            std::equal(prompt->begin(), prompt->end(), example->tokens.begin()));
      }
      // A template may open an answer otherwise than it writes one; then transformers' texts differ as well.
      EXPECT_EQ(begins, in_text) << where;
      ++(begins ? found.prompts : found.opened_otherwise);
    }
  }
}

TEST(training_beside_serving, own_templates_and_families) {
  counts found;
  for (const auto& [name, jinja] : shipped_templates::own()) same_tokens(name, jinja, found);
  for (const auto family : text::chat_family_names) same_tokens(std::string(family), text::family_jinja(family), found);
  EXPECT_GE(found.conversations, 150u);
  EXPECT_GE(found.prompts, 140u);
}

TEST(training_beside_serving, templates_of_trl_and_transformers) {
  if (shipped_templates::of_packages().empty()) GTEST_SKIP() << "RLCORE_PYTHON names no Python with TRL";
  counts found;
  for (const auto& [name, jinja] : shipped_templates::of_packages()) same_tokens(name, jinja, found);
  EXPECT_GE(found.prompts, 15 * shipped_templates::of_packages().size());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
