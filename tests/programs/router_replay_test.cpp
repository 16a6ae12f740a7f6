// Router replay: the experts of a foreign engine, or those of the policy before its first update, in training.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "grpo_trainer.hpp"
#include "rlcore/text/base64.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;
using json = nlohmann::ordered_json;

const std::string replay_key = "actor_rollout_ref.actor.router_replay.mode=";
constexpr int experts = 5, layers = 4;
constexpr bool is_dense(int layer) { return layer == 1; }

/// Two of five experts in three of four layers, two updates a step.
class router_replay : public grpo::trainer_test {
 protected:
  void SetUp() override {
    grpo::trainer_test::SetUp();
    if (!files.model.empty())
      tiny_model::save_weights(files.model, 11, [](rlcore::nn::config& c) {
        c.model = rlcore::nn::family::qwen3_moe, c.attention_bias = false, c.num_hidden_layers = layers;
        c.num_experts = experts, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24, c.norm_topk_prob = true;
        c.mlp_only_layers = {1}, c.output_router_logits = true, c.router_aux_loss_coef = 0.1;
      });
  }
  fs::path stored() {
    const fs::path folder = place / "responses";
    if (!fs::exists(folder)) run("sampled", {"trainer.rollout_data_dir=" + folder.string()});
    return folder;
  }
  std::string run(const std::string& name, const arguments& more) {
    train(name, more + arguments{"trainer.total_training_steps=2", "trainer.val_before_train=False",
                                 "actor_rollout_ref.actor.optim.lr=3e-2", "actor_rollout_ref.actor.use_kl_loss=True"});
    return grpo::weights(root(name), 2);
  }
  template <class F>
  arguments replays(const std::string& name, F&& f) {
    return {"rlcore.replay=" + program::changed_lines(stored(), place / ("responses_" + name), f).string(),
            replay_key + "R3"};
  }
  void expect_refused(const std::string& name, const std::function<void(json&)>& f, const std::string& part) {
    const arguments how = replays(name, f);
    refused(how, part);
  }
};

/// Made up for a token of a line, by layer; no two of them are equal.
json experts_of(const json& line, std::size_t token, int layer) {
  const auto first = (token * 3 + line["sample"].get<std::size_t>() + static_cast<std::size_t>(layer)) % experts;
  return {first, (first + 1 + token % 3) % experts};
}
std::size_t tokens_of(const json& line) { return line["prompt_ids"].size() + line["response_ids"].size(); }

/// As vLLM has them: all layers with experts, all tokens but the last.
void add_lists(json& line) {
  line["routed_experts"] = json::array();
  for (std::size_t t = 0; t + 1 < tokens_of(line); ++t)
    line["routed_experts"].push_back({experts_of(line, t, 0), experts_of(line, t, 2), experts_of(line, t, 3)});
}
/// As SGLang has them: all layers, numbers of a dense one without a meaning.
void add_base64(json& line, std::size_t tokens) {
  std::vector<unsigned char> bytes;
  for (std::size_t t = 0; t < tokens; ++t)
    for (int layer = 0; layer < layers; ++layer)
      for (const json& id : is_dense(layer) ? json{0, 0} : experts_of(line, t, layer))
        for (const unsigned char byte : {id.get<unsigned char>(), static_cast<unsigned char>(0),
                                         static_cast<unsigned char>(0), static_cast<unsigned char>(0)})
          bytes.push_back(byte);
  line["routed_experts"] = rlcore::text::to_base64(bytes);
}

