#include "rlcore/parallel/pipeline/division.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::config_error;
using rlcore::parallel::divide_layers;
using rlcore::parallel::division_text;
using rlcore::parallel::index_range;
using rlcore::parallel::pipeline_division;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::size_t> begins(std::int64_t layers, const pipeline_division& d) {
  std::vector<std::size_t> all;
  for (const index_range& r : divide_layers(layers, d)) all.push_back(r.first);
  return all;
}

/// "0-1 4-5": the layers of a stage, chunk by chunk.
std::string layers_of(std::int64_t layers, const pipeline_division& d, int stage) {
  std::string text;
  const std::vector<index_range> ranges = divide_layers(layers, d);
  for (std::size_t k = static_cast<std::size_t>(stage); k < ranges.size(); k += static_cast<std::size_t>(d.stages))
    text += (text.empty() ? "" : " ") + std::to_string(ranges[k].first) + "-" + std::to_string(ranges[k].last);
  return text;
}

std::string refusal(std::int64_t layers, const pipeline_division& d) {
  try {
    divide_layers(layers, d);
  } catch (const config_error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no exception";
}

TEST(pipeline_division, published_one_of_235b) {
  const pipeline_division d{.stages = 8, .first = 11, .last = 11};
  EXPECT_THAT(begins(94, d), ElementsAre(0, 11, 23, 35, 47, 59, 71, 83));
  EXPECT_EQ(division_text(divide_layers(94, d), 8), "11, 6 x 12, 11");
}

TEST(pipeline_division, accounted_ends) {
  const pipeline_division d{.stages = 4, .account_for_embedding = true, .account_for_loss = true};
  EXPECT_EQ(division_text(divide_layers(30, d), 4), "7, 2 x 8, 7");
  const std::string text = refusal(36, {.stages = 8, .account_for_embedding = true, .account_for_loss = true});
  EXPECT_THAT(text, HasSubstr("38 % 8 = 6; set num_layers_in_first_pipeline_stage=3 and "));
  EXPECT_THAT(text, HasSubstr(", without account_for_embedding_in_pipeline_split and account_for_loss_in_"));
  const std::vector<index_range> empty_ends =
      divide_layers(2, {.stages = 2, .chunks = 2, .account_for_embedding = true, .account_for_loss = true});
  EXPECT_EQ(empty_ends.front().size(), 0u);  // a chunk of the embedding alone
  EXPECT_EQ(empty_ends.back().size(), 0u);
}

TEST(pipeline_division, chunks_are_dealt_over_virtual_stages) {
  EXPECT_EQ(layers_of(8, {.stages = 2, .chunks = 2}, 0), "0-2 4-6");
  EXPECT_EQ(layers_of(8, {.stages = 2, .chunks = 2}, 1), "2-4 6-8");
  EXPECT_EQ(layers_of(8, {.stages = 2, .chunks = 4}, 0), "0-1 2-3 4-5 6-7");
  EXPECT_EQ(layers_of(16, {.stages = 4, .chunks = 2}, 0), "0-2 8-10");
  // Both chunks of the last stage are behind those of the middle (Megatron-LM#1584).
  EXPECT_EQ(layers_of(16, {.stages = 4, .chunks = 2, .last = 4}, 3), "6-8 14-16");
  EXPECT_EQ(layers_of(8, {.stages = 2, .chunks = 1, .first = 3, .last = 5}, 1), "3-8");
}

TEST(pipeline_division, refusals_name_numbers_that_would_do) {
  const std::string text = refusal(94, {.stages = 8});
  EXPECT_THAT(text, HasSubstr("94 layers over 8 stages: 94 % 8 = 6; set num_layers_in_first_pipeline_stage=11 and "
                              "num_layers_in_last_pipeline_stage=11"));
  EXPECT_EQ(refusal(94, {.stages = 8, .first = 11, .last = 11}), "no exception");
  EXPECT_THAT(refusal(7, {.stages = 2}), HasSubstr("stage=3 and num_layers_in_last_pipeline_stage=4"));
  EXPECT_THAT(refusal(2, {.stages = 3}), HasSubstr("3: more stages than the 2 layers"));
  EXPECT_THAT(refusal(8, {.stages = 2, .first = 0}), HasSubstr("=0: expected 1 or more layers"));
  EXPECT_THAT(refusal(8, {.stages = 2, .first = 3, .last = 4}), HasSubstr("are 7 together, expected 8"));
  EXPECT_EQ(refusal(4, {.stages = 2, .first = 6}), "num_layers_in_first_pipeline_stage=6: more than the 4 layers");
  EXPECT_THAT(refusal(4, {.stages = 2, .last = 4}), HasSubstr("no layer is left for the other stages"));
  EXPECT_THAT(refusal(8, {.stages = 4, .first = 3, .account_for_loss = true}),
              HasSubstr("account_for_loss_in_pipeline_split=True: expected one of them"));
  EXPECT_THAT(refusal(8, {.stages = 4, .chunks = 4}), HasSubstr("2 layers of a stage are not 4 chunks"));
  EXPECT_THAT(refusal(8, {.stages = 3, .first = 4, .last = 4}), HasSubstr("no layer is left"));
  EXPECT_THAT(refusal(9, {.stages = 2, .chunks = 2, .first = 3}), HasSubstr("expected a multiple of the chunks"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
