#include "rlcore/train/policy/check_memory.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "nn/tiny_vision.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

/// Prompts whose images have these sides, as their headers say.
data::prompt_dataset prompts(std::vector<std::vector<image::size>> sizes) {
  data::prompt_dataset all;
  all.cache = std::make_shared<data::image_cache>(image::processor(image::processor_settings{}));
  for (const auto& sides : sizes) {
    data::prompt& p = all.prompts.emplace_back();
    for (const image::size& s : sides)
      p.images.push_back(std::make_shared<const data::image_file>(data::image_file{"p", {}, {}, s, {}}));
  }
  return all;
}

TEST(image_memory, counts_the_largest_prompt_from_its_headers) {
  const nn::vision_config tower;
  EXPECT_EQ(train::most_image_tokens(prompts({{{56, 56}}, {}, {{280, 560}, {28, 112}}}), tower), 10 * 20 + 1 * 4);
  EXPECT_EQ(train::most_image_tokens(prompts({{}}), tower), 0);
}

TEST(image_memory, one_prompt_that_cannot_fit_is_refused_and_a_large_micro_batch_is_warned_of) {
  const auto all = prompts({{{56, 56}}, {{1120, 560}}});
  const double tokens = 40 * 20;
  const train::image_pass pass{{}, nn::tower_keeps::inputs, 4};
  const auto bytes = [&](nn::tower_keeps keeps) {
    return static_cast<std::size_t>(train::image_bytes(pass.tower, tokens, keeps));
  };
  const std::size_t least = bytes(nn::tower_keeps::nothing), most = 4 * bytes(nn::tower_keeps::inputs);
  EXPECT_LT(least, most);
  scratch::error_of<config_error>([&] { train::check_image_memory(all, pass, least - 1000); },
                                  {"the images of a prompt have up to 800 tokens", "max_pixels"});
  EXPECT_EQ(train::check_image_memory(all, pass, most + 1000), "");
  const std::string warning = train::check_image_memory(all, pass, most - 1000);
  EXPECT_NE(warning.find("micro-batch of 4 such trajectories"), std::string::npos) << warning;
  EXPECT_EQ(train::check_image_memory(all, pass, std::nullopt), "");
  EXPECT_EQ(train::check_image_memory(prompts({{}}), pass, 0), "");
}

/// The estimate against what a pass really takes on a device that counts.
TEST(image_memory, is_what_a_pass_of_the_tower_takes) {
  counted_device counted;
  any_device& device = counted.device;
  memory_counts& memory = counted.memory;
  nn::config c = tiny_vision::config();
  c.vision->depth = 6;
  nn::causal_lm<any_device> model(device, c);
  model.initialize(1);
  const nn::patch_grid grid{40, 40};
  const std::vector<float> patches(static_cast<std::size_t>(grid.height * grid.width * c.vision->patch()));
  const nn::image_patches shown{grid, patches};
  static_cast<void>(model.packed());  // belongs to the model
  for (const auto keeps : {nn::tower_keeps::activations, nn::tower_keeps::inputs, nn::tower_keeps::nothing}) {
    const std::size_t before = memory.live;
    memory.most = before;
    nn::workspace<any_device> space(device);
    nn::vision_pass<any_device> pass(model.tower(), device, space, model.weights().data(), model.packed(),
                                     std::span(&shown, 1), keeps != nn::tower_keeps::activations,
                                     keeps != nn::tower_keeps::nothing);
    const double taken = static_cast<double>(memory.most - before),
                 said = sizeof(float) * nn::vision_values(*c.vision, 400, keeps);
    EXPECT_GT(said, 0.6 * taken) << static_cast<int>(keeps);
    EXPECT_LT(said, 1.6 * taken) << static_cast<int>(keeps);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
