// Sequences that show the same image: the tower sees it once, and no bit of a log-prob or a gradient tells.
#include "rlcore/nn/vision/image_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using tiny_vision::prompt;

/// Counts the patches that the tower embeds: no other product has as many inputs.
class patch_counter : public cpu {
 public:
  explicit patch_counter(extent_t& patches) : cpu(1), patches_(patches) {}
  using cpu::run;
  void run(const op::linear_forward& o) {
    if (o.inputs == tiny_vision::config().vision->patch()) patches_ += o.rows;
    cpu::run(o);
  }

 private:
  extent_t& patches_;
};

struct sequences {
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> images;
  nn::targets wanted;
  extent_t patches = 0;  ///< of all images

  void push_back(const prompt& p, std::span<const nn::image_patches> shown) {
    for (std::size_t t = 1; t < p.tokens.size(); ++t) {
      if (p.tokens[t] == tiny_vision::image) continue;
      wanted.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
      wanted.token.push_back(p.tokens[t]);
    }
    tokens.push_back(p.tokens);
    images.push_back(shown);
    for (const nn::image_patches& each : shown) patches += each.grid.height * each.grid.width;
  }
  nn::input input() const { return {tokens, images}; }
};

struct distinct_images_of_a_pass : testing::Test {
  distinct_images_of_a_pass() {
    model.initialize(3);
    all.push_back(one, one.images);
    all.push_back(other, other.images);
    all.push_back(again, again.images);  // the same floats elsewhere
    all.push_back(words, {});
    all.push_back(other, other.images);
  }
  static constexpr nn::patch_grid small{2, 2}, large{6, 8};
  prompt one{1, {large, small}}, again{7, {large, small}, 1}, other{2, {large}}, words{4, {}};
  extent_t patches = 0;
  any_device_of<patch_counter> device{patches};
  nn::causal_lm<any_device> model{device, tiny_vision::config()};
  nn::workspace<any_device> space{device};
  sequences all;

  std::vector<float> scored(const sequences& some) {
    std::vector<float> logp(some.wanted.row.size());
    nn::log_probs(model, space, some.input(), some.wanted, 1.0f, logp, {});
    return logp;
  }
  /// The gradient of a loss of all rows.
  std::vector<float> learnt(std::vector<sequences> passes) {
    nn::gradients<any_device> gradients(model);
    gradients.zero();
    for (const sequences& some : passes)
      nn::forward_backward(model, space, gradients, some.input(), some.wanted, 1.0f, true,
                           [](std::span<const float> logp, auto, std::span<float> slope, auto) {
                             for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = std::exp(logp[i]);
                           });
    const float* const values = gradients.data();
    return {values, values + gradients.size()};
  }
  std::vector<sequences> alone() {
    std::vector<sequences> each(5);
    for (std::size_t i = 0; const prompt* p : {&one, &other, &again, &words, &other})
      each[i++].push_back(*p, p->images);
    return each;
  }
};

TEST_F(distinct_images_of_a_pass, are_scored_once) {
  std::vector<float> apart;
  for (const sequences& each : alone()) {
    const std::vector<float> logp = scored(each);
    apart.insert(apart.end(), logp.begin(), logp.end());
  }
  patches = 0;
  EXPECT_EQ(scored(all), apart);
  EXPECT_EQ(patches, 2 * 48 + 4) << "two large images and a small one";
  EXPECT_EQ(all.patches, 4 * 48 + 2 * 4);
}

TEST_F(distinct_images_of_a_pass, go_through_a_frozen_tower_once_and_through_a_trained_one_each_time) {
  const std::vector<float> trained = learnt({all});
  EXPECT_EQ(patches, all.patches);
  EXPECT_EQ(learnt(alone()), trained);
  model.freeze_tower(true);
  patches = 0;
  const std::vector<float> frozen = learnt({all});
  EXPECT_EQ(patches, 2 * 48 + 4);
  EXPECT_EQ(learnt(alone()), frozen);
}

TEST_F(distinct_images_of_a_pass, differ_in_a_grid_or_a_single_bit) {
  std::vector<float> floats(96 * 8), zeros(96 * 8);
  const nn::image_patches a{{2, 4}, floats}, tall{{4, 2}, floats}, b{{2, 4}, zeros};
  const nn::vision_config c = *tiny_vision::config().vision;
  EXPECT_EQ(nn::find_distinct(std::vector{a, b, a}, c).row, (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(nn::find_distinct(std::vector{a, tall, b}, c).row, (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1}));
  zeros[5] = -0.0f;
  EXPECT_EQ(nn::find_distinct(std::vector{a, b}, c).images.size(), 2u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
