// Whole optimizer steps of meshes with pipeline stages, on threads: weights, moments, norms and log-probs of one rank
// to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::parallel_settings;
using parallel::reduction_kind;

struct task {
  nn::family family = nn::family::qwen2;
  bool tied = true, score = false, recompute = false, balances = false, adapters = false;
  int rows = 11, steps = 3, poisoned = -1;  ///< step whose gradient is not finite
  std::int64_t max_rows = 2;
  int layers = 4;
  std::vector<std::string> modules = {"all-linear"};  ///< of adapters
  int thrower = -1, pass = 0;                         ///< the rank that fails in its forward of this pass
};

nn::config model_of(const task& t) {
  nn::config c;
  c.model = t.family;
  c.vocab_size = 301, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = t.layers;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8;
  c.tie_word_embeddings = t.tied, c.attention_bias = t.family == nn::family::qwen2;
  c.initializer_range = 0.2;
  if (t.family == nn::family::qwen3_moe) c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  if (t.score) c.output = nn::model_output::score;
  return c;
}

struct result {
  std::map<std::string, std::vector<float>> weights, m, v;  ///< whole tensors
  std::vector<double> norms;
  std::vector<bool> skipped;
  std::vector<float> logp, reported;
};

/// Copies the values of a rank's part of a tensor to their place; ranks that have the same must have the same bits.
void put(std::vector<float>& to, const parallel::shard_piece& piece, const float* values) {
  to.resize(parallel::elements_of(piece.shape), std::numeric_limits<float>::quiet_NaN());
  parallel::for_each_overlap(piece, parallel::whole_tensor(piece.tensor, piece.shape),
                             [&](std::size_t from, std::size_t at, std::size_t count) {
                               for (std::size_t i = 0; i < count; ++i) {
                                 float& known = to[at + i];
                                 if (std::isnan(known)) known = values[from + i];
                                 EXPECT_EQ(known, values[from + i]) << piece.tensor;
                               }
                             });
}

std::vector<std::int32_t> row_of(std::uint32_t r) {
  std::vector<std::int32_t> ids;
  for (std::uint32_t n = 0; n < 3 + 7 * r % 23; ++n)
    ids.push_back(static_cast<std::int32_t>(random_key{3}.below(301, r, n)));
  return ids;
}

/// One optimizer step over rows of unequal lengths; every fourth row has no gradient. Returns the sum of all log-probs
/// or values, as losses report it.
float step(train::trainable_model<cpu>& t, const task& what, int number, result& r, bool first) {
  float sum = 0;
  int passes = 0;
  t.begin_update();
  t.for_micro_batches(
      {.rows = static_cast<std::size_t>(what.rows), .max_rows = what.max_rows},
      [&](std::uint32_t i) { return row_of(i).size(); },
      [&](std::span<const std::uint32_t> some) {
        if (t.strategy().rank() == what.thrower && passes++ == what.pass) throw error("no memory left");
        train::packed_answers batch;  // every token but the first of a row is a target
        std::vector<float> factor;
        for (const std::uint32_t i : some) {
          batch.push_back(row_of(i), 1);
          factor.resize(batch.targets.row.size(), i % 4 == 2 ? 0.0f : -0.01f);
          if (i == 3 && number == what.poisoned) factor.back() = std::numeric_limits<float>::infinity();
        }
        const auto slopes = [&](std::span<const float> x, std::span<float> dx) {
          for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = factor[i] * std::exp(0.01f * x[i]), sum += x[i];
        };
        if (what.score)
          t.value_forward_backward(batch.inputs, batch.targets.row, slopes);
        else
          t.forward_backward(batch.inputs, batch.targets, 1.0f,
                             [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp,
                                 std::span<float>) { slopes(logp, dlogp); });
      });
  const train::step_outcome outcome = t.apply({.lr = 1e-2, .grad_clip = 0.01});
  if (first) r.norms.push_back(outcome.gradient_norm), r.skipped.push_back(outcome.skipped);
  return sum;
}

