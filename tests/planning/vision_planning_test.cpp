// Models that read images in a plan: parameters against transformers, memory and time of the tower.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/stage_times.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train::planning;
using nlohmann::json;

const json& golden() {
  static const json all = json::parse(scratch::read(RLCORE_REFERENCE_DIR "/checkpoint_vision.json"));
  return all;
}

TEST(vision_planning, parameters_are_those_of_transformers) {
  for (const auto& [size, spec] : golden()["parameters"].items()) {
    const model_shape& m = *find_known_model("Qwen/Qwen2.5-VL-" + size + "-Instruct");
    EXPECT_EQ(m.tower_parameters(), spec["vision"].get<std::int64_t>()) << size;
    EXPECT_EQ(m.parameters(), spec["all"].get<std::int64_t>()) << size;
    EXPECT_THAT(parameters_text(m), testing::HasSubstr("vision tower"));
    EXPECT_EQ(local_sizes(m, 1, 1).total(), static_cast<double>(m.parameters()));
    EXPECT_EQ(local_sizes(m, 2, 1).tower, static_cast<double>(m.tower_parameters()));
  }
  EXPECT_EQ(find_known_model("Qwen2.5-7B")->tower_parameters(), 0);
}

TEST(vision_planning, every_layout_of_config_json_is_read) {
  for (const auto& [name, root] : golden()["layouts"].items()) {
    const scratch::folder place;
    scratch::write(place / "config.json", root.dump());
    std::int64_t count = 0;
    for (const auto& [tensor, shape] :
         golden()["shapes"][name.find("untied") == std::string::npos ? "tied" : "untied"].items()) {
      std::int64_t n = 1;
      for (const json& extent : shape) n *= extent.get<std::int64_t>();
      count += n;
    }
    EXPECT_EQ(find_model(place.path().string()).parameters(), count) << name;
    EXPECT_EQ(shape_of(checkpoint::read_config(place.path())).parameters(), count) << name;
  }
}

TEST(vision_planning, an_image_costs_what_the_formula_says) {
  const model_shape& m = *find_known_model("Qwen2.5-VL-7B");
  // 1000 tokens are 4000 patches: 28 blocks with windows of 64 and 4 with all of them.
  const double n = 4000, h = 1280, i = 3420;
  const double products = 2 * n * 32 * (3 * h * h + h * h + 3 * h * i), windows = 28 * 4 * n * 64 * h,
               full = 4 * 4 * n * n * h, ends = 2 * n * h * 1176 + 2 * 1000 * (5120.0 * 5120 + 5120.0 * 3584);
  EXPECT_DOUBLE_EQ(m.tower_operations(1000), products + windows + full + ends);
  EXPECT_EQ(m.tower_operations(0), 0);
  EXPECT_EQ(find_known_model("Qwen2.5-7B")->tower_operations(1000), 0);
  const cluster c = find_cluster("910B");
  const double rate = c.peak * c.training_share;
  const auto without = pass_time(c, m, {2, 2048, 1024}, 8), with = pass_time(c, m, {2, 2048, 1024, 1000, 1}, 8);
  EXPECT_NEAR(with.forward - without.forward, 2 * m.tower_operations(1000) / rate, 1e-9 * with.forward);
  EXPECT_NEAR(with.backward - without.backward, 4 * m.tower_operations(1000) / rate, 1e-9 * with.backward);
}

TEST(vision_planning, memory_of_the_tower) {
  const model_shape& m = *find_known_model("Qwen2.5-VL-7B");
  const cluster c = find_cluster("910B");
  layout l;
  l.data = 8;
  workload w;
  const memory_need before = memory_of(m, l, w, c);
  w.image_tokens = 1000;
  const batches b(l, w);
  const auto rows = static_cast<double>(b.micro_rows);
  const double patch = 1176 + 1280 * 34 + 8 * 1280 + 3 * 3420, merged = 3 * 5120 + 2 * 3584;
  EXPECT_NEAR(memory_of(m, l, w, c).activations - before.activations, 4 * rows * (4000 * patch + 1000 * merged), 1);
  w.recompute = false;
  workload none = w;
  none.image_tokens = 0;
  EXPECT_GT(memory_of(m, l, w, c).activations - memory_of(m, l, none, c).activations,
            4 * rows * 4000 * 32 * (8 * 1280 + 3 * 3420));
  // The state has all weights once: 16 bytes each over 8 ranks.
  EXPECT_NEAR(before.state, 2 * static_cast<double>(m.parameters()), 1);
}

TEST(vision_planning, the_command_line) {
  const auto plan = [](std::vector<std::string> arguments) {
    return run_plan(train::options::parse(arguments, train::plan_registry()));
  };
  const std::string text = plan({"model=Qwen2.5-VL-7B", "devices=16", "image_tokens=512"});
  EXPECT_THAT(text, testing::HasSubstr("676,550,144"));
  EXPECT_THAT(text, testing::HasSubstr("8,292,166,656"));
  scratch::error_of<config_error>([&] { plan({"model=Qwen2.5-7B", "image_tokens=512"}); },
                                  {"image_tokens=512: Qwen2.5-7B reads no images"});
  scratch::error_of<config_error>([&] { plan({"model=Qwen2.5-VL-7B", "image_tokens=2000"}); },
                                  {"image_tokens=2000 is more than prompt_length=1024"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
