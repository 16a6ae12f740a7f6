// The memory of a plan against what a device gives out while ranks of that layout train.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/planning/memory_need.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train::planning;

constexpr int rows = 16, prompt = 30, response = 20, rows_of_pass = 2;

struct layout_case {
  std::string name;
  layout l;
  bool experts = false, tied = true, recompute = true;
  std::int64_t lora = 0, passes_of_leaf = 1;
  int longer = 1;  ///< how many times as long the sequences are
};

nn::config config_of(const layout_case& c) {
  nn::config config;
  config.model = c.experts ? nn::family(nn::qwen3_moe{}) : nn::family(nn::qwen2{});
  config.vocab_size = 352, config.hidden_size = 256, config.intermediate_size = 1024, config.num_hidden_layers = 4;
  config.num_attention_heads = 8, config.num_key_value_heads = 4, config.head_dim = 32;
  config.tie_word_embeddings = c.tied;
  if (c.experts) {
    config.num_experts = 8, config.num_experts_per_tok = 2, config.moe_intermediate_size = 256;
    config.attention_bias = false;
  }
  return config;
}

model_shape shape_of(const layout_case& c) {
  const nn::config config = config_of(c);
  model_shape m;
  m.vocab_size = config.vocab_size, m.hidden_size = config.hidden_size, m.layers = config.num_hidden_layers;
  m.heads = config.num_attention_heads, m.kv_heads = config.num_key_value_heads, m.head_dim = config.head_dim;
  m.intermediate_size = c.experts ? config.moe_intermediate_size : config.intermediate_size;
  m.experts = c.experts ? config.num_experts : 0, m.experts_per_token = c.experts ? config.num_experts_per_tok : 0;
  m.tied = c.tied, m.attention_bias = config.attention_bias, m.head_norms = config.qk_norms();
  return m;
}

workload work_of(const layout_case& c) {
  workload w;
  w.prompts = rows, w.responses = 1, w.prompt_length = prompt * c.longer, w.response_length = response * c.longer;
  w.micro_tokens = rows_of_pass / c.passes_of_leaf * (prompt + response) * c.longer, w.updates = 1;
  w.recompute = c.recompute;
  w.samples = w.old_log_probs = false, w.lora_rank = c.lora;
  return w;
}

void PrintTo(const layout_case& c, std::ostream* out) { *out << c.name; }

/// Most bytes that any rank had in use in two steps of training.
double measured(const layout_case& c) {
  const int ranks = static_cast<int>(c.l.devices()), length = (prompt + response) * c.longer;
  std::vector<double> most(static_cast<std::size_t>(ranks));
  parallel::launch_settings threads;
  threads.thread_ranks = ranks, threads.deadline = std::chrono::seconds(120);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::parallel_settings how;
    how.zero = static_cast<int>(c.l.zero), how.tensor = static_cast<int>(c.l.tensor);
    how.expert = static_cast<int>(c.l.expert), how.context = static_cast<int>(c.l.context);
    how.pipeline.stages = static_cast<int>(c.l.stages()), how.reduction = c.l.sums;
    parallel::world world(all, how);
    memory_counts memory;
    any_device_of<counted_remote> device(memory);
    train::training_settings settings;
    settings.logits_bytes = std::size_t{16} << 20, settings.recompute = c.recompute;
    if (c.lora > 0) settings.lora = nn::lora_settings{.rank = c.lora};
    train::trainable_model<any_device> model(device, config_of(c), settings, &world);
    if (c.lora > 0) model.attach_adapters({});
    for (int step = 0; step < 2; ++step) {
      model.begin_update();
      model.for_micro_batches(
          {.rows = rows, .max_rows = rows_of_pass / c.passes_of_leaf}, [&](std::uint32_t) { return length; },
          [&](std::span<const std::uint32_t> mine) {
            ragged<std::int32_t> sequences;
            nn::targets targets;
            for (const std::uint32_t row : mine) {
              std::vector<std::int32_t> ids;
              for (int t = 0; t < length; ++t)
                ids.push_back(static_cast<std::int32_t>(random_key{9}.below(352, row, static_cast<std::uint32_t>(t))));
              const auto begin = static_cast<std::int32_t>(sequences.values.size());
              sequences.push_back(ids);
              for (int t = prompt * c.longer; t + 1 < length; ++t)
                targets.row.push_back(begin + t), targets.token.push_back(5);
            }
            model.forward_backward(sequences, targets, 1.0f,
                                   [](auto, auto, auto dlogp, auto) { std::ranges::fill(dlogp, 0.1f); });
          });
      model.apply({.lr = 1e-4, .grad_clip = 1});
      model.release_gradients();
      if (step == 0 && c.longer > 1)
        memory.most = memory.live;  // a first pass has pieces below 1 MiB in blocks of 1 MiB
    }
    most[static_cast<std::size_t>(all.rank())] = static_cast<double>(memory.most);
  });
  return *std::ranges::max_element(most);
}

