// Positions against transformers (reference/rope_positions.py).
#include "rlcore/nn/vision/positions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ints = std::vector<std::int32_t>;

TEST(rope_positions, of_transformers) {
  const auto rows = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/rope_positions.json"));
  ASSERT_EQ(rows.size(), 1000u);
  for (const auto& row : rows) {
    std::vector<nn::patch_grid> grids;
    for (const auto& g : row[1]) grids.push_back({g[0], g[1]});
    const nn::rope_positions got = nn::make_rope_positions(row[0].get<ints>(), 7, grids);
    ints time, line, column;
    for (const nn::rope_position& p : got.positions)
      time.push_back(p.time), line.push_back(p.row), column.push_back(p.column);
    EXPECT_EQ(time, row[2].get<ints>()) << row;
    EXPECT_EQ(line, row[3].get<ints>()) << row;
    EXPECT_EQ(column, row[4].get<ints>()) << row;
    EXPECT_EQ(got.delta, row[5].get<std::int32_t>()) << row;
  }
}

TEST(rope_positions, runs_and_images_have_to_fit) {
  const auto refusal = [](const ints& tokens, const std::vector<nn::patch_grid>& grids) {
    try {
      nn::make_rope_positions(tokens, 7, grids);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({1, 7, 7}, {{2, 4}}), "");
  EXPECT_THAT(refusal({1, 7, 7, 7}, {{2, 4}}), testing::HasSubstr("with 1 images has image tokens for more"));
  EXPECT_THAT(refusal({7, 1, 7}, {{2, 4}}), testing::HasSubstr("fewer than 2 image tokens in the run of image 0"));
  EXPECT_THAT(refusal({1, 7, 7}, {{2, 4}, {2, 2}}), testing::HasSubstr("with 2 images has image tokens for 1"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
