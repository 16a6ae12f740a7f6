// Training on rows with and without images: the bits of one rank whatever ranks share; frozen towers; adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;
using tiny_vision::prompt;

struct task {
  int rows = 9;
  std::int64_t max_rows = 0;
  bool tied = true, score = false, frozen = false, recompute = true, images = true;
  int steps = 2;
  double clip = 0.5;
};

struct result {
  std::map<std::string, floats> weights;  ///< whole tensors
  std::vector<double> norms;
  floats logp, scored;  ///< of the last step: in training, and by scoring before it
  floats moments;       ///< of visual.*
  bool operator==(const result&) const = default;
};

/// Rows with none, one and three images. All tokens that are words are targets.
struct batch {
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> images;
  nn::targets wanted;
  floats factor;

  void push_back(const prompt& p, std::uint32_t number) {
    for (std::size_t t = 1; t < p.tokens.size(); ++t) {
      if (p.tokens[t] == tiny_vision::image) continue;
      wanted.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
      wanted.token.push_back(p.tokens[t]);
      factor.push_back(number % 5 == 4 ? 0.0f : 0.1f);  // every fifth row is masked as a whole
    }
    tokens.push_back(p.tokens);
    images.push_back(p.images);
  }
  nn::input input() const { return {tokens, images}; }
};

template <class Model>
void step(Model& t, const task& of, const std::vector<prompt>& rows, floats& logp) {
  logp.clear();
  t.begin_update();
  t.for_micro_batches(
      {.rows = rows.size(), .max_rows = of.max_rows}, [&](std::uint32_t i) { return rows[i].tokens.size(); },
      [&](std::span<const std::uint32_t> some) {
        batch b;
        for (const std::uint32_t i : some) b.push_back(rows[i], i);
        if (of.score)
          return t.value_forward_backward(b.input(), b.wanted.row,
                                          [&](std::span<const float> value, std::span<float> slope) {
                                            for (std::size_t i = 0; i < slope.size(); ++i)
                                              slope[i] = b.factor[i] * (value[i] - 1);
                                          });
        t.forward_backward(b.input(), b.wanted, 1.0f,
                           [&](auto p, auto, std::span<float> slope, std::span<float> bonus) {
                             logp.insert(logp.end(), p.begin(), p.end());
                             for (std::size_t i = 0; i < slope.size(); ++i)
                               slope[i] = -b.factor[i] * std::exp(p[i]), bonus[i] = slope[i];
                           });
      });
}

/// Log-probs of all rows in groups of two; every rank scores all of them.
template <class Model>
floats score(Model& t, const std::vector<prompt>& rows) {
  floats all;
  train::for_each_scored_group(
      {t.passing().units()}, rows.size(), 2, 0, [&](std::size_t i) { return rows[i].tokens.size(); },
      [&](std::size_t first, std::size_t last) {
        batch b;
        for (std::size_t i = first; i < last; ++i) b.push_back(rows[i], 0);
        floats part(b.wanted.row.size());
        nn::log_probs(t.passing(), t.space, b.input(), b.wanted, 1.0f, part, {});
        all.insert(all.end(), part.begin(), part.end());
      });
  return all;
}

result train(int ranks, parallel::parallel_settings how, const task& of = {}) {
  result r;
  std::mutex writing;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks, threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    train::training_settings s;
    s.adamw.weight_decay = 0.1, s.recompute = of.recompute, s.freeze_vision_tower = of.frozen;
    s.decay_norms_and_biases = false;
    if (ranks > 1) s.long_pass_tokens = 1;  // weights packed unit by unit, to the same bits
    nn::config c = tiny_vision::config();
    c.tie_word_embeddings = of.tied, c.initializer_range = 0.1;
    if (of.score) c.output = nn::model_output::score;
    train::trainable_model<cpu> t(device, c, s, &world);
    {
      const auto whole = t.gather_full_params();
      t.model.initialize(7);
    }
    std::vector<prompt> rows;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(of.rows); ++i)
      rows.push_back(of.images ? tiny_vision::row(i) : prompt(i, {}));
    floats logp, scored;
    for (int n = 0; n < of.steps; ++n) {
      if (n + 1 == of.steps && !of.score) scored = score(t, rows);
      step(t, of, rows, logp);
      const train::step_outcome outcome = t.apply({.lr = 1e-2, .grad_clip = of.clip});
      EXPECT_FALSE(outcome.skipped);
      if (all.rank() == 0) r.norms.push_back(outcome.gradient_norm);
    }
    const auto whole = t.gather_full_params();
    const std::lock_guard<std::mutex> lock(writing);
    if (all.rank() == 0) {
      r.logp = logp, r.scored = scored;
      for (const train::owned_run& run : train::owned_runs(t.held(), t.pieces()))
        if (run.piece.tensor.starts_with("visual."))
          for (std::size_t i = 0; i < run.piece.size(); ++i)
            r.moments.push_back(std::abs(t.optimizer().m().data()[run.moments + i]) +
                                t.optimizer().v().data()[run.moments + i]);
    }
    for (const nn::parameter& p : t.model.parameters()) {
      std::size_t size = 1;
      for (const std::int64_t n : p.whole_shape()) size *= static_cast<std::size_t>(n);
      floats& values = r.weights[p.name];
      const bool first = values.empty();
      values.resize(size);
      p.for_runs([&](std::size_t at, std::uint64_t to, std::size_t count) {
        const float* own = std::as_const(t.model).weights().data() + p.offset + at;
        if (!first && !p.split()) {
          EXPECT_EQ(std::memcmp(values.data() + to, own, count * sizeof(float)), 0) << p.name;
        }
        std::memcpy(values.data() + to, own, count * sizeof(float));
      });
    }
  });
  return r;
}

