#include "rlcore/checkpoint/generation_defaults.hpp"

#include <gtest/gtest.h>

#include <string>

#include "data/scratch.hpp"

namespace {

using rlcore::checkpoint::read_generation_defaults;

TEST(generation_defaults, are_those_of_the_file) {
  const scratch::folder place;
  const auto none = read_generation_defaults(place.path());
  EXPECT_FALSE(none.temperature || none.top_p || none.min_p || none.repetition_penalty || none.top_k ||
               none.max_new_tokens);
  // as published with Qwen2.5-0.5B-Instruct
  scratch::write(place / "generation_config.json", R"({
  "bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
  "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "transformers_version": "4.37.0"
})");
  const auto qwen = read_generation_defaults(place.path());
  EXPECT_EQ(qwen.repetition_penalty, 1.1);
  EXPECT_EQ(qwen.temperature, 0.7);
  EXPECT_EQ(qwen.top_p, 0.8);
  EXPECT_EQ(qwen.top_k, 20);
  EXPECT_FALSE(qwen.min_p || qwen.max_new_tokens);
  scratch::write(place / "generation_config.json", R"({"min_p": 0, "max_new_tokens": 100, "temperature": null})");
  const auto other = read_generation_defaults(place.path());
  EXPECT_EQ(other.min_p, 0);
  EXPECT_EQ(other.max_new_tokens, 100);
  EXPECT_FALSE(other.temperature);
}

TEST(generation_defaults, refuse_what_cannot_be) {
  const scratch::folder place;
  for (const std::string bad :
       {R"("temperature": -1)", R"("temperature": "hot")", R"("top_p": 0)", R"("top_p": 1.5)", R"("min_p": -0.1)",
        R"("repetition_penalty": 0)", R"("top_k": -2)", R"("top_k": 1.5)", R"("max_new_tokens": 0)"}) {
    scratch::write(place / "generation_config.json", "{" + bad + "}");
    const std::string key = bad.substr(1, bad.find('"', 1) - 1);
    scratch::error_of<rlcore::format_error>([&] { read_generation_defaults(place.path()); },
                                            {"generation_config.json", "'" + key + "'", "expected"});
  }
}

}  // namespace