void score(train::trainable_model<cpu>& t, const task& what, parallel::world& w, result& r) {
  std::vector<float> all;
  for (std::uint32_t first = 0; first < 6; first += 2) {
    train::packed_answers batch;
    for (std::uint32_t i = first; i < first + 2; ++i) batch.push_back(row_of(i), 1);
    std::vector<float> logp(batch.targets.row.size()), entropy(logp.size());
    if (what.score)
      nn::values(t.model, t.space, batch.inputs, batch.targets.row, logp);
    else
      nn::log_probs(t.model, t.space, batch.inputs, batch.targets, 0.7f, logp, entropy);
    all.insert(all.end(), logp.begin(), logp.end());
    all.insert(all.end(), entropy.begin(), entropy.end());
  }
  parallel::broadcast_from_last_stage(w, std::span(all));
  if (r.logp.empty()) r.logp = all;
  EXPECT_EQ(r.logp, all);
}

result train(int ranks, const parallel_settings& how, const task& what = {}) {
  result r;
  std::mutex writing;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(20);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    train::training_settings s;
    s.adamw.weight_decay = 0.1, s.recompute = what.recompute, s.decay_norms_and_biases = false;
    if (what.balances) s.router_aux_loss = 0.1;
    if (what.adapters) s.lora = nn::lora_settings{4, 8, what.modules};
    train::trainable_model<cpu> t(device, model_of(what), s, &world);
    {
      const auto whole = t.gather_full_params();
      t.model.initialize(11);
    }
    if (what.adapters) t.attach_adapters({});
    for (int number = 0; number < what.steps; ++number) {
      float sum = step(t, what, number, r, all.rank() == 0);
      parallel::sum_over_ranks(world, sum);
      if (all.rank() == 0) r.reported.push_back(sum);
    }
    const std::vector<float> m = train::to_host(device, t.optimizer().m()),
                             v = train::to_host(device, t.optimizer().v());
    const std::lock_guard<std::mutex> lock(writing);
    std::set<std::string> names;
    for (const nn::parameter& p : t.passing().parameters()) {
      EXPECT_TRUE(names.insert(p.name).second) << p.name;
      put(r.weights[p.name], nn::piece_of(p), t.passing().weights().data() + p.offset);
    }
    if (what.adapters)
      for (const nn::parameter& p : t.held())
        put(r.weights[p.name], nn::piece_of(p), t.adapter()->values().data() + p.offset);
    for (const train::owned_run& run : train::owned_runs(t.held(), t.pieces())) {
      put(r.m[run.piece.tensor], run.piece, m.data() + run.moments);
      put(r.v[run.piece.tensor], run.piece, v.data() + run.moments);
    }
  });
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    train::trainable_model<cpu> t(device, model_of(what), {}, &world);
    {
      const auto whole = t.gather_full_params();
      t.model.initialize(11);
    }
    static std::mutex one;
    result mine;
    score(t, what, world, mine);
    const std::lock_guard<std::mutex> lock(one);
    if (r.logp.empty()) r.logp = mine.logp;
    EXPECT_EQ(r.logp, mine.logp);
  });
  return r;
}

void expect_same(const result& a, const result& b) {
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.skipped, b.skipped);
  EXPECT_EQ(a.logp, b.logp);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto values : {&result::weights, &result::m, &result::v})
    for (const auto& [name, x] : a.*values) {
      const auto other = (b.*values).find(name);
      ASSERT_NE(other, (b.*values).end()) << name;
      EXPECT_EQ(x, other->second) << name;
    }
}

parallel_settings staged(int stages, parallel_settings s = {.zero = 0}) {
  s.pipeline.stages = stages;
  if (stages == 3) s.pipeline.first = 1, s.pipeline.last = 1;
  return s;
}

TEST(pipeline, tied_model_has_the_bits_of_one_rank) {
  const result one = train(1, {.zero = 0});
  for (const int stages : {2, 3, 4}) {
    SCOPED_TRACE(stages);
    const result some = train(stages, staged(stages));
    expect_same(one, some);
    EXPECT_EQ(one.reported, some.reported);
  }
  expect_same(one, train(4, staged(2)));               // 2 data ranks
  expect_same(one, train(6, staged(3, {.zero = 1})));  // moments are shared by 2
}

/// Context parallel ranks add up in an order of their own.
TEST(pipeline, context_parallel_stages) {
  for (const parallel::context_kind kind : {parallel::context_kind::gather_kv, parallel::context_kind::ring}) {
    const parallel_settings context{.context = 2, .how_context = kind, .zero = 0};
    expect_same(train(2, context), train(4, staged(2, context)));
  }
}