parallel::parallel_settings how(int zero) {
  parallel::parallel_settings s;
  s.zero = zero, s.reduction = parallel::reduction_kind::tree;
  return s;
}

void expect_same(const result& a, const result& b, const std::string& where) {
  for (const auto& [name, values] : a.weights) EXPECT_EQ(values, b.weights.at(name)) << name << ", " << where;
  EXPECT_EQ(a.norms, b.norms) << where;
}

floats sorted(floats values) {
  std::ranges::sort(values);
  return values;
}

bool is_visual(const std::string& name) { return name.starts_with("visual."); }

TEST(vision_model, has_the_weights_of_one_rank_on_any_number_of_them_in_any_stage) {
  const result one = train(1, how(0));
  EXPECT_EQ(sorted(one.logp), sorted(one.scored));  // leaves have rows in another order
  for (const int ranks : {1, 2, 4})
    for (int zero = ranks == 1 ? 1 : 0; zero < 4; ++zero) {
      const result many = train(ranks, how(zero));
      expect_same(many, one, std::to_string(ranks) + " ranks, zero " + std::to_string(zero));
      EXPECT_EQ(many.scored, one.scored);
    }
  // Four ranks for three rows: one has nothing, one has no image.
  const result few = train(1, how(3), {.rows = 3});
  for (int zero = 0; zero < 4; ++zero) expect_same(train(4, how(zero), {.rows = 3}), few, "three rows");
}

TEST(vision_model, shows_neither_micro_batches_nor_what_stays_in_memory) {
  for (const task& each : {task{}, task{.tied = false}, task{.score = true}, task{.images = false}}) {
    task of = each;
    const result one = train(1, how(0), of);
    of.recompute = false;
    expect_same(train(1, how(0), of), one, "no recompute");
    for (const std::int64_t rows : {1, 2})
      for (const int zero : {2, 3}) {
        of.max_rows = rows;
        expect_same(train(2, how(zero), of), one, std::to_string(rows) + " rows, zero " + std::to_string(zero));
      }
    parallel::parallel_settings s = how(3);
    s.reshard_after_forward = false;
    expect_same(train(3, s, of), one, "layers stay");
  }
}

TEST(vision_model, tensor_parallel_ranks_count_the_gradient_of_the_tower_once) {
  const auto mesh = [](int tensor, int zero, bool sequence) {
    parallel::parallel_settings s = how(zero);
    s.tensor = tensor, s.sequence_parallel = sequence, s.tp_reduce_chunks = 2;
    return s;
  };
  const result one = train(1, mesh(1, 0, false));
  for (const bool sequence : {false, true}) {
    expect_same(train(2, mesh(2, 0, sequence)), one, sequence ? "sequence" : "tensor");
    expect_same(train(4, mesh(2, 3, sequence)), one, sequence ? "data, sequence" : "data, tensor");
  }
}

TEST(vision_model, a_frozen_tower_has_no_gradient_no_moment_and_no_share_of_the_norm) {
  const task open{.steps = 1, .clip = 0};
  task frozen = open;
  frozen.frozen = true;
  const result free = train(1, how(0), open), held = train(1, how(0), frozen), before = train(1, how(0), {.steps = 0});
  EXPECT_LT(held.norms[0], free.norms[0]);
  EXPECT_EQ(std::ranges::count(held.moments, 0.0f), std::ssize(held.moments));
  EXPECT_NE(std::ranges::count(free.moments, 0.0f), std::ssize(free.moments));
  for (const auto& [name, values] : held.weights) {
    EXPECT_EQ(values, (is_visual(name) ? before : free).weights.at(name)) << name;
    if (is_visual(name)) {
      EXPECT_NE(free.weights.at(name), values) << name;
    }
  }
  frozen.steps = 2, frozen.clip = 0.1;
  const result one = train(1, how(0), frozen);
  for (const int zero : {0, 1, 2, 3}) expect_same(train(2, how(zero), frozen), one, "zero " + std::to_string(zero));
  try {
    cpu device(1);
    nn::config words = tiny_vision::config();
    words.vision.reset();
    train::training_settings s;
    s.freeze_vision_tower = true;
    parallel::launch({}, [&](parallel::any_communicator& all) {
      parallel::world world(all, {});
      train::trainable_model<cpu>(device, words, s, &world);
    });
    ADD_FAILURE();
  } catch (const config_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("no vision tower"));
  }
}

