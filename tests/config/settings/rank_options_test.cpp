// What the keys of verl, OpenRLHF and our own say about ranks.
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/config/settings/rollout_ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/train/supervised/sft_work.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using parallel::context_kind;
using parallel::parallel_settings;
using testing::AllOf;
using testing::HasSubstr;
using words = std::vector<std::string>;

const std::string actor = "actor_rollout_ref.actor.", megatron = actor + "megatron.", fsdp = actor + "fsdp_config.";

options policy(const words& more) { return options::parse(more, main_ppo_registry()); }
options ppo(words more) {
  more.emplace_back("--apply_chat_template");
  return options::parse(more, ppo_trainer_registry());
}
options dpo(words more) {
  for (const char* word : {"--pretrain", "m", "--dataset", "d"}) more.emplace_back(word);
  return options::parse(more, dpo_registry());
}
parallel_settings of(const options& opt, int ranks) { return read_parallel(opt, ranks); }

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const config_error& e) {
    return e.what();
  }
  return "nothing was refused";
}

TEST(rank_options, strategies_of_verl) {
  EXPECT_EQ(of(policy({}), 4).zero, 3);
  EXPECT_EQ(of(policy({actor + "strategy=fsdp2"}), 4).zero, 3);
  EXPECT_EQ(of(policy({actor + "strategy=megatron"}), 4).zero, 1);
  EXPECT_EQ(of(policy({actor + "strategy=megatron", megatron + "use_distributed_optimizer=False"}), 4).zero, 0);
  EXPECT_EQ(of(policy({actor + "strategy=megatron", "rlcore.zero_stage=2"}), 4).zero, 2);
  const parallel_settings hsdp = of(policy({fsdp + "fsdp_size=2", fsdp + "reshard_after_forward=False"}), 4);
  EXPECT_EQ(hsdp.shard_ranks, 2);
  EXPECT_FALSE(hsdp.reshard_after_forward);
  EXPECT_EQ(of(policy({fsdp + "fsdp_size=4"}), 4).shard_ranks, 0);
  EXPECT_EQ(of(policy({}), 4).shard_ranks, 0);
  EXPECT_FALSE(of(policy({}), 2).bf16_wire);
  EXPECT_TRUE(of(policy({fsdp + "mixed_precision.reduce_dtype=bf16"}), 2).bf16_wire);
  EXPECT_FALSE(of(policy({fsdp + "mixed_precision.reduce_dtype=bf16", "rlcore.reduce_dtype=float32"}), 2).bf16_wire);
  EXPECT_TRUE(of(policy({"rlcore.reduction=exact", "rlcore.gradient_leaves=3"}), 2).reduction ==
              parallel::reduction_kind::exact);
  EXPECT_EQ(of(policy({"rlcore.gradient_leaves=3"}), 1).leaves, 3);
  EXPECT_TRUE(of(policy({}), 1).balance);
  EXPECT_FALSE(of(policy({"trainer.balance_batch=False"}), 1).balance);
}

TEST(rank_options, sizes) {
  const parallel_settings u = of(policy({actor + "ulysses_sequence_parallel_size=2"}), 6);
  EXPECT_EQ(u.context, 2);
  EXPECT_EQ(u.data, 3);
  EXPECT_EQ(u.how_context, context_kind::ulysses);
  const parallel_settings m =
      of(policy({actor + "strategy=megatron", megatron + "tensor_model_parallel_size=2",
                 megatron + "context_parallel_size=2", megatron + "expert_model_parallel_size=4"}),
         16);
  EXPECT_EQ(m.tensor, 2);
  EXPECT_EQ(m.context, 2);
  EXPECT_EQ(m.expert, 4);
  EXPECT_EQ(m.data, 4);
  EXPECT_TRUE(m.sequence_parallel);
  EXPECT_EQ(m.how_context, context_kind::ring);
  const auto sft =
      options::parse(words{"ulysses_sequence_parallel_size=2", "rlcore.context_kind=ring"}, sft_registry());
  EXPECT_EQ(of(sft, 2).context, 2);
  EXPECT_EQ(of(sft, 2).how_context, context_kind::ring);
  const parallel_settings d =
      of(dpo({"--zero_stage", "1", "--ring_attn_size", "2", "--packing_samples", "--ds_tensor_parallel_size", "2"}), 8);
  EXPECT_EQ(d.zero, 1);
  EXPECT_EQ(d.context, 2);
  EXPECT_EQ(d.tensor, 2);
  EXPECT_EQ(d.data, 2);
  EXPECT_EQ(d.how_context, context_kind::gather_kv);
  EXPECT_EQ(of(dpo({}), 2).zero, 2);  // upstream's default
  const parallel_settings p = of(ppo({"--zero_stage", "3", "--ring_attn_size", "2"}), 4);
  EXPECT_EQ(p.zero, 3);
  EXPECT_EQ(p.context, 2);
}