std::vector<layout_case> cases() {
  std::vector<layout_case> all;
  const auto add = [&](const char* name, auto&& change) {
    layout_case c{name, {}};
    c.l.zero = 0;
    change(c);
    all.push_back(c);
  };
  add("one", [](auto&) {});
  add("zero_0", [](auto& c) { c.l.data = 2; });
  add("zero_0_of_8", [](auto& c) { c.l.data = 8; });
  add("zero_1", [](auto& c) { c.l.data = 2, c.l.zero = 1; });
  add("zero_1_of_4", [](auto& c) { c.l.data = 4, c.l.zero = 1; });
  add("zero_2", [](auto& c) { c.l.data = 2, c.l.zero = 2; });
  add("zero_3", [](auto& c) { c.l.data = 2, c.l.zero = 3; });
  add("zero_3_in_passes", [](auto& c) { c.l.data = 2, c.l.zero = 3, c.passes_of_leaf = 2; });
  add("ranked", [](auto& c) { c.l.data = 2, c.l.zero = 1, c.l.sums = reduction_kind::ranked; });
  add("untied", [](auto& c) { c.l.data = 2, c.l.zero = 1, c.tied = false; });
  add("tensor", [](auto& c) { c.l.tensor = 2, c.l.zero = 1; });
  add("context", [](auto& c) { c.l.context = 2, c.l.zero = 1; });
  add("context_zero_3", [](auto& c) { c.l.context = 2, c.l.zero = 3; });
  add("stages", [](auto& c) { c.l.pipeline.stages = 2, c.l.zero = 1; });
  add("stages_untied", [](auto& c) { c.l.pipeline.stages = 2, c.l.zero = 1, c.tied = false; });
  add("experts_of_one", [](auto& c) { c.experts = true; });
  add("experts", [](auto& c) { c.l.data = c.l.expert = 2, c.l.zero = 1, c.experts = true; });
  add("experts_zero_0", [](auto& c) { c.l.data = c.l.expert = 2, c.experts = true; });
  add("experts_zero_2", [](auto& c) { c.l.data = c.l.expert = 2, c.l.zero = 2, c.experts = true; });
  add("experts_zero_3", [](auto& c) { c.l.data = c.l.expert = 2, c.l.zero = 3, c.experts = true; });
  add("experts_of_pairs", [](auto& c) { c.l.data = 4, c.l.expert = 2, c.l.zero = 1, c.experts = true; });
  add("experts_of_pairs_zero_2", [](auto& c) { c.l.data = 4, c.l.expert = 2, c.l.zero = 2, c.experts = true; });
  add("experts_ranked",
      [](auto& c) { c.l.data = c.l.expert = 2, c.l.zero = 1, c.l.sums = reduction_kind::ranked, c.experts = true; });
  add("experts_ranked_zero_0",
      [](auto& c) { c.l.data = c.l.expert = 2, c.l.sums = reduction_kind::ranked, c.experts = true; });
  add("experts_ranked_of_pairs",
      [](auto& c) { c.l.data = 4, c.l.expert = 2, c.l.zero = 1, c.l.sums = reduction_kind::ranked, c.experts = true; });
  add("activations", [](auto& c) { c.l.data = 2, c.l.zero = 1, c.recompute = false, c.longer = 4; });
  add("activations_of_experts", [](auto& c) { c.experts = true, c.recompute = false, c.longer = 4; });
  add("recomputed", [](auto& c) { c.l.data = 8, c.l.zero = 3, c.longer = 6; });
  add("lora", [](auto& c) { c.lora = 16; });
  add("lora_zero_0", [](auto& c) { c.l.data = 2, c.lora = 16; });
  add("lora_zero_1", [](auto& c) { c.l.data = 2, c.l.zero = 1, c.lora = 16; });
  add("lora_zero_2", [](auto& c) { c.l.data = 2, c.l.zero = 2, c.lora = 16; });
  add("lora_zero_3", [](auto& c) { c.l.data = 2, c.l.zero = 3, c.lora = 16; });
  return all;
}

class planned_memory : public testing::TestWithParam<layout_case> {};

TEST_P(planned_memory, is_what_ranks_of_the_layout_take) {
  const layout_case& c = GetParam();
  const cluster npus = find_cluster("910B");
  double planned = 0;
  memory_need busiest;
  for (const pipeline_part& part : pipeline_parts(shape_of(c), c.l)) {
    const memory_need need = memory_of(shape_of(c), c.l, work_of(c), npus, part);
    if (need.training() > planned) planned = need.training(), busiest = need;
  }
  EXPECT_NEAR(planned / measured(c), 1, 0.05)
      << planned * 1e-6 << " MB: state " << busiest.state * 1e-6 << ", weights " << busiest.weights * 1e-6
      << ", gradients " << busiest.gradients * 1e-6 << ", activations " << busiest.activations * 1e-6 << ", logits "
      << busiest.logits * 1e-6;
}

INSTANTIATE_TEST_SUITE_P(layouts, planned_memory, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace RLCORE_TEST_ID