TEST(pipeline, untied_model_and_recomputation) {
  const task what{.family = nn::family::qwen3, .tied = false};
  const result one = train(1, {.zero = 0}, what);
  task again = what;
  again.recompute = true;
  expect_same(one, train(2, staged(2), what));
  expect_same(one, train(8, staged(4, {.zero = 1}), again));
}

TEST(pipeline, tensor_parallel_stages) {
  const task what{.tied = true};
  const result one = train(1, {.zero = 0, .tp_reduce_chunks = 2}, what);
  expect_same(one, train(4, staged(2, {.tensor = 2, .zero = 0, .tp_reduce_chunks = 2}), what));
  expect_same(one,
              train(4, staged(2, {.tensor = 2, .sequence_parallel = true, .zero = 1, .tp_reduce_chunks = 2}), what));
}

TEST(pipeline, experts_and_their_load) {
  task what{.family = nn::family::qwen3_moe, .tied = false};
  expect_same(train(1, {.zero = 0}, what), train(2, staged(2), what));
  what.balances = true;
  expect_same(train(1, {.zero = 0}, what), train(4, staged(2), what));
}

TEST(pipeline, expert_parallel_stages) {
  task what{.family = nn::family::qwen3_moe, .tied = false};
  const result one = train(1, {.zero = 0}, what);
  expect_same(one, train(4, staged(2, {.expert = 2, .zero = 0}), what));
  expect_same(one, train(8, staged(2, {.expert = 2, .zero = 1}), what));
  what.balances = true, what.recompute = true;
  expect_same(train(1, {.zero = 0}, what), train(6, staged(3, {.expert = 2, .zero = 1}), what));
  expect_same(train(2, {.context = 2, .zero = 0}, what),
              train(4, staged(2, {.context = 2, .expert = 2, .zero = 0}), what));
}

/// The published layout of Qwen3-235B in small: uneven ends, tensor and expert parallel ranks, sequence parallelism.
TEST(pipeline, all_axes_together) {
  const task what{.family = nn::family::qwen3_moe, .tied = false, .recompute = true, .steps = 2, .layers = 8};
  parallel_settings s{.tensor = 2, .expert = 2, .sequence_parallel = true, .zero = 1, .tp_reduce_chunks = 2};
  s.pipeline = {.stages = 4, .first = 1, .last = 1};
  expect_same(train(1, {.zero = 0, .tp_reduce_chunks = 2}, what), train(16, s, what));
}

TEST(pipeline, score_model) {
  const task what{.tied = false, .score = true};
  expect_same(train(1, {.zero = 0}, what), train(3, staged(3), what));
}

TEST(pipeline, adapters) {
  const task what{.adapters = true};
  const result one = train(1, {.zero = 0}, what);
  EXPECT_EQ(one.m.size(), 2u * 4 * 7) << "A and B of the linear layers alone have moments";
  for (const int stages : {2, 3, 4}) expect_same(one, train(stages, staged(stages), what));
  expect_same(one, train(6, staged(3, {.zero = 1}), what));
  const task untied{.tied = false, .score = true, .recompute = true, .adapters = true};
  expect_same(train(1, {.zero = 0}, untied), train(4, staged(2, {.zero = 1}), untied));
  expect_same(train(1, {.zero = 0, .tp_reduce_chunks = 2}, what),
              train(4, staged(2, {.tensor = 2, .zero = 0, .tp_reduce_chunks = 2}), what));
  expect_same(train(2, {.context = 2, .zero = 0}, what), train(4, staged(2, {.context = 2, .zero = 0}), what));
  const parallel_settings exact{.zero = 0, .reduction = reduction_kind::exact};
  expect_same(train(1, exact, what), train(4, staged(2, exact), what));
  task few = what;
  few.modules = {"model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj"};  // the last stage has none
  expect_same(train(1, {.zero = 0}, few), train(4, staged(2), few));
  expect_same(train(1, {.zero = 0}, few), train(8, staged(4, {.zero = 1}), few));
  few.score = true, few.tied = false;
  expect_same(train(1, {.zero = 0}, few), train(2, staged(2), few));
  const task experts{.family = nn::family::qwen3_moe, .tied = false, .balances = true, .adapters = true};
  expect_same(train(1, {.zero = 0}, experts), train(2, staged(2), experts));
}

