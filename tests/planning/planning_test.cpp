#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/search.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train::planning;

// The numbers of parameters that the model hub counts in the published files.
TEST(planning_models, have_the_published_numbers_of_parameters) {
  const std::map<std::string, std::int64_t> published = {
      {"Qwen2.5-0.5B", 494032768},    {"Qwen2.5-1.5B", 1543714304},   {"Qwen2.5-3B", 3085938688},
      {"Qwen2.5-7B", 7615616512},     {"Qwen2.5-14B", 14770033664},   {"Qwen2.5-32B", 32763876352},
      {"Qwen2.5-VL-3B", 3754622976},  {"Qwen2.5-VL-7B", 8292166656},  {"Qwen2.5-VL-32B", 33452718336},
      {"Qwen2.5-72B", 72706203648},   {"Qwen3-0.6B", 596049920},      {"Qwen3-1.7B", 1720574976},
      {"Qwen3-4B", 4022468096},       {"Qwen3-8B", 8190735360},       {"Qwen3-14B", 14768307200},
      {"Qwen3-32B", 32762123264},     {"Qwen3-30B-A3B", 30532122624}, {"Qwen3-235B-A22B", 235093634560},
      {"Llama-3.2-1B", 1235814400},   {"Llama-3.2-3B", 3212749824},   {"Llama-3.1-8B", 8030261248},
      {"Llama-3.1-70B", 70553706496}, {"Llama-3.3-70B", 70553706496}, {"Llama-3.1-405B", 405853388800}};
  ASSERT_EQ(known_models().size(), published.size());
  for (const model_shape& m : known_models()) EXPECT_EQ(m.parameters(), published.at(m.name)) << m.name;
  // What the names say is at work for a token: 3.3 of 30.5 and 22 of 235 thousand millions.
  EXPECT_NEAR(static_cast<double>(find_known_model("Qwen3-30B-A3B")->active_parameters()), 3.35e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(find_known_model("Qwen3-235B-A22B")->active_parameters()), 22.2e9, 0.1e9);
  EXPECT_EQ(find_known_model("Qwen/Qwen2.5-7B-Instruct")->name, "Qwen2.5-7B");
  EXPECT_EQ(find_known_model("Qwen2.5-8B"), nullptr);
}

TEST(planning_models, count_what_the_library_allocates) {
  for (const nn::family family : {nn::family::qwen2, nn::family::qwen3, nn::family(nn::llama{})})
    for (const bool tied : {false, true}) {
      nn::config c;
      c.model = family;
      c.vocab_size = 70, c.hidden_size = 24, c.intermediate_size = 40, c.num_hidden_layers = 3;
      c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = family == nn::family::qwen3 ? 10 : 6;
      c.tie_word_embeddings = tied, c.attention_bias = family == nn::family::qwen2;
      cpu device(1);
      nn::causal_lm<cpu> model(device, c);
      model.initialize(1);
      EXPECT_EQ(shape_of(c).parameters(), static_cast<std::int64_t>(model.size()));
      const nn::lora<cpu> adapters(model, {.rank = 3});
      EXPECT_EQ(3 * shape_of(c).adapter_parameters(3), static_cast<std::int64_t>(adapters.size()));
      const nn::causal_lm<cpu> half(device, c, {.tensor_rank = 1, .tensor_size = 2});
      EXPECT_EQ(3 * shape_of(c).adapter_parameters(3, 2),
                static_cast<std::int64_t>(nn::lora<cpu>(half, {.rank = 3}).size()));
    }
}

class file_in_folder : public scratch::folder {
 public:
  explicit file_in_folder(const std::string& text, const char* name = "config.json") {
    scratch::write(path() / name, text);
  }
};

TEST(planning_models, are_read_from_config_json) {
  const file_in_folder moe(
      R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 768,
    "intermediate_size": 6144, "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [],
    "decoder_sparse_step": 1, "tie_word_embeddings": false})");
  EXPECT_EQ(find_model(moe.path().string()).parameters(), 30532122624);
  EXPECT_EQ(find_model((moe.path() / "config.json").string()).parameters(), 30532122624);
  const file_in_folder llama(R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "tie_word_embeddings": false})");
  EXPECT_EQ(find_model(llama.path().string()).parameters(), 8030261248);
  const file_in_folder other(R"({"model_type": "gpt2"})");
  try {
    find_model(other.path().string());
    FAIL();
  } catch (const format_error& e) {
    EXPECT_NE(std::string(e.what()).find("\"qwen3_moe\""), std::string::npos) << e.what();
  }
  try {
    find_model("Qwen2.5-7");
    FAIL();
  } catch (const config_error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'Qwen2.5-7B'"), std::string::npos) << e.what();
  }
}

