// What many ranks save goes on, to the same bits, on any other number of ranks and any other layout.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
namespace fs = std::filesystem;
using trainable_model = train::trainable_model<cpu>;
using floats = std::vector<float>;

struct setting {
  std::string name;
  bool score = false, lora = false, experts = false;
};
/// How a run is spread.
struct layout {
  int ranks = 1, zero = 0, shard_ranks = 0, tensor = 1, expert = 1;
};

class sharded : public testing::TestWithParam<setting> {
 protected:
  sharded() : files_(tiny_model::make(place_.path())) {
    if (!GetParam().experts) return;
    nn::config c = checkpoint::read_config(files_.model);
    c.model = nn::family::qwen3_moe;
    c.num_experts = 5, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
    c.attention_bias = c.tie_word_embeddings = false;
    cpu device(1);
    nn::causal_lm<cpu> model(device, c);
    model.initialize(11);
    checkpoint::write_config(files_.model, c);
    checkpoint::save_weights(files_.model, model.parameters(),
                             std::span<const float>(model.weights().data(), model.size()));
  }

  nn::config config() const {
    nn::config c = checkpoint::read_config(files_.model);
    if (GetParam().score) c.output = nn::model_output::score;
    c.tp_reduce_chunks = 2;  // sums as two tensor parallel ranks have them
    return c;
  }
  train::training_settings settings() const {
    train::training_settings s;
    if (GetParam().lora) s.lora = nn::lora_settings{3, 6, {"all-linear"}, 5};
    return s;
  }
  /// One optimizer step on eight sequences that are a function of `number`.
  void step(trainable_model& t, int number) const {
    t.begin_update();
    std::vector<std::vector<std::int32_t>> ids(8);
    for (int s = 0; s < 8; ++s)
      for (int i = 0; i < 5 + s; ++i) ids[static_cast<std::size_t>(s)].push_back((i * i + 7 * s + 31 * number) % 300);
    t.for_micro_batches(
        {.rows = 8, .max_rows = 2}, [&](std::uint32_t row) { return static_cast<std::int64_t>(ids[row].size()); },
        [&](std::span<const std::uint32_t> rows) {
          ragged<std::int32_t> sequences;
          nn::targets wanted;
          for (const std::uint32_t r : rows) {
            for (std::size_t i = 0; i < ids[r].size(); ++i) {
              wanted.row.push_back(static_cast<std::int32_t>(sequences.values.size() + i));
              wanted.token.push_back((3 * ids[r][i] + 1) % 300);
            }
            sequences.push_back(ids[r]);
          }
          if (GetParam().score)
            t.value_forward_backward(sequences, wanted.row, [](std::span<const float> value, std::span<float> slope) {
              for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = value[i] - 1;
            });
          else
            t.forward_backward(sequences, wanted, 1.0f, [](auto logp, auto, std::span<float> slope, auto) {
              for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -std::exp(logp[i]);
            });
        });
    EXPECT_FALSE(t.apply({.lr = 0.01, .grad_clip = 1.0}).skipped);
  }
  /// Runs f(trained model) on all ranks of a layout.
  template <class F>
  void on(const layout& l, F&& f, const train::training_settings& s, int leaves = 8) const {
    parallel::launch_settings how;
    how.thread_ranks = l.ranks;
    how.deadline = std::chrono::seconds(120);
    parallel::launch(how, [&](parallel::any_communicator& all) {
      cpu device(1);
      parallel::parallel_settings p;
      p.zero = l.zero, p.shard_ranks = l.shard_ranks, p.tensor = l.tensor, p.expert = l.expert, p.leaves = leaves;
      parallel::world world(all, p);
      trainable_model t(device, config(), s, &world);
      train::load_weights(t, files_.model);
      f(t);
    });
  }
  template <class F>
  void on(const layout& l, F&& f) const {
    on(l, std::forward<F>(f), settings());
  }
  /// Asked for by all ranks.
  static floats weights(trainable_model& t) {
    const auto whole = t.gather_full_params();
    return train::to_host(t.model.device(), std::as_const(t.model).weights());
  }
  void save(trainable_model& t, std::int64_t number) const {
    parallel::any_communicator& all = t.world()->all();
    checkpoint::save_step(all, place_ / "run", number, 0, [&](const fs::path& folder) {
      train::save_checkpoint(t, folder, files_.model, {{"mine", number}});
    });
  }

  scratch::folder place_;
  tiny_model::files files_;
};

