// Stages of a pipeline in a plan: divisions, memory by hand, bubbles, what is refused, and the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/search.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train::planning;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int64_t> layers_of(const model_shape& m, const layout& l) {
  std::vector<std::int64_t> counts;
  for (const pipeline_part& part : pipeline_parts(m, l)) counts.push_back(part.layers);
  return counts;
}

layout in_stages(parallel::pipeline_division d) {
  layout l;
  l.pipeline = d, l.zero = 0;
  return l;
}

std::string plan(const std::vector<std::string>& arguments) {
  return run_plan(train::options::parse(arguments, train::plan_registry()));
}

TEST(pipeline_planning, stages_have_the_layers_that_trainers_give_them) {
  const model_shape& big = *find_known_model("Qwen3-235B-A22B");
  const layout published = in_stages({.stages = 8, .first = 11, .last = 11});
  EXPECT_THAT(layers_of(big, published), ElementsAre(11, 12, 12, 12, 12, 12, 12, 11));
  // What is searched has the ends that trainers suggest, and nothing else where all stages have equally many layers.
  const parallel::pipeline_division searched = searched_division(big, {.stages = 8});
  EXPECT_EQ(searched.first, 11);
  EXPECT_EQ(searched.last, 11);
  EXPECT_FALSE(searched_division(*find_known_model("Qwen2.5-72B"), {.stages = 8}).first);
  EXPECT_EQ(searched_division(big, {.stages = 8, .first = 24}).last, std::nullopt);
  for (const char* name : {"Qwen2.5-7B", "Qwen3-235B-A22B", "Qwen3-0.6B"})
    for (const std::int64_t stages : {1, 2, 4, 8}) {
      const model_shape& m = *find_known_model(name);
      layout l = in_stages(searched_division(m, {.stages = static_cast<int>(stages)}));
      l.tensor = 4;
      double all = 0;
      for (const pipeline_part& part : pipeline_parts(m, l)) all += local_sizes(m, 4, 1, part).total();
      EXPECT_EQ(all, local_sizes(m, 4, 1).total()) << name << stages;
      EXPECT_EQ(l.devices(), 4 * stages);
    }
  EXPECT_EQ(published.text(), "zero0 data 1 stages 8");
}

/// 592 parameters a layer, 800 of an embedding; four rows of eight tokens, each a micro-batch and a leaf.
model_shape small(bool tied) {
  return {.name = "small",
          .vocab_size = 100,
          .hidden_size = 8,
          .intermediate_size = 16,
          .layers = 4,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 4,
          .tied = tied};
}
workload four_rows() {
  workload w;
  w.prompts = 4, w.responses = 1, w.prompt_length = 6, w.response_length = 2, w.micro_tokens = 8;
  return w;
}