TEST(planning_curve, runs_through_its_points_and_straight_between_logarithms) {
  const curve c{{{1, 10}, {100, 1000}, {1000, 1000}}};
  EXPECT_DOUBLE_EQ(c.at(1), 10);
  EXPECT_NEAR(c.at(10), 100, 1e-9);
  EXPECT_NEAR(c.at(0.1), 1, 1e-9);  // goes on
  EXPECT_NEAR(c.at(300), 1000, 1e-9);
  EXPECT_NEAR(c.held(0.1), 10, 1e-9);  // stays
  const surface s{{{1, {{{1, 1}, {100, 1}}}}, {100, {{{1, 100}, {100, 10000}}}}}};
  EXPECT_NEAR(s.held(10, 10), std::sqrt(1000.0), 1e-9);
}

// The founding document's volumes, in bytes sent per rank: 1.1 for weights and gradients, 3.6 for attention.
TEST(planning_traffic, bytes_are_those_of_the_formulas) {
  const model_shape& m = *find_known_model("Qwen2.5-7B");
  const auto M = static_cast<double>(m.parameters());
  const cluster c = find_cluster("cpu");
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const auto sent = [&](layout l, workload w) {
    double total = 0;
    for (const transfer& t : traffic(m, l, w, c).update()) total += t.sent();
    return total;
  };
  workload w;
  w.prompts = 8, w.responses = 8, w.prompt_length = 512, w.response_length = 512, w.micro_tokens = 1024;
  for (const std::int64_t ranks : {8, 16, 64}) {
    layout l;
    l.data = ranks, l.sums = reduction_kind::tree;
    const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks),
                 k = 64.0 / static_cast<double>(ranks);
    const double norm = share * 8 * std::ceil(M / 1024);
    for (const int zero : {0, 1, 2}) {
      l.zero = zero;
      EXPECT_NEAR(sent(l, w), share * M * 4 * 2 + (zero > 0 ? norm : 0), 1) << zero;  // one leaf for each rank
    }
    l.zero = 3;
    const double ends = f(m.embedding_parameters() + m.head_parameters());  // gathered once where layers are twice
    EXPECT_NEAR(sent(l, w), share * 4 * (M * (2 * k + 1) - ends * k) + norm, 1);
    l.reshard_after_forward = false;
    EXPECT_NEAR(sent(l, w), share * M * 4 * (k + 1) + norm, 1);
    l.wire_bf16 = true;
    EXPECT_NEAR(sent(l, w), share * M * (4 * k + 2) + norm, 1);
    // HSDP over two groups: 3 k M b inside, 2 M b / P_node across.
    l = {}, l.data = ranks, l.shard_ranks = ranks / 2;
    const double inside = f(l.shards() - 1) / f(l.shards());
    EXPECT_NEAR(sent(l, w),
                inside * (4 * (M * (2 * k + 1) - ends * k) + 8 * std::ceil(M / 1024)) + 2 * 0.5 * M * 4 / f(l.shards()),
                1);
  }
}

/// AdamW's moments, 8 bytes a weight of the rank's share, but for two parts of 16 MiB; they cross the host's link.
TEST(planning_memory, offloaded_moments_are_not_on_the_device) {
  const model_shape& m = *find_known_model("Qwen2.5-7B");
  const cluster c = find_cluster("910B");
  const workload w;
  for (const int zero : {0, 1, 2, 3}) {
    layout l, offloaded;
    l.data = 16, l.zero = zero;
    offloaded = l, offloaded.optimizer_offload = true;
    const double owned = static_cast<double>(m.parameters()) / (zero == 0 ? 1 : 16);
    const memory_need here = memory_of(m, l, w, c), there = memory_of(m, offloaded, w, c);
    EXPECT_NEAR(here.state - there.state, 8 * owned - (32 << 20), 1) << zero;
    EXPECT_NEAR(times_of(m, offloaded, w, c, there).optimizer - times_of(m, l, w, c, here).optimizer, 16 * owned / 25e9,
                1e-6)
        << zero;
  }
  workload adapters;
  adapters.lora_rank = 16;
  layout l;
  l.data = 16, l.zero = 0;
  const double here = memory_of(m, l, adapters, c).state;
  l.optimizer_offload = true;
  EXPECT_NEAR(here - memory_of(m, l, adapters, c).state,
              8.0 * static_cast<double>(m.layers * m.adapter_parameters(16)) - (32 << 20), 1);
  // A host has them as before, without a folder.
  layout kept = l;
  kept.optimizer_offload = false;
  const cluster host = find_cluster("cpu");
  EXPECT_EQ(memory_of(m, l, w, host).state, memory_of(m, kept, w, host).state);
}