TEST(pipeline, other_orders_of_sums) {
  for (const reduction_kind kind : {reduction_kind::exact, reduction_kind::ranked}) {
    const result one = train(1, {.zero = 0, .reduction = kind});
    expect_same(one, train(2, staged(2, {.zero = 0, .reduction = kind})));
  }
}

TEST(pipeline, leaves_and_ranks_without_rows) {
  const task few{.rows = 3, .max_rows = 0};
  const result one = train(1, {.zero = 0}, few);
  expect_same(one, train(2, staged(2), few));
  expect_same(one, train(10, staged(2), few));  // 5 data ranks for 3 rows
}

TEST(pipeline, skips_a_step_that_is_not_finite_on_all_stages) {
  const task what{.poisoned = 1};
  const result one = train(1, {.zero = 0}, what), two = train(2, staged(2), what);
  EXPECT_EQ(one.skipped, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(two.skipped, one.skipped);
  EXPECT_EQ(two.weights, one.weights);
}

TEST(pipeline, a_stage_that_fails_ends_all) {
  for (int stage = 0; stage < 3; ++stage)
    for (const int pass : {0, 4}) {
      const auto begin = std::chrono::steady_clock::now();
      try {
        train(3, staged(3), {.thrower = stage, .pass = pass});
        ADD_FAILURE() << "stage " << stage;
      } catch (const error& e) {
        EXPECT_STREQ(e.what(), "no memory left");
      }
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    }
}

TEST(pipeline, refusals) {
  const auto refusal = [](int ranks, const parallel_settings& s, const task& what = {}) -> std::string {
    try {
      train(ranks, s, what);
    } catch (const config_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal(2, staged(2, {.zero = 3})).find("expected 0 or 1"), std::string::npos);
  EXPECT_NE(refusal(3, staged(2)).find("2 pipeline"), std::string::npos);
  EXPECT_NE(refusal(8, staged(8)).find("more stages than the 4 layers"), std::string::npos);
  EXPECT_NE(refusal(2, staged(2), {.layers = 5}).find("5 layers over 2 stages: 5 % 2 = 1"), std::string::npos);
}

/// A folder of the whole model serves every stage, unless it has tensors that no stage has.
TEST(pipeline_model, stages_read_their_part_of_a_folder) {
  const scratch::folder place;
  cpu device(1);
  for (const bool tied : {true, false}) {
    const nn::config c = model_of({.tied = tied});
    nn::causal_lm<cpu> whole(device, c);
    whole.initialize(5);
    const auto save = [&](const char* name, const std::string& further) {
      std::vector<float> values = train::to_host(device, whole.weights());
      std::vector<nn::parameter> parameters(whole.parameters().begin(), whole.parameters().end());
      if (!further.empty()) {
        parameters.push_back({further, {1}, values.size(), 1});
        values.push_back(0);
      }
      const auto folder = place.path() / (name + std::to_string(tied));
      std::filesystem::create_directories(folder);
      checkpoint::save_weights(folder, parameters, values);
      return folder;
    };
    const auto right = save("right", ""), foreign = save("foreign", "model.layers.0.self_attn.q_norm.weight"),
               deeper = save("deeper", "model.layers.4.input_layernorm.weight");
    for (int stage = 0; stage < 2; ++stage) {
      nn::partition part;
      part.stage = {stage, 2, 2 * stage, 2 * stage + 2};
      nn::causal_lm<cpu> model(device, c, part);
      train::load_model(model, right);
      const nn::parameter& p = model.parameters()[3];
      const auto same = std::ranges::find(whole.parameters(), p.name, &nn::parameter::name);
      EXPECT_EQ(std::memcmp(model.weights().data() + p.offset, whole.weights().data() + same->offset, 4 * p.size), 0);
      EXPECT_THROW(train::load_model(model, foreign), format_error);
      EXPECT_THROW(train::load_model(model, deeper), format_error);
      EXPECT_THROW(train::save_model(place.path() / "saved", model, right), std::logic_error);
      EXPECT_FALSE(std::filesystem::exists(place.path() / "saved"));
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