TEST(rank_options, one_rank_has_nothing_to_share) {
  const auto alone = policy({actor + "ulysses_sequence_parallel_size=4"});
  EXPECT_EQ(of(alone, 1).context, 1);
  EXPECT_THAT(alone.notes(), testing::Contains(HasSubstr("ulysses_sequence_parallel_size=4: no effect on one rank")));
  const auto many = policy({actor + "ulysses_sequence_parallel_size=4", "trainer.n_gpus_per_node=4"});
  EXPECT_THAT(many.notes(), testing::Not(testing::Contains(HasSubstr("no effect on one rank"))));
}

TEST(rank_options, groups_that_sample) {
  const std::string key = "actor_rollout_ref.rollout.tensor_model_parallel_size", four = key + "=4";
  EXPECT_FALSE(rollout_ranks(policy({}), 8));  // verl's default is 2
  EXPECT_EQ(rollout_ranks(policy({four}), 8).value().ranks, 4);
  EXPECT_EQ(rollout_ranks(policy({four}), 8).value().key, key);
  EXPECT_FALSE(rollout_ranks(policy({four}), 1));
  EXPECT_FALSE(rollout_ranks(policy({key + "=1"}), 8));
  const words tensor{actor + "strategy=megatron", megatron + "tensor_model_parallel_size=4"};
  EXPECT_FALSE(rollout_ranks(policy({tensor[0], tensor[1], four}), 8));  // as training has them
  EXPECT_EQ(rollout_ranks(policy({tensor[0], tensor[1], key + "=1"}), 8).value().ranks, 1);
  EXPECT_FALSE(rollout_ranks(ppo({}), 4));
  EXPECT_EQ(rollout_ranks(ppo({"--vllm_tensor_parallel_size", "2"}), 4).value().key, "--vllm_tensor_parallel_size");
  check_rollout_ranks(policy({four}), 8);
  EXPECT_EQ(refusal([&] { check_rollout_ranks(policy({four}), 6); }), four + " does not divide the 6 ranks");

  const auto has_note = [](const words& line, const std::string& note) {
    EXPECT_THAT(policy(line).notes(), testing::Contains(HasSubstr(note)));
  };
  has_note({four}, four + ": no effect on one rank");
  EXPECT_THAT(policy({four, "trainer.n_gpus_per_node=4"}).notes(),
              testing::Not(testing::Contains(HasSubstr("tensor_model_parallel_size"))));
  const std::string micro = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4", idle = "has no effect";
  has_note({micro}, idle);
  EXPECT_THAT(policy({micro, four, "trainer.n_gpus_per_node=4"}).notes(),
              testing::Not(testing::Contains(HasSubstr(idle))));  // log-probs are computed again
  has_note({micro, four, "trainer.n_gpus_per_node=4", "rlcore.row_chunks=4"}, idle);
}