/// W = base + s B A, so dB = s dW A^T.
TEST(vision_model, a_frozen_tower_has_no_adapters) {
  parallel::launch({}, [&](parallel::any_communicator& all) {
    parallel::world world(all, {});
    cpu device(1);
    train::training_settings s;
    s.lora = nn::lora_settings{3, 6, {"all-linear"}, 5};
    for (const bool frozen : {false, true}) {
      s.freeze_vision_tower = frozen;
      const train::trainable_model<cpu> t(device, tiny_vision::config(), s, &world);
      EXPECT_EQ(t.adapter()->adapts_tower(), !frozen);
      EXPECT_EQ(t.model.trains_tower(), !frozen);
      EXPECT_GE(t.adapter()->projections().size(), 2u * 7);
    }
  });
}

TEST(vision_model, adapters_have_the_gradient_of_their_weights) {
  cpu device(1);
  for (const bool of_tower : {false, true}) {
    nn::causal_lm<cpu> model(device, tiny_vision::config());
    model.initialize(3);
    nn::lora_settings settings{3, 6, {"all-linear"}, 5};
    if (!of_tower) settings.excluded = [](const std::string& module) { return module.find("visual") != module.npos; };
    nn::lora<cpu> adapter(model, settings);
    EXPECT_EQ(adapter.adapts_tower(), of_tower);
    adapter.attach(model);
    const std::vector<prompt> rows = tiny_vision::prompts(3);
    batch b;
    for (std::uint32_t i = 0; i < 3; ++i) b.push_back(rows[i], i);
    nn::workspace<cpu> space(device);
    const auto train = [&](auto& gradients) {
      nn::forward_backward(model, space, gradients, b.input(), b.wanted, 1.0f, true,
                           [](auto, auto, std::span<float> slope, auto) { std::ranges::fill(slope, 0.1f); });
    };
    nn::gradients<cpu> all(model);
    train(all);
    model.freeze_tower(!of_tower);
    nn::lora_gradients<cpu> some(model, adapter);
    train(some);
    for (const nn::parameter& p : adapter.parameters()) EXPECT_TRUE(of_tower || !is_visual(p.name)) << p.name;
    for (const auto& p : adapter.projections())
      for (extent_t o = 0; o < p.outputs; ++o)
        for (extent_t r = 0; r < 3; ++r) {
          double sum = 0;
          for (extent_t i = 0; i < p.inputs; ++i)
            sum += 2.0 * static_cast<double>(all.data()[p.weight + static_cast<std::size_t>(o * p.inputs + i)]) *
                   static_cast<double>(adapter.values().data()[p.a + static_cast<std::size_t>(r * p.inputs + i)]);
          ASSERT_NEAR(static_cast<double>(some.data()[p.b + static_cast<std::size_t>(o * 3 + r)]), sum, 1e-4);
        }
  }
}

class vision_model_context : public testing::TestWithParam<parallel::context_kind> {};

TEST_P(vision_model_context, ranks_share_sequences_with_images) {
  const auto mesh = [](int context, int zero) {
    parallel::parallel_settings s;
    s.context = context, s.zero = zero, s.how_context = GetParam();
    return s;
  };
  const result one = train(1, {}), two = train(2, mesh(2, 0));
  ASSERT_EQ(two.logp.size(), one.logp.size());
  for (std::size_t i = 0; i < one.logp.size(); ++i) EXPECT_NEAR(two.logp[i], one.logp[i], 1e-4);
  EXPECT_EQ(sorted(two.logp), sorted(two.scored));
  EXPECT_EQ(train(2, mesh(2, 0), {.steps = 1}).logp, train(1, {}, {.steps = 1}).logp);
  for (std::size_t i = 0; i < one.norms.size(); ++i) EXPECT_NEAR(two.norms[i] / one.norms[i], 1, 1e-5);
  double difference = 0, size = 0, visual = 0, visual_size = 0;
  for (const auto& [name, values] : one.weights)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double here = static_cast<double>(values[i]), there = static_cast<double>(two.weights.at(name)[i]);
      (is_visual(name) ? visual : difference) += (here - there) * (here - there);
      (is_visual(name) ? visual_size : size) += here * here;
    }
  EXPECT_LE(std::sqrt(difference / size), 1e-4);
  EXPECT_LE(std::sqrt(visual / visual_size), 1e-4);
  expect_same(train(2, mesh(2, 3)), two, "zero 3");
  expect_same(train(4, mesh(2, 3)), two, "data 2, zero 3");
}

INSTANTIATE_TEST_SUITE_P(kinds, vision_model_context,
                         testing::Values(parallel::context_kind::gather_kv, parallel::context_kind::ring,
                                         parallel::context_kind::ulysses));

}  // namespace
}  // namespace RLCORE_TEST_ID