TEST(pipeline_planning, memory_of_two_stages) {
  const model_shape m = small(false);
  const workload w = four_rows();
  const cluster c = find_cluster("H100");
  const layout l = in_stages({.stages = 2});
  const std::vector<pipeline_part> parts = pipeline_parts(m, l);
  const memory_need first = memory_of(m, l, w, c, parts[0]), last = memory_of(m, l, w, c, parts[1]);
  EXPECT_EQ(first.state, 16 * (800 + 2 * 592));
  EXPECT_EQ(last.state, 16 * (2 * 592 + 8 + 800));
  EXPECT_EQ(first.weights, 2 * (800 + 2 * 592)) << "packed in bfloat16";
  // Four leaves: two sums wait in the tree.
  EXPECT_EQ(first.gradients, 4 * 2 * (800 + 2 * 592));
  EXPECT_EQ(last.gradients, 4 * 2 * (2 * 592 + 8 + 800));
  // A layer keeps 2 (q + kv) + 3 * 16 + 3 * 8 = 96 floats for each of 8 tokens; a pass the states between its two
  // layers, one layer, and gradients of 2 (q + kv) + 2 * 8 = 40. Stage 0 has two passes under way, beside the memory of
  // scoring.
  const double layer = 4.0 * 8 * 96, pass = 4.0 * 8 * 3 * 8 + layer + 4.0 * 8 * 40, scoring = layer + 4.0 * 8 * 2 * 8;
  EXPECT_EQ(first.activations, 2 * pass + scoring);
  EXPECT_EQ(last.activations, pass);
  EXPECT_EQ(first.logits, 0);
  EXPECT_EQ(last.logits, 4 * 2 * 100);
  EXPECT_EQ(first.training(), first.state + first.weights + first.gradients + first.activations);
  // A device samples with all weights, packed but for the embedding's rows; gradients are freed.
  EXPECT_EQ(first.rollout_weights, 4 * 800 + 2 * (4 * 592 + 808));
  EXPECT_EQ(first.sampling(), 12 * (800 + 2 * 592) + first.rollout_weights + scoring + 800 + first.cache);
  // Adapters of rank 2 have 256 values in a layer, whose 576 adapted weights are there twice; passes have them packed,
  // and B of q, k and v, of o, of gate and up, and of down with its zeros: 2 (3 * 16 + 8 + 2 * 32 + 8).
  workload adapted = w;
  adapted.lora_rank = 2;
  for (const bool tied : {false, true}) {
    const model_shape& shape = tied ? small(true) : m;
    const memory_need of_first = memory_of(shape, l, adapted, c, pipeline_parts(shape, l)[0]);
    const double product = 8 * 16;  // B A of a projection to or from the feed-forward
    EXPECT_EQ(of_first.state, 4 * (800 + 2 * 592) + 4 * 2 * 576 + (16 + 2) * 2 * 256 + 8 * 2 * 256 + 4 * product)
        << tied;
    EXPECT_EQ(of_first.gradients, 4 * 3 * 2 * 256) << "a leaf and two sums; an embedding is frozen, tied or not";
  }
  const memory_need busiest = memory_of(m, l, w, c);
  EXPECT_EQ(busiest.stage, 0);
  EXPECT_EQ(busiest.peak(), std::max(first.peak(), last.peak()));
  EXPECT_EQ(first.messages, 0) << "in the memory of the host";
  EXPECT_EQ(memory_of(m, l, w, find_cluster("cpu"), parts[0]).messages, 4 * 8 * 8);
  layout sharded = l;
  sharded.zero = 1, sharded.data = 2;
  EXPECT_EQ(memory_of(m, sharded, w, c, parts[0]).state, (8 + 8 / 2) * (800 + 2 * 592));
  EXPECT_EQ(memory_of(m, sharded, w, c, parts[0]).activations, first.activations) << "two of two passes";
  // A reference is laid out in the same way, as floats and packed.
  workload judged = w;
  judged.reference = reference_form::sharded;
  EXPECT_EQ(memory_of(m, l, judged, c, parts[1]).reference, 6 * (2 * 592 + 808));
}

TEST(pipeline_planning, memory_of_a_tied_embedding_is_in_both_ends) {
  const model_shape m = small(true);
  const layout l = in_stages({.stages = 2});
  const std::vector<pipeline_part> parts = pipeline_parts(m, l);
  const cluster c = find_cluster("H100");
  const memory_need first = memory_of(m, l, four_rows(), c, parts[0]), last = memory_of(m, l, four_rows(), c, parts[1]);
  EXPECT_EQ(first.state, 16 * 2 * 592 + 4 * 800) << "a copy without gradient and moments";
  EXPECT_EQ(last.state, 16 * (2 * 592 + 808));
  EXPECT_EQ(first.gradients, 4 * 2 * 2 * 592 + 4 * 8 * 8) << "and a sum for each of a leaf's tokens";
  EXPECT_EQ(last.gradients, 4 * 3 * (2 * 592 + 808)) << "one leaf waits for the first stage";
}

TEST(pipeline_planning, bubbles_are_those_of_the_schedule) {
  const auto simulated = [](const std::vector<double>& forward, const std::vector<double>& backward, int passes) {
    return parallel::simulate({.stages = static_cast<int>(forward.size()), .passes = passes},
                              [&](int stage, const parallel::pipeline_action& a) {
                                return (a.forward ? forward : backward)[static_cast<std::size_t>(stage)];
                              });
  };
  for (const int stages : {2, 4, 8})
    for (const int passes : {1, 3, 8, 64, 200}) {
      const std::vector<double> one(static_cast<std::size_t>(stages), 1.0), two(static_cast<std::size_t>(stages), 2.0);
      const pipeline_seconds equal = pipeline_time(one, two, passes);
      EXPECT_NEAR(equal.time, 3 * (passes + stages - 1), 1e-9);
      EXPECT_NEAR(equal.idle, (stages - 1.0) / (passes + stages - 1.0), 1e-12);
      std::vector<double> forward, backward;
      for (int r = 0; r < stages; ++r) forward.push_back(1 + 0.3 * (r * 5 % 7)), backward.push_back(3 - 0.2 * (r % 3));
      const pipeline_seconds unequal = pipeline_time(forward, backward, passes);
      const parallel::pipeline_times exact = simulated(forward, backward, passes);
      EXPECT_NEAR(unequal.time, exact.time, 1e-9 * exact.time) << stages << " stages, " << passes << " passes";
      EXPECT_NEAR(unequal.idle, exact.idle(), 1e-9);
    }
  // Of a plan: the more micro-batches, the less stages wait; the parts of the update of the busiest stage are all of
  // it.
  const model_shape& m = *find_known_model("Qwen2.5-72B");
  const cluster c = find_cluster("H100");
  layout l = in_stages({.stages = 8});
  l.tensor = 8;
  double before = 1;
  for (const std::int64_t prompts : {1, 4, 16, 64}) {
    workload w;
    w.prompts = prompts, w.micro_tokens = w.length();
    const auto passes = static_cast<double>(batches(l, w).micro);
    const stage_times t = times_of(m, l, w, c, memory_of(m, l, w, c));
    EXPECT_NEAR(t.idle, 7 / (passes + 7), 0.06) << "the last stage has the head besides";
    EXPECT_LT(t.idle, before);
    EXPECT_EQ(t.stage, 7);
    EXPECT_GT(t.update_waits, 0);
    EXPECT_NEAR(t.update, t.update_compute + t.update_exposed + t.optimizer + t.update_waits, 1e-9 * t.update);
    before = t.idle;
  }
}