/// What trainers refuse, or do as with another stage.
TEST(planning_memory, layouts_of_adapters) {
  const model_shape &dense = *find_known_model("Qwen2.5-7B"), &mixture = *find_known_model("Qwen3-30B-A3B");
  workload w;
  w.lora_rank = 16;
  layout l;
  l.data = 8, l.zero = 3;
  EXPECT_EQ(check_layout(l, dense, w, 8), "");
  l.zero = 2;
  EXPECT_EQ(check_layout(l, dense, w, 8), "");
  l.expert = 8;
  EXPECT_EQ(check_layout(l, mixture, w, 8).find("expert: adapters"), 0u);
}

TEST(planning_traffic, bytes_of_attention_are_those_of_the_formulas) {
  const model_shape& m = *find_known_model("Qwen2.5-7B");
  const cluster c = find_cluster("910B");
  workload w;
  w.prompts = 1, w.responses = 1, w.prompt_length = 1024, w.response_length = 1024, w.micro_tokens = 1024;
  w.recompute = false;
  layout l;
  l.context = 4, l.zero = 3, l.compute_type = true;
  const double S = 2048, layers = 28, kv = 4 * 128, q = 28 * 128, share = 0.75;
  const auto sent = [&](const char* beginning) {
    double total = 0;
    for (const transfer& t : traffic(m, l, w, c).update())
      if (t.name.find(beginning) == 0) total += t.sent();
    return total / layers;
  };
  EXPECT_NEAR(sent("keys, values"), 2 * 4 * S * kv * share, 1);  // forward, and again backward
  EXPECT_NEAR(sent("dK, dV"), 8 * S * kv * share, 1);
  l.how_context = context_kind::ring;
  EXPECT_NEAR(sent("ring, forward"), 4 * S * kv * share, 1);
  EXPECT_NEAR(sent("ring, backward"), 4 * S * kv * share, 1);
  EXPECT_NEAR(sent("ring, dK"), 8 * S * kv, 1);
  l.how_context = context_kind::ulysses;
  EXPECT_NEAR(sent("ulysses, forward"), 4 * S / 4 * (q + kv) * share, 1);
  l.context = 8;  // of four key heads: four ranks exchange heads, two such groups are a ring
  EXPECT_NEAR(sent("ulysses, forward"), 4 * S / 8 * (q + kv) * share, 1);
  EXPECT_NEAR(sent("ring, forward"), 4 * S / 8 * kv, 1);
  EXPECT_NEAR(sent("ring, dK"), 2 * S * kv, 1);
  l.context = 1, l.tensor = 4, w.micro_tokens = 2048;
  const double there_and_back = 2 * S * 3584 * 2 * share;  // two sums a layer forward, two backward, those of both ends
  EXPECT_NEAR(sent("tensor"), there_and_back * (4 + 2 / layers), 1);
  l.sequence_parallel = true;
  EXPECT_NEAR(sent("tensor"), there_and_back * (5 + 2 / layers), 1);
}

TEST(planning_memory, of_the_state_is_sixteen_bytes_over_the_shards) {
  const model_shape& m = *find_known_model("Qwen2.5-7B");
  const auto M = static_cast<double>(m.parameters());
  const cluster c = find_cluster("910B");
  workload w;
  layout l;
  l.data = 64;
  const std::map<int, double> state = {{0, 16}, {1, 8 + 8.0 / 64}, {2, 4 + 12.0 / 64}, {3, 16.0 / 64}};
  for (const auto& [zero, bytes] : state) {
    l.zero = zero;
    EXPECT_NEAR(memory_of(m, l, w, c).state, bytes * M, 1) << zero;
  }
  const memory_need need = memory_of(m, l, w, c);
  EXPECT_NEAR(need.cache_of_one, 8.0 * 28 * 4 * 128 * 4096, 1);  // 2 L nkv d floats a token
  EXPECT_NEAR(need.logits, 256 << 20, 1);
}