TEST_F(router_replay, experts_of_another_engine) {
  const arguments lists = replays("lists", add_lists);
  const std::string own = run("own", {lists.front()}), expected = run("lists", lists);
  ASSERT_FALSE(expected.empty());
  EXPECT_FALSE(expected == own);
  EXPECT_TRUE(own == run("sampled_again", {}));
  EXPECT_TRUE(expected ==
              run("all_layers", replays("all_layers", [](json& line) { add_base64(line, tokens_of(line) - 1); })));
  EXPECT_TRUE(expected ==
              run("all_tokens", replays("all_tokens", [](json& line) { add_base64(line, tokens_of(line)); })));
  const std::vector<std::pair<std::string, arguments>> layouts{
      {"data", {"trainer.n_gpus_per_node=2", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"}},
      {"experts",
       {"trainer.n_gpus_per_node=4", "rlcore.expert_parallel_size=2", "actor_rollout_ref.actor.use_dynamic_bsz=True"}},
      {"shards", {"trainer.n_gpus_per_node=2", "rlcore.zero_stage=3"}},
      {"stages", {"trainer.n_gpus_per_node=2", "rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"}},
      {"tensor",
       {"trainer.n_gpus_per_node=2", "actor_rollout_ref.actor.strategy=megatron",
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2", "rlcore.row_chunks=2"}}};
  const arguments context{"trainer.n_gpus_per_node=2", "rlcore.context_parallel_size=2"};
  const std::string in_parts = run("context", lists + context);
  EXPECT_FALSE(in_parts == run("context_own", {lists.front(), context[0], context[1]}));
  EXPECT_TRUE(in_parts == run("context_of_four", lists + context + arguments{"trainer.n_gpus_per_node=4"}));
  for (const auto& [name, how] : layouts)
    if (name != "tensor") {
      EXPECT_TRUE(expected == run(name, lists + how)) << name;
      EXPECT_EQ(program::rows(root(name)), program::rows(root("lists"))) << name;
    } else {
      EXPECT_TRUE(run("row_chunks", lists + arguments{"rlcore.row_chunks=2"}) == run(name, lists + how)) << name;
    }
}

/// Tokens without experts are routed by the model.
TEST_F(router_replay, some_tokens_are_routed_by_the_model) {
  const std::string own = run("own", {});
  const auto no_experts = [](json& line, std::size_t from) {
    for (std::size_t t = from; t + 1 < tokens_of(line); ++t) line["routed_experts"][t] = nullptr;
  };
  EXPECT_TRUE(own == run("none", replays("none", [&](json& line) { no_experts(line, 0); })));
  EXPECT_FALSE(own == run("some", replays("some", [&](json& line) { add_lists(line), no_experts(line, 4); })));
}

/// What a run replays is in its own log, from which it can be replayed.
TEST_F(router_replay, is_stored_with_the_responses) {
  const std::string expected =
      run("first", replays("lists", add_lists) + arguments{"trainer.rollout_data_dir=" + (place / "again").string()});
  EXPECT_TRUE(expected == run("second", {"rlcore.replay=" + (place / "again").string(), replay_key + "R3"}));
}

/// With one update a step there is nothing to keep.
TEST_F(router_replay, experts_before_the_first_update) {
  const std::string own = run("own", {}), kept = run("kept", {replay_key + "R2"});
  EXPECT_FALSE(own == kept);
  EXPECT_TRUE(kept ==
              run("of_sampling", {replay_key + "R3", "actor_rollout_ref.rollout.enable_rollout_routing_replay=True"}));
  const std::vector<std::pair<std::string, arguments>> layouts{
      {"megatron_key", {"actor_rollout_ref.actor.megatron.router_replay.mode=R2"}},
      {"data", {"trainer.n_gpus_per_node=2", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"}},
      {"experts", {"trainer.n_gpus_per_node=4", "rlcore.expert_parallel_size=2"}},
      {"shards", {"trainer.n_gpus_per_node=2", "rlcore.zero_stage=3"}},
      {"stages", {"trainer.n_gpus_per_node=2", "rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"}}};
  for (const auto& [name, how] : layouts)
    EXPECT_TRUE(kept == run(name, (name == "megatron_key" ? arguments{} : arguments{replay_key + "R2"}) + how)) << name;
  const arguments context{replay_key + "R2", "trainer.n_gpus_per_node=2", "rlcore.context_parallel_size=2"};
  const std::string in_parts = run("context", context);
  EXPECT_FALSE(in_parts == run("context_own", {context[1], context[2]}));
  EXPECT_TRUE(in_parts == run("context_of_four", context + arguments{"trainer.n_gpus_per_node=4"}));
  const arguments epochs{"actor_rollout_ref.actor.ppo_epochs=2"};
  const std::string twice = run("twice", epochs + arguments{replay_key + "R2"});
  EXPECT_TRUE(twice == run("twice_2", epochs + arguments{replay_key + "R2", "trainer.n_gpus_per_node=2"}));
  EXPECT_FALSE(twice == run("twice_own", epochs));
  const arguments once{"actor_rollout_ref.actor.ppo_mini_batch_size=4"};
  EXPECT_TRUE(run("once", once) == run("once_kept", once + arguments{replay_key + "R2"}));
}

TEST_F(router_replay, what_does_not_fit_is_refused) {
  const std::string routes = "\"routed_experts\" ";
  expect_refused("missing", [](json&) {}, "1.jsonl: line 1: no " + routes + "beside the");
  expect_refused(
      "text", [](json& line) { add_lists(line), line.erase("response_ids"), line["output"] = "#### 1"; },
      "no " + routes + "beside the");
  const auto whole = [&](const std::string& name, const json& value, const std::string& part) {
    expect_refused(name, [&](json& line) { line["routed_experts"] = value; }, routes + part);
  };
  whole("number", 7, "is 7; expected for each of the ");
  whole("object", json::object(), "is {}; expected");
  whole("none", json::array(), "has 0 tokens; expected");
  whole("base64", "AAAAAA", "has 1 32-bit integers in base64; expected");
  whole("base64_torn", "AAAA", "has 0 32-bit integers in base64; expected");
  const auto token = [&](const std::string& name, const json& value) {
    expect_refused(
        name, [&](json& line) { add_lists(line), line["routed_experts"][2] = value; },
        routes + "of token 2 do not fit; expected for each of the ");
  };
  token("twice", {{0, 1}, {3, 3}, {2, 4}});
  token("above", {{0, 1}, {3, 5}, {2, 4}});
  token("below", {{0, 1}, {3, -1}, {2, 4}});
  token("one_layer", {{0, 1}});
  token("flat", {0, 1, 2, 3, 4, 0});
  token("transposed", {{0, 1, 2}, {3, 4, 0}});
  token("no_layers", json::array());
  token("empty_layers", {json::array(), json::array(), json::array()});
  token("words", "ab");
  const auto longer = [](int count) {
    return [count](json& line) {
      add_lists(line);
      for (int i = 0; i < count; ++i) line["routed_experts"].push_back(nullptr);
    };
  };
  EXPECT_FALSE(run("last", replays("last", longer(1))).empty());
  expect_refused("longer", longer(2),
                 " tokens, or all but the last, null or a list of 3 layers with experts or of all 4");
  expect_refused("shorter", [](json& line) { add_lists(line), line["routed_experts"].erase(0); }, routes + "has ");
  refused({replay_key + "R3", "rlcore.async_depth=1"}, "R3: earlier weights have sampled the responses");
  refused({replay_key + "R4"}, "expected disabled, R2, R3");
  refused({"actor_rollout_ref.actor.router_replay.record_file=a"}, "record_file");
}

TEST_F(router_replay, says_what_has_no_effect) {
  const arguments lists = replays("lists", add_lists);
  EXPECT_NE(train("int8", {replay_key + "R3", "rlcore.rollout_weights=int8", "trainer.total_training_steps=1"})
                .out.find("note: actor_rollout_ref.actor.router_replay.mode=R3: the experts kept are those that the"),
            std::string::npos);
  EXPECT_NE(train("unread", {lists.front(), "trainer.total_training_steps=2"})
                .out.find("note: routed_experts of 24 of them are not read"),
            std::string::npos);
  tiny_model::save_weights(files.model, 11);
  EXPECT_NE(train("dense", {replay_key + "R2", "trainer.total_training_steps=1"})
                .out.find("router_replay.mode has no effect: the model has no experts"),
            std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
