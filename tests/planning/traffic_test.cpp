// The bytes of a plan beside those that the ranks of a real training step counted.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/traffic.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train::planning;

constexpr std::int64_t rows = 16, length = 5;

nn::config tiny(bool tied) {
  nn::config c;
  c.vocab_size = 70, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 3;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.tie_word_embeddings = tied;
  return c;
}

struct bytes_sent {
  std::uint64_t update = 0, scoring = 0;
};

/// Bytes that all ranks together send in one optimizer step, and while a frozen model scores its rows.
bytes_sent counted(const nn::config& config, int ranks, const parallel::parallel_settings& how,
                   std::int64_t micro_rows) {
  std::vector<bytes_sent> sent(static_cast<std::size_t>(ranks));
  parallel::launch_settings s;
  s.thread_ranks = ranks;
  parallel::launch(s, [&](parallel::any_communicator& all) {
    cpu device(1);
    parallel::world world(all, how);
    train::trainable_model<cpu> model(device, config, {}, &world);
    {
      const auto whole = model.gather_full_params();
      model.model.initialize(1);
    }
    const auto bytes = [&] {
      std::uint64_t sum = world.shards().counters().total().bytes + world.replicas().counters().total().bytes;
      if (world.pipeline().size() > 1)
        sum += world.forwards().counters().total().bytes + world.backwards().counters().total().bytes;
      return sum;
    };
    const std::uint64_t before = bytes();
    const auto batch = [](std::span<const std::uint32_t> mine) {
      std::pair<ragged<std::int32_t>, nn::targets> out;
      for (std::size_t k = 0; k < mine.size(); ++k) {
        const std::vector<std::int32_t> text(length, static_cast<std::int32_t>(mine[k]));
        out.first.push_back(std::span<const std::int32_t>(text));
        out.second.row.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(k) * length));
        out.second.token.push_back(7);
      }
      return out;
    };
    model.begin_update();
    model.for_micro_batches(
        {.rows = rows, .max_rows = micro_rows}, [](std::uint32_t) { return length; },
        [&](std::span<const std::uint32_t> mine) {
          const auto [inputs, targets] = batch(mine);
          model.forward_backward(inputs, targets, 1.0f, [](auto, auto, auto dlogp, auto) {
            for (float& d : dlogp) d = -1;
          });
        });
    model.apply({.lr = 1e-3, .grad_clip = 1});
    const std::uint64_t after = bytes();
    train::frozen_model<cpu> frozen(device, config, &world);
    const std::size_t own = rows / static_cast<std::size_t>(world.data().size());
    train::for_each_scored_group(
        {frozen.model.units()}, own, micro_rows, 0, [](std::size_t) { return length; },
        [&](std::size_t first, std::size_t last) {
          const std::vector<std::uint32_t> mine(last - first, 1);
          const auto [inputs, targets] = batch(mine);
          std::vector<float> logp(mine.size());
          nn::log_probs(frozen.model, model.space, inputs, targets, 1.0f, logp, {});
        });
    sent[static_cast<std::size_t>(all.rank())] = {after - before, bytes() - after};
  });
  bytes_sent total;
  for (const bytes_sent& n : sent) total.update += n.update, total.scoring += n.scoring;
  return total;
}

/// The same by the plan: of an update, and of scoring.
std::pair<double, double> planned(const nn::config& config, int ranks, const parallel::parallel_settings& how,
                                  std::int64_t micro_rows) {
  workload w;
  w.prompts = rows, w.responses = 1, w.prompt_length = 1, w.response_length = length - 1;
  w.micro_tokens = micro_rows * length, w.recompute = false;
  layout l;
  l.pipeline = how.pipeline;
  l.data = ranks / how.pipeline.stages, l.zero = how.zero, l.shard_ranks = how.shard_ranks, l.wire_bf16 = how.bf16_wire;
  l.reshard_after_forward = how.reshard_after_forward;
  if (how.reduction == parallel::reduction_kind::exact) l.sums = reduction_kind::exact;
  const model_shape m = shape_of(config);
  const cluster c = known_clusters().front();
  const auto sum = [&](const std::vector<transfer>& list) {
    double total = 0;
    for (const transfer& t : list)
      if (t.name != "norm of all stages") total += t.sent() * static_cast<double>(l.devices_of_stage());
    return total;
  };
  std::pair<double, double> all;
  for (const pipeline_part& part : pipeline_parts(m, l)) {
    const traffic sent(m, l, w, c, part);
    all.first += sum(sent.update()), all.second += sum(sent.scoring());
  }
  return all;
}