// 4 -> 2 -> 3 -> 1 and so on: after each step the run moves to another layout, and ends where one that never moved
// does.
TEST_P(sharded, a_run_moves_from_layout_to_layout) {
  std::vector<layout> journey{{4, 3}, {2, 1}, {3, 2}, {1, 0}, {4, 1, 2}, {2, 0}, {1, 3}, {3, 3}};
  if (!GetParam().lora) journey[4] = {4, 3, 0, 2}, journey[5] = {2, 0, 0, 2};
  if (GetParam().experts)
    journey[0] = {4, 3, 0, 1, 2}, journey[1] = {2, 1, 0, 1, 2}, journey[2] = {3, 0, 0, 1, 3},
    journey[5] = {4, 1, 0, 2, 2}, journey[6] = {4, 2, 0, 1, 4};
  floats expected, found;
  on({1, 0}, [&](trainable_model& t) {
    for (int i = 0; i < static_cast<int>(journey.size()); ++i) step(t, i);
    expected = weights(t);
  });
  for (int i = 0; i < static_cast<int>(journey.size()); ++i)
    on(journey[static_cast<std::size_t>(i)], [&](trainable_model& t) {
      if (i > 0) {
        const auto [extra, notice] = train::restore_checkpoint(t, checkpoint::find_latest(place_ / "run").folder);
        EXPECT_EQ(extra.integer("mine"), i);
        EXPECT_EQ(t.optimizer().steps(), i);
        EXPECT_EQ(notice, "");
      }
      step(t, i);
      save(t, i + 1);
      const floats now = weights(t);
      if (t.world()->first()) found = now;
    });
  EXPECT_EQ(found, expected);
  const fs::path one = place_ / "run" / "global_step_4", many = place_ / "run" / "global_step_8";
  EXPECT_TRUE(fs::exists(one / "optim.safetensors") && fs::exists(one / "huggingface" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(one / "shards"));
  EXPECT_FALSE(fs::exists(many / "optim.safetensors") || fs::exists(many / "huggingface" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(many / "huggingface" / "tokenizer.json"));
  EXPECT_EQ(fs::exists(many / "lora_adapter"), GetParam().lora);
}

TEST_P(sharded, whole_weights_on_request) {
  train::training_settings s = settings();
  s.save_whole = true;
  floats expected, moments;
  on(
      {3, 3},
      [&](trainable_model& t) {
        step(t, 0);
        save(t, 1);
        const floats now = weights(t);
        if (t.world()->first()) expected = now;
      },
      s);
  const fs::path folder = place_ / "run" / "global_step_1";
  EXPECT_TRUE(fs::exists(folder / "huggingface" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "passing_shards"));
  parallel::launch_settings two;
  two.thread_ranks = 2;
  two.deadline = std::chrono::seconds(60);
  if (!GetParam().lora)  // the other ranks hear of every block
    parallel::launch(two, [&](parallel::any_communicator& all) {
      fs::create_directories(place_ / "again" / "huggingface");
      train::save_weights_of_shards(all, place_ / "again", folder / "shards", 1);
      EXPECT_GT(all.counters().of(parallel::collective::broadcast).calls, 5u);
    });
  cpu device(1);
  trainable_model model(device, checkpoint::read_config(folder / "huggingface"), {});
  train::load_weights(model, folder / "huggingface");
  EXPECT_EQ(weights(model), expected);
  if (GetParam().lora) return;
  fs::remove(folder / "huggingface" / "model.safetensors");  // the same from the shards
  trainable_model other(device, checkpoint::read_config(folder / "huggingface"), {});
  train::load_weights(other, checkpoint::resolve_model(folder.string()));
  EXPECT_EQ(weights(other), expected);
}

TEST_P(sharded, other_leaves_are_told) {
  on({2, 1}, [&](trainable_model& t) {
    step(t, 0);
    save(t, 1);
  });
  const fs::path folder = place_ / "run" / "global_step_1";
  const auto notice = [&](const layout& l, int leaves) {
    std::string text;
    on(
        l,
        [&](trainable_model& t) {
          const std::string here = train::restore_checkpoint(t, folder).notice;
          if (t.world()->first()) text = here;
        },
        settings(), leaves);
    return text;
  };
  const std::string text = notice({1, 0}, 4);
  EXPECT_NE(text.find("gradient_leaves=8, this run goes on with 4"), std::string::npos) << text;
  EXPECT_EQ(notice({1, 0}, 8), "");
}

INSTANTIATE_TEST_SUITE_P(trainable_model, sharded,
                         testing::Values(setting{"causal"}, setting{"score", true}, setting{"causal_lora", false, true},
                                         setting{"experts", false, false, true}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace RLCORE_TEST_ID