TEST(pipeline_planning, what_trainers_refuse_is_not_offered) {
  const auto refused = [](const char* model, const layout& l, const workload& w, const std::string& why) {
    EXPECT_THAT(check_layout(l, *find_known_model(model), w, l.devices()), HasSubstr(why));
  };
  const layout two = in_stages({.stages = 2});
  workload plain, lora, whole;
  lora.lora_rank = 8, whole.reference = reference_form::whole;
  EXPECT_EQ(check_layout(two, *find_known_model("Qwen2.5-7B"), plain, 2), "");
  EXPECT_EQ(check_layout(two, *find_known_model("Qwen2.5-7B"), lora, 2), "");
  refused("Qwen2.5-VL-7B", two, plain, "vision tower");
  refused("Qwen2.5-7B", two, whole, "reference=whole");
  layout other = two;
  other.zero = 2, other.data = 2;
  refused("Qwen2.5-7B", other, plain, "zero=2 with stages: expected ZeRO stage 0 or 1");
  model_shape tied = *find_known_model("Qwen3-30B-A3B");
  tied.tied = true;
  other.zero = 1, other.expert = 2;
  EXPECT_EQ(check_layout(other, *find_known_model("Qwen3-30B-A3B"), plain, 4), "");
  EXPECT_THAT(check_layout(other, tied, plain, 4), HasSubstr("embedding is tied"));
  refused("Qwen2.5-7B", in_stages({.stages = 32}), plain, "stages=32: more stages than the 28 layers");
  EXPECT_EQ(check_layout(two, *find_known_model("Qwen2.5-7B"), plain, 4),
            "stages 2 x data 1 x context 1 x tensor 1 are 2 devices, not 4");

  std::string trainers;
  try {
    parallel::divide_layers(94, {.stages = 8});
  } catch (const config_error& e) {
    trainers = e.what();
  }
  const auto of_line = [](std::vector<std::string> words, const std::vector<std::string>& parts) {
    return scratch::error_of<config_error>([&] { plan(words); }, parts);
  };
  of_line({"model=Qwen3-235B-A22B", "devices=256", "stages=8", "zero=1"}, {trainers});
  of_line({"model=Qwen2.5-7B", "devices=8", "num_layers_in_first_pipeline_stage=3"}, {"no effect with stages=1"});
  of_line({"model=Qwen2.5-7B", "devices=8", "stages=2", "num_layers_in_first_pipeline_stage=28"}, {"no layer is left"});
  of_line({"model=Qwen2.5-7B", "devices=9", "stages=2"}, {"are 8 devices, not 9"});
  EXPECT_THAT(plan({"model=Qwen2.5-VL-3B", "devices=8", "stages=0", "cluster=H200"}),
              HasSubstr("stages: models with a vision tower are not divided"));
}

