// A trainable_model: what LoRA trains, and that a saved one goes on to the same bits.
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/files/trained_files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
namespace fs = std::filesystem;
using trainable_model = train::trainable_model<cpu>;
using floats = std::vector<float>;

struct setting {
  std::string name;
  bool score = false, lora = false;
};

class training : public testing::TestWithParam<setting> {
 protected:
  training() : files_(tiny_model::make(place_.path())) {}

  nn::config config() const {
    nn::config c = checkpoint::read_config(files_.model);
    if (GetParam().score) c.output = nn::model_output::score;
    return c;
  }
  train::training_settings settings() const {
    train::training_settings s;
    if (GetParam().lora) s.lora = nn::lora_settings{3, 6, {"all-linear"}, 5};
    return s;
  }
  /// One optimizer step on sequences that are a function of `step`; `micro` of them at a time.
  void step(trainable_model& t, int number, int micro = 4) const {
    t.begin_update();
    for (int first = 0; first < 4; first += micro) {
      ragged<std::int32_t> sequences;
      nn::targets wanted;
      for (int s = first; s < first + micro; ++s) {
        std::vector<std::int32_t> ids;
        for (int i = 0; i < 5 + 3 * s; ++i) {
          const auto row = static_cast<std::int32_t>(sequences.values.size()) + i;
          ids.push_back((i * i + 7 * s + 31 * number) % 300);
          wanted.row.push_back(row);
          wanted.token.push_back((3 * ids.back() + 1) % 300);
        }
        sequences.push_back(ids);
      }
      if (GetParam().score)
        t.value_forward_backward(sequences, wanted.row, [](std::span<const float> value, std::span<float> slope) {
          for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = value[i] - 1;
        });
      else
        t.forward_backward(sequences, wanted, 1.0f, [](auto logp, auto, std::span<float> slope, auto) {
          for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -std::exp(logp[i]);
        });
    }
    const train::step_outcome outcome = t.apply({.lr = 0.01, .grad_clip = 1.0});
    EXPECT_GT(outcome.gradient_norm, 0);
    EXPECT_FALSE(outcome.skipped);
  }
  static floats weights(const trainable_model& t) { return train::to_host(t.model.device(), t.model.weights()); }
  static floats moments(const trainable_model& t) { return train::to_host(t.model.device(), t.optimizer().v()); }

  scratch::folder place_;
  tiny_model::files files_;
  cpu device_{1};
};

TEST_P(training, goes_on_to_the_same_bits_from_its_files) {
  trainable_model whole(device_, config(), settings()), first(device_, config(), settings());
  train::load_weights(whole, files_.model), train::load_weights(first, files_.model);
  const floats start = weights(whole);
  for (int i = 0; i < 4; ++i) step(whole, i);
  for (int i = 0; i < 2; ++i) step(first, i, 2);
  EXPECT_NE(weights(first), start);
  train::save_checkpoint(first, place_ / "saved", files_.model, {{"mine", 7}});

  cpu three(3);
  trainable_model second(three, config(), settings());
  train::load_weights(second, files_.model);
  const checkpoint::json_file extra = train::restore_checkpoint(second, place_ / "saved").extra;
  EXPECT_EQ(extra.integer("mine"), 7);
  EXPECT_EQ(weights(second), weights(first));
  for (int i = 2; i < 4; ++i) step(second, i, 1);
  EXPECT_EQ(weights(second), weights(whole));
  EXPECT_EQ(moments(second), moments(whole));
  EXPECT_EQ(second.optimizer().steps(), 4);

  trainable_model saved(device_, checkpoint::read_config(place_ / "saved" / "huggingface"), {});
  EXPECT_EQ(saved.model.settings().output, config().output);
  train::load_weights(saved, place_ / "saved" / "huggingface");  // the merged weights
  EXPECT_EQ(weights(saved), weights(first));
  EXPECT_EQ(fs::exists(place_ / "saved" / "lora_adapter"), GetParam().lora);
}

INSTANTIATE_TEST_SUITE_P(trainable_model, training,
                         testing::Values(setting{"causal"}, setting{"score", true}, setting{"causal_lora", false, true},
                                         setting{"score_lora", true, true}),
                         [](const auto& each) { return each.param.name; });

class lora : public training {};

TEST_P(lora, freezes_everything_else_and_can_be_turned_off) {
  trainable_model t(device_, config(), settings());
  train::load_weights(t, files_.model);
  const floats base = weights(t);
  EXPECT_LT(t.trained_size(), t.model.size());
  step(t, 0);
  const floats now = weights(t);
  for (const nn::parameter& p : t.model.parameters()) {
    const bool changed = !std::equal(now.begin() + static_cast<std::ptrdiff_t>(p.offset),
                                     now.begin() + static_cast<std::ptrdiff_t>(p.offset + p.size),
                                     base.begin() + static_cast<std::ptrdiff_t>(p.offset));
    EXPECT_EQ(changed, p.name.find("_proj.weight") != p.name.npos || p.name == "score.weight") << p.name;
  }
  floats inside;
  t.with_base([&] { inside = weights(t); });
  EXPECT_EQ(inside, base);
  EXPECT_EQ(weights(t), now);
}

TEST_P(lora, a_checkpoint_of_something_else_is_refused) {
  trainable_model t(device_, config(), settings());
  train::load_weights(t, files_.model);
  train::save_checkpoint(t, place_ / "saved", files_.model);
  const auto refused = [&](const train::training_settings& s, const fs::path& model, std::vector<std::string> parts) {
    trainable_model other(device_, config(), s);
    train::load_weights(other, model);
    parts.push_back((place_ / "saved").string());
    scratch::error_of<config_error>([&] { train::restore_checkpoint(other, place_ / "saved"); }, parts);
  };
  train::training_settings s = settings();
  s.lora->rank = 4;
  refused(s, files_.model, {"rank 3, alpha 6.0", "this run asks for rank 4"});
  s.lora = {};
  refused(s, files_.model, {"run with LoRA"});
  const fs::path changed = place_ / "other";
  tiny_model::make_for_tokenizer(changed, files_.model, 12);
  refused(settings(), changed, {"another base model than " + changed.string(), files_.model.string()});
  fs::remove_all(place_ / "saved" / "lora_adapter");
  refused(settings(), files_.model, {"trained all weights"});
  trainable_model full(device_, config(), {});
  EXPECT_THROW(full.with_base([] {}), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(trainable_model, lora,
                         testing::Values(setting{"causal", false, true}, setting{"score", true, true}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace RLCORE_TEST_ID
