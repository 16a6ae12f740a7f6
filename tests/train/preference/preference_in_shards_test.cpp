// DPO, KTO, reward and process reward models while ranks have shards of the weights: the bits of one rank.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/dpo_task.hpp"
#include "rlcore/train/preference/kto_task.hpp"
#include "rlcore/train/preference/prm_task.hpp"
#include "rlcore/train/preference/rm_task.hpp"

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using trainable_model = train::trainable_model<cpu>;

auto kto_of_baseline(kto_baseline kl) { return paper::kto({.kl = kl, .beta = 0.1}); }

class preference_in_shards : public testing::Test {
 protected:
  preference_in_shards() : tokenizer_(text::tokenizer::load(files_.model)) {
    for (std::uint32_t i = 0; i < 9; ++i) {
      const std::vector<std::int32_t> good = ids(i, 6 + i % 4), bad = ids(i + 50, 5 + i % 3);
      pairs_.rows.push_back({good, bad, 3, 0});
      unpaired_.rows.push_back({{"Ann has " + std::to_string(i), " books" + std::string(i, '.')}, good, 3, i % 2 == 0});
      judged_.rows.push_back({good, {2, 4}, {static_cast<std::int32_t>(i % 2), 1}, {}});
      free_.rows.push_back({good, {2, 4}, {static_cast<std::int32_t>(i), 9}, {}});
    }
  }
  static std::vector<std::int32_t> ids(std::uint32_t number, std::uint32_t length) {
    std::vector<std::int32_t> all;
    for (std::uint32_t i = 0; i < length; ++i)
      all.push_back(static_cast<std::int32_t>(random_key{3}.below(300, number, i)));
    return all;
  }

  struct outcome {
    std::vector<float> weights;
    std::vector<double> numbers;  ///< metrics
  };
  /// Two steps of six rows and an evaluation of all nine; make(reference) is the task.
  template <class Make>
  outcome run(int ranks, bool score, Make&& make) {
    outcome first;
    parallel::launch_settings threads;
    threads.thread_ranks = ranks;
    threads.deadline = std::chrono::seconds(60);
    parallel::launch(threads, [&](parallel::any_communicator& all) {
      parallel::parallel_settings how;
      how.zero = 3;
      parallel::world world(all, how);
      cpu device(1);
      nn::config config = checkpoint::read_config(files_.model);
      train::frozen_model<cpu> reference(device, config, &world);
      train::load_weights(reference, files_.model);
      if (score) config.output = nn::model_output::score;
      trainable_model model(device, config, {}, &world);
      train::load_weights(model, files_.model);
      auto task = make(&reference.model);
      outcome mine;
      const auto note = [&](const train::metrics& m) {
        for (const auto& [name, number] : m) mine.numbers.push_back(m.get(name));
        EXPECT_EQ(std::as_const(model.model).weights().size(), ranks == 1 ? model.model.size() : 0);
        EXPECT_EQ(std::as_const(reference.model).weights().size(), ranks == 1 ? reference.model.size() : 0);
      };
      for (std::uint32_t step = 0; step < 2; ++step) {
        std::vector<std::uint32_t> rows;
        for (std::uint32_t i = 0; i < 6; ++i) rows.push_back((7 * i + 4 * step) % 9);
        train::metrics m;
        model.begin_update();
        task.update(model, std::span<const std::uint32_t>(rows), m);
        // OpenRLHF's DPOTrainer logs preference_loss as loss, without the likelihood: log 2 while the policy is the
        // reference.
        for (const auto& [name, number] : m)
          if (step == 0 && name == "train/nll_loss") {
            EXPECT_NEAR(m.get("train/loss"), std::log(2.0), 1e-6);
          }
        EXPECT_FALSE(model.apply({.lr = 0.01, .grad_clip = 1}).skipped);
        note(m);
      }
      train::metrics m;
      task.evaluate(model, m);
      note(m);
      const auto whole = model.gather_full_params();
      mine.weights = train::to_host(device, std::as_const(model.model).weights());
      if (world.first()) first = mine;
    });
    return first;
  }
  template <class Make>
  void expect_one_result(bool score, Make&& make) {
    const outcome one = run(1, score, make);
    EXPECT_GT(one.numbers.size(), 10u);
    for (const int ranks : {2, 3, 4}) {
      const outcome many = run(ranks, score, make);
      EXPECT_TRUE(many.weights == one.weights) << ranks;
      EXPECT_EQ(many.numbers, one.numbers) << ranks;
    }
  }

  scratch::folder place_;
  tiny_model::files files_ = tiny_model::make(place_.path());
  text::tokenizer tokenizer_;
  train::preference_rows<train::preference_pair> pairs_;
  train::preference_rows<train::unpaired_row> unpaired_;
  train::preference_rows<train::judged_row> judged_, free_;
};

TEST_F(preference_in_shards, dpo) {
  expect_one_result(false, [&](auto* reference) {
    return train::dpo_task<cpu>({.loss = paper::dpo({.beta = 0.1}), .nll_loss_coef = 0.1, .pairs_per_pass = 2}, pairs_,
                                pairs_, reference);
  });
}

TEST_F(preference_in_shards, kto) {
  const train::row_rules rules{tokenizer_};
  expect_one_result(false, [&](auto* reference) {
    return train::kto_task<cpu>({.loss = kto_of_baseline, .beta = 0.1, .rows_per_pass = 2, .rows_per_step = 4}, rules,
                                unpaired_, unpaired_, reference);
  });
}

TEST_F(preference_in_shards, reward_models) {
  expect_one_result(
      true, [&](auto*) { return train::rm_task<cpu>({.loss = paper::rm(), .pairs_per_pass = 1}, pairs_, pairs_); });
}

TEST_F(preference_in_shards, process_reward_models) {
  expect_one_result(false, [&](auto*) { return train::prm_task<cpu>({{}, 2}, free_, free_); });
  expect_one_result(false, [&](auto*) { return train::prm_task<cpu>({{20, 21}, 2}, judged_, judged_); });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