TEST(rank_options, stages_of_a_pipeline) {
  const std::string transformer = megatron + "override_transformer_config.", stages = "pipeline_model_parallel_size=";
  // The layout of verl's Qwen3-235B script: 94 layers on 256 ranks; its reference has no context parallel ranks.
  const words published{actor + "strategy=megatron",
                        megatron + "tensor_model_parallel_size=4",
                        megatron + stages + "8",
                        megatron + "expert_model_parallel_size=8",
                        megatron + "context_parallel_size=8",
                        "+" + transformer + "num_layers_in_first_pipeline_stage=11",
                        "+" + transformer + "num_layers_in_last_pipeline_stage=11",
                        "+" + transformer + "context_parallel_size=8",
                        "actor_rollout_ref.ref.megatron.tensor_model_parallel_size=4",
                        "actor_rollout_ref.ref.megatron." + stages + "8",
                        "actor_rollout_ref.ref.megatron.expert_model_parallel_size=8",
                        "actor_rollout_ref.rollout.tensor_model_parallel_size=4",
                        "trainer.nnodes=16",
                        "trainer.n_gpus_per_node=16"};
  const auto big = policy(published);
  const parallel::parallel_settings s = of(big, 256);
  EXPECT_EQ(s.pipeline.stages, 8);
  EXPECT_EQ(s.data, 1);
  EXPECT_EQ(s.zero, 1);
  EXPECT_EQ(parallel::division_text(parallel::divide_layers(94, s.pipeline), 8), "11, 6 x 12, 11");
  EXPECT_THAT(big.notes(), testing::Not(testing::Contains(HasSubstr("as the actor does"))));
  EXPECT_EQ(rollout_ranks(big, 256).value().ranks, 4);

  const words two{actor + "strategy=megatron", megatron + stages + "2"};
  EXPECT_EQ(rollout_ranks(policy(two), 4).value().ranks, 1);  // a stage cannot sample with its layers alone
  EXPECT_EQ(of(policy({"rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=0"}), 4).data, 2);
  EXPECT_EQ(of(ppo({"--zero_stage", "1", "rlcore.pipeline_parallel_size=2"}), 2).pipeline.stages, 2);
  const auto refused = [&](const words& more, int ranks, const std::string& why) {
    words all = two;
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_THAT(refusal([&] { of(policy(all), ranks); }), HasSubstr(why));
  };
  refused({}, 3, "pipeline_model_parallel_size=2 does not divide the 3 ranks");
  refused({megatron + "tensor_model_parallel_size=2"}, 6, "parallel_size=2 x " + megatron + "tensor");
  refused({megatron + "virtual_pipeline_model_parallel_size=2"}, 4, "expected 1; a stage runs its layers in one chunk");
  refused({"+" + transformer + "pipeline_model_parallel_layout=Et*4|t*4L"}, 4, "expected num_layers_in_first");
  refused({"+" + transformer + "context_parallel_size=2"}, 4, "context_parallel_size=2: expected " + megatron);
  refused({"+" + transformer + "num_layers_in_first_pipeline_stage=few"}, 4, "expected a number of layers");
  refused({"rlcore.zero_stage=2"}, 4, "expected ZeRO stage 0 or 1, not 2");
  refused({"actor_rollout_ref.ref.megatron." + stages + "1"}, 4, "another layout than the actor's");
  EXPECT_THAT(policy({actor + "strategy=megatron", megatron + "virtual_pipeline_model_parallel_size=2"}).notes(),
              testing::Contains(HasSubstr("no effect with " + megatron + stages + "1")));

  const std::string twice = "+" + transformer + "context_parallel_size=2";
  EXPECT_THAT(refusal([&] { of(policy({actor + "strategy=megatron", twice}), 4); }),
              HasSubstr("context_parallel_size=2: expected " + megatron + "context_parallel_size=1"));
  EXPECT_THAT(refusal([&] { of(policy({actor + "strategy=megatron", twice}), 1); }), HasSubstr("expected " + megatron));
  for (const std::string name : {"num_layers_in_first_pipeline_stage=3", "account_for_loss_in_pipeline_split=True",
                                 "pipeline_model_parallel_layout=t"})
    EXPECT_THAT(policy({actor + "strategy=megatron", "+" + transformer + name}).notes(),
                testing::Contains(HasSubstr(transformer + name.substr(0, name.find('=')) + ": no effect with")));
}

TEST(rank_options, sizes_of_another_strategy) {
  EXPECT_THAT(policy({megatron + "expert_model_parallel_size=3"}).notes(),
              testing::Contains(HasSubstr("expert_model_parallel_size=3: no effect with strategy=fsdp")));
  EXPECT_THAT(policy({actor + "strategy=megatron", megatron + "expert_model_parallel_size=3"}).notes(),
              testing::Not(testing::Contains(HasSubstr("no effect with strategy"))));
}

/// Sizes that change no value of a reference or a critic are the actor's, which one line says.
TEST(rank_options, other_models_share_sequences_and_experts_as_the_actor_does) {
  const std::string four = "trainer.n_gpus_per_node=4",
                    ulysses = "ulysses_sequence_parallel_size=", ref = "actor_rollout_ref.ref.",
                    ours = ": all models of a run share the work as the actor does (";
  const auto shared = policy({four, actor + ulysses + "4", ref + ulysses + "2", "critic." + ulysses + "1"});
  EXPECT_EQ(of(shared, 4).context, 4);
  EXPECT_THAT(shared.notes(), testing::Contains(ref + ulysses + "2, critic." + ulysses + "1" + ours + actor + ulysses +
                                                "4), with the same values up to rounding"));
  const auto mega = policy({four, actor + "strategy=megatron", megatron + "context_parallel_size=2",
                            ref + "megatron.context_parallel_size=1", ref + "megatron.expert_model_parallel_size=2"});
  EXPECT_EQ(of(mega, 4).context, 2);
  EXPECT_THAT(mega.notes(), testing::Contains(ref + "megatron.context_parallel_size=1, " + ref +
                                              "megatron.expert_model_parallel_size=2" + ours + megatron +
                                              "context_parallel_size=2, " + megatron +
                                              "expert_model_parallel_size=1), with the same values up to rounding"));
  for (const auto& line : {words{four, actor + ulysses + "4", ref + ulysses + "4"}, words{four, actor + ulysses + "4"}})
    EXPECT_THAT(policy(line).notes(), testing::Not(testing::Contains(HasSubstr("as the actor does"))));
}