TEST(planning_memory, of_adapters_and_of_training_that_does_not_sample) {
  const model_shape& m = *find_known_model("Qwen2.5-7B");
  const auto M = static_cast<double>(m.parameters());
  const cluster host = find_cluster("cpu");
  workload w;
  w.prompts = 8, w.responses = 1, w.samples = false, w.old_log_probs = false;
  layout l;
  l.zero = 0;
  const memory_need full = memory_of(m, l, w, host);
  EXPECT_NEAR(full.state, 16 * M, 1);
  EXPECT_EQ(full.cache, 0);
  EXPECT_GE(full.passes, full.activations + full.logits) << "evaluation keeps the memory of training's passes";
  EXPECT_EQ(full.rollout_weights, 4 * M) << "packed";
  EXPECT_LT(full.weights, 0.2 * 4 * M) << "a layer and the head, packed";
  EXPECT_EQ(full.program, program_bytes) << "a host has code and rows in the same memory";
  EXPECT_EQ(times_of(m, l, w, host, full).rollout, 0);
  w.lora_rank = 16;
  const memory_need lora = memory_of(m, l, w, host);
  const double adapters = 28.0 * static_cast<double>(m.adapter_parameters(16));
  const double copied = M - static_cast<double>(m.embedding_parameters() + m.head_parameters()) -
                        28 * (2 * 3584 + 3584 + 2 * 512.0);                  // norms and biases have no adapters
  const double blocks = 28.0 * static_cast<double>(m.adapter_blocks(16));    // B and its gradient, as passes have them
  const double product = 3584.0 * static_cast<double>(m.intermediate_size);  // B A of one projection
  EXPECT_NEAR(lora.state, 4 * M + 4 * copied + 16 * adapters + 4 * adapters + 8 * blocks + 4 * product, 1);
  EXPECT_NEAR(lora.gradients, 4 * adapters * 4, 1) << "a leaf, and sums of eight";
  w.reference = reference_form::sharded;
  EXPECT_EQ(memory_of(m, l, w, host).reference, 0) << "the model without its adapters";
  w.lora_rank = 0;
  EXPECT_NEAR(memory_of(m, l, w, host).reference, 2 * M, 1) << "published in bfloat16";
}

TEST(planning_search, finds_what_fits_and_says_why_the_rest_does_not) {
  const cluster c = find_cluster("910B");
  const workload w;
  const search_result seven = search_layouts(*find_known_model("Qwen2.5-7B"), w, c, 64, {});
  ASSERT_FALSE(seven.fitting.empty());
  EXPECT_GE(seven.fitting.front().layout.zero, 2);
  for (const candidate& x : seven.fitting) {
    EXPECT_EQ(x.layout.devices(), 64);
    EXPECT_LE(x.memory.peak(), 0.9 * c.memory);
    EXPECT_LE(seven.fitting.front().times.step(), 1.021 * x.times.step());
  }
  for (const candidate& x : seven.too_large) EXPECT_GT(x.memory.peak(), 0.9 * c.memory);
  // 72e9 parameters are 1.2 TB of state alone: never on 8 devices of 64 GB.
  EXPECT_TRUE(search_layouts(*find_known_model("Qwen2.5-72B"), w, c, 8, {}).fitting.empty());
  wishes odd;
  odd.tensor = 8;
  const search_result none = search_layouts(*find_known_model("Qwen2.5-7B"), w, c, 64, odd);
  EXPECT_TRUE(none.fitting.empty() && none.too_large.empty());
  ASSERT_FALSE(none.impossible.empty());
  EXPECT_NE(none.impossible.front().find("does not divide the key and value heads 4"), std::string::npos);
}

TEST(planning_search, more_devices_never_take_longer) {
  const cluster c = find_cluster("H100");
  const workload w;
  for (const char* name : {"Qwen2.5-0.5B", "Qwen2.5-7B", "Qwen3-30B-A3B"}) {
    double before = HUGE_VAL;
    for (const std::int64_t devices : {8, 16, 32, 64, 128, 256, 512, 1024}) {
      wishes x;
      x.others.expert_shards = x.others.compute_type = true;
      const search_result r = search_layouts(*find_known_model(name), w, c, devices, x);
      ASSERT_TRUE(!r.fitting.empty() || before == HUGE_VAL) << name << " " << devices;
      if (r.fitting.empty()) continue;  // too few
      EXPECT_LE(r.fitting.front().times.step(), 1.03 * before) << name << " " << devices;
      before = r.fitting.front().times.step();
    }
  }
}

