#include "rlcore/config/settings/image_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/sft.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using testing::Contains;
using testing::HasSubstr;
using words = std::vector<std::string>;

options grpo(const words& line) { return options::parse(line, grpo_trainer_registry()); }
image_options read(const words& line) { return read_image_options(grpo(line)); }
std::string refusal(const words& line) {
  try {
    grpo(line);
  } catch (const config_error& e) {
    return e.what();
  }
  return "taken";
}

TEST(image_options, are_the_models_unless_a_key_says_otherwise) {
  const image::processor_settings model{.min_pixels = 784, .max_pixels = 50176};
  const auto same = read({}).of(model);
  EXPECT_EQ(same.min_pixels, 784);
  EXPECT_EQ(same.max_pixels, 50176);
  EXPECT_EQ(same.resample, image::resampling::torchvision);
  EXPECT_EQ(same.decode.opacity, image::alpha::white);
  EXPECT_EQ(read({}).cache_bytes, std::size_t{512} << 20);
  EXPECT_EQ(read({}).most, std::numeric_limits<std::size_t>::max());

  const image_options o =
      read({"data.image_key=pics", "data.video_key=films", "data.image_patch_size=14",
            "data.mm_processor_kwargs={min_pixels: 3136, size: {shortest_edge: 1, longest_edge: 9408}}",
            "rlcore.image_resampling=pillow", "rlcore.image_alpha=drop", "rlcore.image_cache_mb=0"});
  EXPECT_EQ(o.image_key + o.video_key, "picsfilms");
  EXPECT_EQ(o.of(model).min_pixels, 3136);
  EXPECT_EQ(o.of(model).max_pixels, 9408);
  EXPECT_EQ(o.of(model).resample, image::resampling::pillow);
  EXPECT_EQ(o.of(model).decode.opacity, image::alpha::drop);
  EXPECT_EQ(o.cache_bytes, 0u);
  EXPECT_EQ(read({"+data.mm_processor_kwargs.max_pixels=784"}).of(model).max_pixels, 784);
  const options sft = options::parse(words{"data.image_key=pics"}, sft_registry());
  EXPECT_EQ(read_image_options(sft).image_key, "pics");
}

TEST(image_options, refuse_what_no_image_can_be) {
  EXPECT_THAT(refusal({"data.image_patch_size=16"}), HasSubstr("data.image_patch_size"));
  EXPECT_THAT(refusal({"rlcore.image_resampling=pil"}), HasSubstr("pillow"));
  EXPECT_THAT(refusal({"+data.mm_processor_kwargs.max_pixel=1"}), HasSubstr("did you mean 'max_pixels'?"));
  EXPECT_THAT(refusal({"data.mm_processor_kwargs={max_pixels: a}"}),
              HasSubstr("max_pixels=a: expected a number of pixels"));
  EXPECT_THAT(refusal({"data.mm_processor_kwargs={min_pixels: 0}"}), HasSubstr("1 or more"));
  EXPECT_THAT(refusal({"data.mm_processor_kwargs={size: 5}"}), HasSubstr("shortest_edge"));
  EXPECT_THAT(refusal({"data.mm_processor_kwargs={size: {height: 5}}"}), HasSubstr("size.height"));
  EXPECT_THROW(read({"data.mm_processor_kwargs={min_pixels: 3136}"}).of({.min_pixels = 1, .max_pixels = 784}),
               config_error);
}

TEST(image_options, settings_of_other_engines_are_noted) {
  const options opt = grpo({"+actor_rollout_ref.rollout.engine_kwargs.vllm.disable_mm_preprocessor_cache=True",
                            "+actor_rollout_ref.rollout.engine_kwargs.vllm.limit_mm_per_prompt={image: 5}"});
  EXPECT_THAT(opt.notes(), Contains(HasSubstr("vllm.disable_mm_preprocessor_cache has no effect")));
  EXPECT_THAT(opt.notes(), Contains(HasSubstr("vllm.limit_mm_per_prompt has no effect")));
}

/// Both spellings of OpenRLHF; without --data.max_images_per_prompt its prompts are words.
TEST(image_options, openrlhf_says_how_many_images_a_prompt_has) {
  const words line{"--pretrain", "m", "--apply_chat_template", "--prompt_data", "a.jsonl", "--n_samples_per_prompt",
                   "4"};
  const auto with = [&](words more) {
    more.insert(more.begin(), line.begin(), line.end());
    return read(more);
  };
  EXPECT_EQ(with({}).most, 0u);
  EXPECT_TRUE(with({}).strip);
  for (const std::string dots : {"", "data."}) {
    const image_options o = with({"--" + dots + "image_key", "pics", "--" + dots + "max_images_per_prompt", "2"});
    EXPECT_EQ(o.image_key, "pics");
    EXPECT_EQ(o.most, 2u);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
