// Divisions of layers and orders of passes against those of Megatron-LM (tests/reference/pipeline.py).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;

nlohmann::json reference(const char* part) {
  std::ifstream file(RLCORE_REFERENCE_DIR "/pipeline.json");
  return nlohmann::json::parse(file).at(part);
}

/// 64-bit FNV-1a.
std::string hash_of(const std::string& text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(h));
  return digits;
}

TEST(megatron, has_the_same_orders) {
  const nlohmann::json cases = reference("orders");
  EXPECT_GT(cases.size(), 300u);
  for (const nlohmann::json& c : cases) {
    const pipeline_shape shape{.stages = c[0], .chunks = c[1], .passes = c[2], .group = c[3]};
    std::string text;
    for (int stage = 0; stage < shape.stages; ++stage) {
      text += stage == 0 ? "" : "; ";
      const std::vector<pipeline_action> list = stage_schedule(shape, stage);
      for (std::size_t i = 0; i < list.size(); ++i)
        text += (i == 0 ? "" : " ") + std::to_string(list[i].forward ? list[i].chunk + 1 : -list[i].chunk - 1);
    }
    EXPECT_EQ(hash_of(text), c[4]) << c;
  }
}

std::optional<std::string> division(const nlohmann::json& c) {
  pipeline_division d{.stages = c[1], .chunks = c[2]};
  if (!c[3].is_null()) d.first = c[3].get<std::int64_t>();
  if (!c[4].is_null()) d.last = c[4].get<std::int64_t>();
  d.account_for_embedding = c[5] == 1, d.account_for_loss = c[6] == 1;
  try {
    std::string text;
    for (const index_range& r : divide_layers(c[0], d))
      text += (text.empty() ? "" : " ") + std::to_string(r.first) + "+" + std::to_string(r.size());
    return text;
  } catch (const rlcore::config_error&) {
    return std::nullopt;
  }
}

TEST(megatron, divides_layers_equally) {
  std::size_t same = 0, wrong_offsets = 0, no_middle = 0, fewer_layers = 0;
  for (const nlohmann::json& c : reference("divisions")) {
    const std::optional<std::string> ours = division(c);
    const bool both_ends = !c[3].is_null() && !c[4].is_null();
    if (c[1] == 2 && both_ends) {  // Megatron divides by zero; the two must have all layers
      EXPECT_EQ(ours.has_value(), c[3].get<int>() + c[4].get<int>() == c[0].get<int>()) << c;
      ++no_middle;
    } else if (c[1].get<int>() > c[0].get<int>()) {  // stages of an embedding or a head alone
      EXPECT_FALSE(ours) << c;
      ++fewer_layers;
    } else if (c[2] != 1 && c[3].is_null() && !c[4].is_null() && ours) {  // Megatron-LM#1584
      wrong_offsets += hash_of(*ours) == c[7] ? 0 : 1;
    } else {
      EXPECT_EQ(ours ? nlohmann::json(hash_of(*ours)) : nlohmann::json(), c[7]) << c;
      ++same;
    }
  }
  EXPECT_GT(same, 1200u);
  EXPECT_GT(wrong_offsets, 20u);
  EXPECT_GT(no_middle, 10u);
  EXPECT_GT(fewer_layers, 0u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