/// The plan counts the blocks of the norm over the whole model, the library those of each unit.
double norm_bytes_of_units(const nn::config& config, std::int64_t shards, int ranks) {
  const model_shape m = shape_of(config);
  const auto blocks = [](std::int64_t n) { return static_cast<double>((n + 1023) / 1024); };
  const double units = blocks(m.embedding_parameters()) + static_cast<double>(m.layers) * blocks(m.layer_parameters()) +
                       blocks(m.head_parameters());
  return 8 * (units - blocks(m.parameters())) * static_cast<double>(shards - 1) * (ranks / static_cast<double>(shards));
}

TEST(planning_bytes, are_those_that_the_ranks_count) {
  for (const bool tied : {false, true})
    for (const int ranks : {2, 4, 8})
      for (const int zero : {0, 1, 2, 3})
        for (const std::int64_t micro_rows : {1, 2}) {
          parallel::parallel_settings how;
          how.zero = zero;
          const double norm = zero == 0 ? 0 : norm_bytes_of_units(tiny(tied), ranks, ranks);
          const bytes_sent sent = counted(tiny(tied), ranks, how, micro_rows);
          const auto [update, scoring] = planned(tiny(tied), ranks, how, micro_rows);
          EXPECT_EQ(static_cast<double>(sent.update), update + norm)
              << ranks << " ranks, zero " << zero << ", " << micro_rows << " rows, tied " << tied;
          EXPECT_EQ(static_cast<double>(sent.scoring), scoring) << ranks << zero << micro_rows << tied;
          EXPECT_EQ(sent.scoring > 0, zero == 3);
        }
}

TEST(planning_bytes, of_other_wires_and_of_groups_that_share) {
  parallel::parallel_settings half, exact, kept, shared;
  half.bf16_wire = true;
  exact.reduction = parallel::reduction_kind::exact, exact.zero = 1;
  kept.reshard_after_forward = false;
  shared.shard_ranks = 2;
  for (const bool tied : {false, true})
    for (const auto& how : {half, exact, kept, shared}) {
      const std::int64_t shards = how.shard_ranks == 0 ? 4 : how.shard_ranks;
      const bytes_sent sent = counted(tiny(tied), 4, how, 2);
      const auto [update, scoring] = planned(tiny(tied), 4, how, 2);
      EXPECT_EQ(static_cast<double>(sent.update), update + norm_bytes_of_units(tiny(tied), shards, 4))
          << how.zero << how.shard_ranks << how.reshard_after_forward << tied;
      EXPECT_EQ(static_cast<double>(sent.scoring), scoring) << how.zero << how.shard_ranks << tied;
    }
}

TEST(planning_bytes, of_stages) {
  for (const int data : {1, 2})
    for (const std::int64_t micro_rows : {1, 2})
      for (const int stages : {2, 3}) {
        parallel::parallel_settings how;
        how.zero = 0, how.pipeline = {.stages = stages};
        if (stages == 2) how.pipeline.first = 1, how.pipeline.last = 2;
        const bytes_sent sent = counted(tiny(false), data * stages, how, micro_rows);
        const auto [update, scoring] = planned(tiny(false), data * stages, how, micro_rows);
        const double meetings = 2.0 * (stages - 1) * data;  // before the norm: a byte to the first stage, and one back
        EXPECT_EQ(static_cast<double>(sent.update), update + meetings) << data << micro_rows << stages;
        EXPECT_EQ(static_cast<double>(sent.scoring), scoring) << data << micro_rows << stages;
      }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
