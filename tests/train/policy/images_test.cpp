// Prompts with images through sampling, scoring and the update of a policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/update.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;

/// Six prompts with none, one and two images; the last two have equal words and other images. `cache` in bytes.
data::prompt_dataset prompts(std::size_t cache) {
  image::processor_settings settings;
  settings.min_pixels = 64, settings.shape.patch = 4;
  data::prompt_dataset all;
  all.cache = std::make_shared<data::image_cache>(image::processor(settings), cache);
  std::mt19937 random(4);
  const auto image = [&](std::size_t height, std::size_t width) {
    image::pixels p{height, width, std::vector<std::uint8_t>(height * width * 3)};
    for (auto& c : p.rgb) c = static_cast<std::uint8_t>(random());
    return data::make_image_file("drawn", image::encode_png(p), {}, {});
  };
  for (std::int32_t i = 0; i < 6; ++i) {
    data::prompt p;
    const std::int32_t word = i < 4 ? i : 4;
    p.ids = {1 + word, 7};
    for (std::int32_t k = 0; k < (i < 4 ? i % 3 : 1); ++k) {
      p.images.push_back(image(i < 4 ? 16 : 24, 24));
      const auto tokens = static_cast<std::size_t>(image::token_count(p.images.back()->size, settings));
      p.ids.push_back(tiny_vision::start);
      p.ids.insert(p.ids.end(), tokens, tiny_vision::image);
      p.ids.push_back(tiny_vision::end);
    }
    p.ids.push_back(9 + word);
    all.prompts.push_back(std::move(p));
  }
  return all;
}

struct fixture {
  cpu device{2};
  train::actor<cpu> actor;
  data::prompt_dataset data;
  explicit fixture(std::size_t cache = std::size_t{1} << 20)
      : actor(device, tiny_vision::config(), train::policy_settings{}), data(prompts(cache)) {
    actor.model.initialize(5);
    actor.prompts = &data;
  }
  std::vector<train::trajectory> sample() {
    const std::vector<std::uint32_t> rows{0, 1, 2, 3, 4, 5};
    rollout::generation settings;
    settings.max_new_tokens = 6;
    std::vector<std::size_t> done;
    auto all = train::sample(actor.engine, actor.model, actor.space, data, rows, 4, settings, random_key{3},
                             [&](std::size_t n) { done.push_back(n); });
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].advantage = static_cast<float>(i % 5) - 2;
    return all;
  }
  /// The weights after an update.
  std::vector<float> updated(const std::vector<train::trajectory>& batch, std::int64_t micro) {
    const train::any_algorithm algorithm = train::algorithm_of(train::policy_loss_settings{});
    train::metrics out;
    train::update_plan plan{.mini_trajectories = 24, .micro_trajectories = micro, .lr = {1e-2}, .grad_clip = 1};
    EXPECT_EQ(train::update_actor(actor, algorithm, batch, plan, random_key{1}, out), 0);
    return {actor.model.weights().data(), actor.model.weights().data() + actor.model.size()};
  }
};

TEST(policy_images, recorded_log_probs_are_those_of_scoring) {
  fixture f;
  auto batch = f.sample();
  ASSERT_EQ(batch.size(), 24u);
  const auto recorded = batch;
  for (const std::int64_t rows : {0, 1, 5}) {
    train::score_trajectories(f.actor.model, f.actor.space, batch, 1, rows, 0, &train::trajectory::old_logp, nullptr,
                              &f.data);
    for (std::size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(batch[i].old_logp, recorded[i].old_logp) << i;
  }
  EXPECT_NE(batch[16].old_logp, batch[20].old_logp) << "equal words and other images";
}

TEST(policy_images, a_small_cache_changes_no_response) {
  fixture large, small(20000);
  const auto a = large.sample(), b = small.sample();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].old_logp, b[i].old_logp);
  }
  EXPECT_LE(small.data.cache->bytes(), 20000u);
}

TEST(policy_images, micro_batches_change_no_weight_and_the_tower_learns) {
  fixture one, many;
  const auto batch = one.sample();
  const std::vector<float> before(one.actor.model.weights().data(),
                                  one.actor.model.weights().data() + one.actor.model.size());
  const auto after = one.updated(batch, 24);
  EXPECT_EQ(after, many.updated(batch, 5));
  std::size_t tower = 0;
  for (const nn::parameter& p : one.actor.model.parameters())
    if (p.name.starts_with("visual."))
      for (std::size_t i = p.offset; i < p.offset + p.size; ++i) tower += after[i] != before[i];
  EXPECT_GT(tower, 1000u);
}

TEST(policy_images, copies_and_the_fingerprint_look_at_images) {
  fixture f;
  EXPECT_EQ(train::count_copies(f.data), 0u);
  data::prompt_dataset twice = f.data;
  twice.prompts.push_back(f.data[4]);
  EXPECT_EQ(train::count_copies(twice), 1u);
  data::prompt_dataset other = f.data;
  std::swap(other.prompts[4].images, other.prompts[5].images);
  EXPECT_NE(train::data_text(other), train::data_text(f.data));
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