/// verl's DAPO script of Qwen3-235B: 256 devices, 512 sequences of 1024 + 34816 tokens in each of 8 updates, 4480
/// tokens a device (tests/reference/trainer_dapo_command_lines.json).
TEST(pipeline_planning, published_layout_of_235b) {
  const model_shape& m = *find_known_model("Qwen3-235B-A22B");
  const cluster c = find_cluster("910B");
  workload w;
  w.prompts = 256, w.responses = 16, w.prompt_length = 1024, w.response_length = 34816, w.updates = 8;
  w.micro_tokens = 4480, w.leaves = 32;
  layout l = in_stages({.stages = 8, .first = 11, .last = 11});
  l.tensor = 4, l.context = 8, l.expert = 8, l.rollout_tensor = 4, l.zero = 1;
  l.how_context = context_kind::gather_kv, l.sequence_parallel = true;
  EXPECT_EQ(check_layout(l, m, w, 256), "");
  const batches b(l, w);
  EXPECT_EQ(b.micro, 512);
  EXPECT_EQ(b.tokens, 4480);
  const memory_need n = memory_of(m, l, w, c);
  // Stage 1 has 12 layers and 7 passes under way, stage 0 has 11 layers, an embedding and 8.
  const auto f = [](std::int64_t x) { return static_cast<double>(x); };
  const double experts = f(m.experts * m.expert_parameters()) / 8, dense = f(m.dense_layer_parameters()) / 4;
  const memory_need second = memory_of(m, l, w, c, pipeline_parts(m, l)[1]);
  EXPECT_NEAR(second.state, 12 * (16 * experts + (8 + 8.0 / 8) * dense), 1) << "experts have one owner, the rest eight";
  EXPECT_GE(n.peak(), second.peak());
  EXPECT_GT(n.peak(), c.memory) << "trees of the experts' gradients";
  EXPECT_GT(n.rollout_weights, 2 * f(m.expert_parameters_of_all()) / 4) << "four ranks divide all while they sample";
  EXPECT_LT(n.rollout_weights, 2.1 * f(m.parameters()) / 4);
  const std::string text =
      plan({"model=Qwen3-235B-A22B", "devices=256", "cluster=910B", "stages=8", "num_layers_in_first_pipeline_stage=11",
            "num_layers_in_last_pipeline_stage=11", "tensor=4", "context=8", "expert=8", "how_context=gather_kv",
            "zero=1", "rollout_tensor=4", "prompts=256", "responses=16", "prompt_length=1024", "response_length=34816",
            "updates=8", "micro_tokens=4480", "gradient_leaves=32"});
  for (const char* part : {"zero1 data 1 context 8 tensor 4 stages 8 expert 8", "stages of 11, 6 x 12, 11 layers",
                           "num_layers_in_first_pipeline_stage=11", "hidden states to the next stage",
                           "weights for sampling", "in stage ", "waiting for other stages"})
    EXPECT_THAT(text, HasSubstr(part));
  // With offloaded moments, as published, and sixteen ranks that sample together it fits where sums need no trees.
  const std::string fits = plan({"model=Qwen3-235B-A22B",
                                 "devices=256",
                                 "cluster=910B",
                                 "stages=8",
                                 "num_layers_in_first_pipeline_stage=11",
                                 "num_layers_in_last_pipeline_stage=11",
                                 "tensor=4",
                                 "context=8",
                                 "expert=8",
                                 "how_context=gather_kv",
                                 "zero=1",
                                 "rollout_tensor=16",
                                 "optimizer_offload=True",
                                 "reduction=ranked",
                                 "prompts=256",
                                 "responses=16",
                                 "prompt_length=1024",
                                 "response_length=34816",
                                 "updates=8",
                                 "micro_tokens=4480",
                                 "gradient_leaves=32"});
  EXPECT_NE(fits.find("best: zero1 data 1 context 8 tensor 4 stages 8 expert 8 rollout 16"), std::string::npos) << fits;
}

TEST(pipeline_planning, a_search_uses_stages_where_nothing_else_fits) {
  // 72e9 parameters, ZeRO-1: a device has whole weights and gradients of its part of the layers.
  const model_shape& m = *find_known_model("Qwen2.5-72B");
  const cluster c = find_cluster("H100");
  wishes one;
  one.rollout_tensor = 0, one.zero = 1, one.others.sequence_parallel = true;  // as plan has it
  wishes any = one;
  any.stages = 0;
  EXPECT_TRUE(search_layouts(m, {}, c, 64, one).fitting.empty());
  const search_result found = search_layouts(m, {}, c, 64, any);
  ASSERT_FALSE(found.fitting.empty());
  EXPECT_EQ(found.fitting.front().layout.text(), "zero1 data 2 tensor 4 stages 8 rollout 8");
  EXPECT_EQ(found.fitting.front().layout.devices(), 64);
  EXPECT_LE(found.fitting.front().memory.peak(), c.memory * c.usable_share);
  // Layouts without stages are the same, in the same order, whether stages are searched or not.
  wishes none, searched;
  searched.stages = 0;
  const search_result before = search_layouts(m, {}, c, 64, none);
  search_result after = search_layouts(m, {}, c, 64, searched);
  std::erase_if(after.too_large, [](const candidate& x) { return x.layout.stages() > 1; });
  ASSERT_EQ(before.too_large.size(), after.too_large.size());
  for (std::size_t k = 0; k < before.too_large.size(); ++k) {
    EXPECT_EQ(before.too_large[k].layout.text(), after.too_large[k].layout.text());
    EXPECT_EQ(before.too_large[k].memory.peak(), after.too_large[k].memory.peak());
    EXPECT_EQ(before.too_large[k].times.step(), after.too_large[k].times.step());
  }
  for (const candidate& x : search_layouts(m, {}, c, 64, searched).fitting)
    EXPECT_TRUE(x.layout.stages() == 1 || x.layout.zero < 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