TEST(rank_options, a_fast_sum_is_said_to_be_none) {
  const auto fast = policy({"rlcore.reduction=fast"});
  EXPECT_THAT(fast.notes(), testing::Contains(HasSubstr("rlcore.reduction=fast: no engine")));
  EXPECT_EQ(of(fast, 2).reduction, parallel::reduction_kind::fast);
}

TEST(rank_options, refusals) {
  const auto refused = [](const words& more, int ranks, const std::string& why) {
    EXPECT_THAT(refusal([&] { of(policy(more), ranks); }), HasSubstr(why));
  };
  refused({actor + "ulysses_sequence_parallel_size=4"}, 6, "ulysses_sequence_parallel_size=4 does not divide the 6");
  refused({"rlcore.pipeline_parallel_size=2"}, 4, "pipeline_parallel_size=2: expected ZeRO stage 0 or 1, not 3");
  refused({actor + "strategy=megatron", megatron + "expert_model_parallel_size=3"}, 4, "does not divide the 4 ranks");
  refused({fsdp + "fsdp_size=3"}, 4, "fsdp_size=3 does not divide the 4 ranks; -1: one group of all");
  refused({fsdp + "fsdp_size=0"}, 4, "fsdp_size=0");
  refused({actor + "strategy=megatron", "actor_rollout_ref.ref.megatron.tensor_model_parallel_size=2"}, 4,
          "another layout than the actor's");
  refused({"critic.strategy=megatron"}, 4, "critic.strategy=megatron: another layout than the actor's");
  refused({"actor_rollout_ref.ref.strategy=megatron"}, 4, "ref.strategy=megatron: another layout than the actor's");
  EXPECT_THROW(policy({"rlcore.zero_stage=4"}), config_error);
}

/// What an NPU's kernels cannot do is refused before anything starts, or another kind is taken.
TEST(rank_options, of_npus) {
  const std::string npu = "trainer.device=npu_emulator";
  EXPECT_EQ(of(policy({npu, actor + "strategy=megatron", megatron + "context_parallel_size=2"}), 2).how_context,
            context_kind::gather_kv);
  const auto refused = [&](const words& more, int ranks, const std::string& why) {
    EXPECT_THAT(refusal([&] { of(policy(more), ranks); }), HasSubstr(why));
  };
  refused({npu, "rlcore.context_parallel_size=2", "rlcore.context_kind=ring"}, 2,
          "ring: not on the NPU; expected gath");
  EXPECT_EQ(of(policy({npu, actor + "strategy=megatron", megatron + "tensor_model_parallel_size=2",
                       megatron + "pipeline_model_parallel_size=2"}),
               4)
                .tensor,
            2);
  EXPECT_EQ(rollout_ranks(policy({npu, "actor_rollout_ref.rollout.tensor_model_parallel_size=4"}), 8).value().ranks, 4);
  EXPECT_THAT(refusal([] { of(ppo({"--ring_attn_size", "2"}), 3); }),
              testing::StartsWith("--ring_attn_size 2 does not"));
}

TEST(rank_options, how_many_ranks) {
  EXPECT_EQ(thread_ranks(policy({}), 1), 1);
  EXPECT_EQ(thread_ranks(policy({"trainer.nnodes=1"}), 1), 1);
  EXPECT_EQ(thread_ranks(policy({"trainer.n_gpus_per_node=3"}), 1), 3);
  EXPECT_EQ(thread_ranks(policy({}), 4), 1);  // mpirun's four
  EXPECT_EQ(thread_ranks(ppo({"--zero_stage", "3"}), 1), 1);
  EXPECT_EQ(thread_ranks(ppo({"--actor_num_nodes", "1", "--actor_num_gpus_per_node", "4", "--ref_num_gpus_per_node",
                              "2", "--colocate_all_models"}),
                         1),
            4);
  EXPECT_THAT(refusal([] { thread_ranks(ppo({"--actor_num_nodes", "2", "--actor_num_gpus_per_node", "8"}), 1); }),
              AllOf(HasSubstr("mpirun -np 16"), HasSubstr("(--actor_num_nodes, --actor_num_gpus_per_node)")));
  EXPECT_EQ(thread_ranks(policy({"trainer.nnodes=2", "trainer.n_gpus_per_node=2"}), 4), 1);
  EXPECT_THAT(refusal([] { thread_ranks(policy({"trainer.nnodes=2", "trainer.n_gpus_per_node=8"}), 4); }),
              HasSubstr("= 16 ranks, mpirun started 4"));
  EXPECT_THAT(refusal([] { thread_ranks(policy({"trainer.nnodes=2", "trainer.n_gpus_per_node=8"}), 1); }),
              HasSubstr("mpirun -np 16 --hostfile hosts build/bin/grpo_trainer"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