TEST(planning_cluster, file_is_read_as_it_was_written) {
  cluster c = find_cluster("A100");
  measured_rank r;
  r.ranks = 2, r.optimizer = 1e8, r.norm = 2e8, r.pack = 3e8, r.add = 4e8, r.head = 1e9, r.head_backward = 5e8;
  r.rotate.points = {{1e4, 1e10}, {1e7, 5e9}};
  r.attention_forward = r.attention_backward = r.norm_forward = r.norm_backward = r.rotate;
  r.gate_forward = r.gate_backward = r.rotate;
  r.forward.rows = {{64, r.rotate}, {1024, r.rotate}};
  r.backward_x = r.backward_w = r.cold_forward = r.cold_backward_x = r.cold_backward_w = r.forward;
  r.all_gather.points = {{1024, 1e-6}, {1048576, 1e-4}};
  r.ordered_sum = r.all_gather;
  c.measured = {r};
  const file_in_folder folder("{}", "empty.json");
  write_cluster(folder.path() / "cluster.json", c);
  const cluster back = find_cluster((folder.path() / "cluster.json").string());
  EXPECT_EQ(back.name, "A100");
  EXPECT_NEAR(back.memory / c.memory, 1, 1e-12);
  ASSERT_EQ(back.measured.size(), 1u);
  EXPECT_NEAR(back.measured[0].forward.held(100, 1e5), r.forward.held(100, 1e5), 1);
  EXPECT_NEAR(seconds(back, collective::all_gather, {2, 1}, 1024), 1e-6, 1e-12);
  EXPECT_NEAR(seconds(back, collective::all_reduce, {2, 1}, 1048576), 2e-4, 1e-9);

  std::ofstream(folder.path() / "wrong.json") << R"({"like": "H100", "netwrok_gb_per_s": 25})";
  try {
    find_cluster((folder.path() / "wrong.json").string());
    FAIL();
  } catch (const config_error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'network_gb_per_s'"), std::string::npos) << e.what();
  }
}

TEST(planning_cluster, measurements_that_cannot_be_are_refused) {
  const auto refused = [](const std::string& key, const std::string& value, const std::string& said) {
    cluster c = find_cluster("cpu");
    measured_rank r;
    r.ranks = 1, r.optimizer = r.norm = r.pack = r.add = r.head = r.head_backward = 1;
    r.attention_forward.points = {{1, 2}};
    r.attention_backward = r.norm_forward = r.norm_backward = r.rotate = r.attention_forward;
    r.gate_forward = r.gate_backward = r.rotate;
    r.forward.rows = {{64, r.rotate}, {1024, r.rotate}};
    r.backward_x = r.backward_w = r.cold_forward = r.cold_backward_x = r.cold_backward_w = r.forward;
    c.measured = {r};
    const file_in_folder folder("{}", "empty.json");
    const auto path = folder.path() / "cluster.json";
    write_cluster(path, c);
    EXPECT_NO_THROW(read_cluster(path));
    nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
    file["measured"][0][key] = nlohmann::json::parse(value);
    std::ofstream(path) << file;
    try {
      read_cluster(path);
      FAIL() << value;
    } catch (const config_error& e) {
      EXPECT_NE(std::string(e.what()).find(said), std::string::npos) << e.what();
    }
  };
  refused("ranks", "1e300", "measured[0].ranks: expected a number of ranks");
  refused("ranks", "1.5", "measured[0].ranks: expected a number of ranks");
  for (const char* rows : {R"([{"tokens": 0, "rate": [[1, 2]]}])", R"([{"tokens": -1e300, "rate": [[1, 2]]}])",
                           R"([{"tokens": 8, "rate": [[1, 2]]}, {"tokens": 8, "rate": [[1, 2]]}])"})
    refused("forward", rows, "measured[0].forward: expected \"tokens\" > 0, ascending");
}

TEST(planning_cluster, collectives_take_what_the_slowest_link_needs) {
  const cluster c = find_cluster("H100");
  const double n = 1e9;
  EXPECT_EQ(seconds(c, collective::all_gather, {1, 1}, n), 0);
  EXPECT_NEAR(seconds(c, collective::all_gather, {8, 1}, n), n * 7 / 8 / 450e9, 1e-4);
  // Over 8 nodes a device fetches its eighth from the other nodes, then the node shares.
  EXPECT_NEAR(seconds(c, collective::all_gather, {64, 1}, n), n / 8 * 7 / 8 / 50e9 + n * 7 / 8 / 450e9, 1e-4);
  // An ordered sum sends each piece straight to its owner, most of them through the network.
  EXPECT_NEAR(seconds(c, collective::ordered_sum, {64, 1}, n),
              n * 56 / 64 / 50e9 + n * 7 / 64 / 450e9 + 1.5 * n / 3.35e12, 1e-4);
  const cluster mesh = find_cluster("910B");
  EXPECT_NEAR(seconds(mesh, collective::all_gather, {2, 1}, n), n / 2 / 28e9, 1e-4);  // one link
}

}  // namespace
}  // namespace RLCORE_TEST_ID
