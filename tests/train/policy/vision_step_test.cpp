// A step of GRPO on prompts with images against transformers (tests/reference/vision_step.py).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/update.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using nlohmann::json;
using train::trajectory;

const json& golden() {
  static const json data = parity::read("vision_step.json");
  return data;
}

nn::config tiny() {
  const json &text = golden().at("text"), &vision = golden().at("vision");
  json spec = text;
  spec["tie_word_embeddings"] = true;
  nn::config c = parity::dense_config(spec);
  c.max_position_embeddings = text.at("max_position_embeddings");
  c.mrope_section = text.at("rope_parameters").at("mrope_section").get<std::array<std::int64_t, 3>>();
  c.image_token_id = 57, c.video_token_id = 56;
  nn::vision_config& v = c.vision.emplace();
  v.depth = vision.at("depth"), v.hidden_size = vision.at("hidden_size"), v.num_heads = vision.at("num_heads");
  v.intermediate_size = vision.at("intermediate_size"), v.out_hidden_size = vision.at("out_hidden_size");
  v.fullatt_block_indexes = vision.at("fullatt_block_indexes").get<std::vector<std::int64_t>>();
  return c;
}

/// A row of the data set for each prompt; transformers' Pillow processor made the patches.
data::prompt_dataset prompts() {
  image::processor_settings settings;
  settings.resample = image::resampling::pillow;
  data::prompt_dataset all;
  all.cache = std::make_shared<data::image_cache>(image::processor(settings));
  for (const json& shown : golden().at("shown")) {
    data::prompt& p = all.prompts.emplace_back();
    for (const json& n : shown) {
      const json& sides = golden().at("pictures")[n.get<std::size_t>()];
      image::pixels drawn{sides[0], sides[1], {}};
      for (std::uint32_t i = 0; i < drawn.height * drawn.width * 3; ++i)
        drawn.rgb.push_back(static_cast<std::uint8_t>((parity::value(700 + n.get<std::uint32_t>(), i) + 0.5f) * 256));
      p.images.push_back(data::make_image_file("drawn", image::encode_png(drawn), {}, {}));
    }
  }
  return all;
}

struct vision_step : testing::Test {
  vision_step() {
    actor.prompts = &data;
    std::map<std::string, const nn::parameter*> sorted;
    for (const nn::parameter& p : actor.model.parameters()) sorted[p.name] = &p;
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted) {
      const bool is_norm = name.find("norm") != name.npos || name.find("ln_q") != name.npos;
      for (std::uint32_t i = 0; i < p->size; ++i) {
        const float v = parity::value(k, i);
        actor.model.weights().data()[p->offset + i] =
            is_norm ? 1 + v / 2 : v * (name.find("patch") != name.npos ? 0.1f : 0.5f);
      }
      ++k;
    }
    const json& g = golden();
    const std::int64_t samples = g.at("samples");
    for (std::size_t i = 0; i < g.at("tokens").size(); ++i) {
      trajectory& t = batch.emplace_back();
      t.tokens = g.at("tokens")[i].get<std::vector<std::int32_t>>();
      t.prompt_length = g.at("prompts")[i], t.row = static_cast<std::uint32_t>(i / static_cast<std::size_t>(samples));
      t.old_logp = g.at("old_logp")[i].get<std::vector<float>>();
      t.ref_logp = g.at("ref_logp")[i].get<std::vector<float>>();
      t.reward = g.at("rewards")[i];
    }
    train::estimate_advantages(group_relative{}, batch, samples);
  }
  static train::policy_settings settings() {
    train::policy_settings s;
    s.adamw.weight_decay = golden().at("weight_decay");
    return s;
  }
  train::metrics update(const json& spec) {
    train::policy_loss_settings loss;
    loss.clip = {spec.at("low"), spec.at("high"), spec.at("c")};
    loss.use_kl = !spec.at("kl").is_null(), loss.kl_coef = spec.at("kl_coef"), loss.entropy_coeff = spec.at("entropy");
    const train::any_algorithm algorithm = train::algorithm_of(loss);
    const train::update_plan plan{.mini_trajectories = 9,
                                  .micro_trajectories = 4,
                                  .temperature = golden().at("temperature").get<float>(),
                                  .lr = {golden().at("lr").get<double>()},
                                  .grad_clip = golden().at("grad_clip")};
    train::metrics m;
    EXPECT_EQ(train::update_actor(actor, algorithm, batch, plan, random_key{1}, m), 0);
    return m;
  }

  cpu device{1};
  train::actor<cpu> actor{device, tiny(), settings()};
  data::prompt_dataset data = prompts();
  std::vector<trajectory> batch;
};

TEST_F(vision_step, has_the_log_probs_and_advantages_of_transformers) {
  train::score_trajectories(actor.model, actor.space, batch, golden().at("temperature").get<float>(), 4, 0,
                            &trajectory::entropy, nullptr, &data);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_NEAR(batch[i].advantage, golden().at("advantages")[i].get<double>(), 1e-6);
    ASSERT_EQ(batch[i].entropy.size(), golden().at("logp")[i].size());
    for (std::size_t t = 0; t < batch[i].entropy.size(); ++t)
      EXPECT_NEAR(batch[i].entropy[t], golden().at("logp")[i][t].get<double>(), 1e-5) << i << " " << t;
  }
}

TEST_F(vision_step, has_the_loss_and_all_gradients_of_autograd) {
  const std::vector<float> before(actor.model.weights().data(), actor.model.weights().data() + actor.model.size());
  for (const auto& [name, spec] : golden().at("cases").items()) {
    SCOPED_TRACE(name);
    actor.model.weights().upload(before);
    const train::metrics m = update(spec);
    EXPECT_NEAR(m.get("actor/grad_norm"), spec.at("grad_norm"), 1e-5 * spec.at("grad_norm").get<double>());
    for (const char* key : {"pg_loss", "pg_clipfrac", "pg_clipfrac_lower", "ppo_kl", "kl_loss"}) {
      EXPECT_EQ(m.contains(std::string("actor/") + key), spec.contains(key)) << key;
      if (spec.contains(key)) {
        EXPECT_NEAR(m.get(std::string("actor/") + key), spec.at(key), 1e-6) << key;
      }
    }
    if (spec.at("entropy") > 0) {
      EXPECT_NEAR(m.get("actor/entropy_loss"), spec.at("entropy_loss"), 1e-5);
    }
    ASSERT_EQ(spec.at("gradients").size(), actor.model.parameters().size());
    for (const nn::parameter& p : actor.model.parameters()) {
      const json& expected = spec.at("gradients").at(p.name);
      const auto first = expected.at("first").get<std::vector<double>>();
      const double norm = expected.at("norm");
      double square = 0;
      for (std::size_t i = 0; i < p.size; ++i)
        square += std::pow(static_cast<double>(actor.gradient().data()[p.offset + i]), 2);
      EXPECT_NEAR(std::sqrt(square), norm, 1e-5 * norm) << p.name;
      for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_NEAR(static_cast<double>(actor.gradient().data()[p.offset + i]), first[i], 1e-5 * norm)
            << p.name << " " << i;
    }
  }
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
