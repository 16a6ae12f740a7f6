// The actor update: against PyTorch (tests/reference/policy_step.py), and what must not show in its bits.
#include "rlcore/train/policy/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "rlcore/device/cpu.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using nlohmann::json;
using train::trajectory;

const json& golden() {
  static const json data = json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/policy_step.json"));
  return data;
}

/// The weights of tests/reference/nn_parity.py.
float formula(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

nn::config tiny() {
  const json& spec = golden().at("model");
  nn::config c;
  c.vocab_size = spec.at("vocab_size"), c.hidden_size = spec.at("hidden_size");
  c.intermediate_size = spec.at("intermediate_size"), c.num_hidden_layers = spec.at("num_hidden_layers");
  c.num_attention_heads = spec.at("num_attention_heads"), c.num_key_value_heads = spec.at("num_key_value_heads");
  c.rope_theta = 10000, c.max_position_embeddings = 64;
  return c;
}

train::policy_settings settings(std::size_t logits_bytes) {
  train::policy_settings s;
  s.logits_bytes = logits_bytes;
  s.adamw.weight_decay = golden().at("weight_decay");
  return s;
}

struct fixture {
  explicit fixture(int threads = 1, std::size_t logits_bytes = 1 << 20)
      : device(threads), actor(device, tiny(), settings(logits_bytes)) {
    std::map<std::string, const nn::parameter*> sorted;
    for (const nn::parameter& p : actor.model.parameters()) sorted[p.name] = &p;
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted) {
      for (std::uint32_t i = 0; i < p->size; ++i)
        weights()[p->offset + i] = name.find("norm") != name.npos ? 1 + formula(k, i) * 0.5f : formula(k, i);
      ++k;
    }
  }
  std::span<float> weights() { return {actor.model.weights().data(), actor.model.size()}; }
  /// Weights, moments and number of steps, as bytes.
  std::string state() {
    std::string all;
    for (const float* p : {actor.model.weights().data(), actor.optimizer().m().data(), actor.optimizer().v().data()})
      all.append(reinterpret_cast<const char*>(p), actor.model.size() * sizeof(float));
    return all + std::to_string(actor.optimizer().steps());
  }
  std::string gradient() const {
    return {reinterpret_cast<const char*>(actor.gradient().data()), actor.gradient().size() * sizeof(float)};
  }
  cpu device;
  train::actor<cpu> actor;
};

std::vector<trajectory> batch() {
  const json& g = golden();
  std::vector<trajectory> all(g.at("tokens").size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].tokens = g.at("tokens")[i].get<std::vector<std::int32_t>>();
    all[i].prompt_length = g.at("prompts")[i];
    all[i].old_logp = g.at("old_logp")[i].get<std::vector<float>>();
    all[i].ref_logp = g.at("ref_logp")[i].get<std::vector<float>>();
    all[i].reward = g.at("rewards")[i];
  }
  train::estimate_advantages(group_relative{}, all, g.at("samples"));
  return all;
}

train::policy_loss_settings loss_of(const json& spec) {
  train::policy_loss_settings loss;
  loss.clip = {spec.at("low"), spec.at("high"), spec.at("c")};
  loss.use_kl = !spec.at("kl").is_null(), loss.kl_coef = spec.at("kl_coef"), loss.entropy_coeff = spec.at("entropy");
  if (spec.at("kl") == "k2") loss.kl = kl_kind::k2;
  if (spec.at("agg") == "seq-mean-token-mean") loss.aggregation = sequence_mean_token_mean{};
  if (spec.at("agg") == "seq-mean-token-sum-norm") loss.aggregation = fixed_length{spec.value("length", 0.0)};
  return loss;
}

train::update_plan one_update() {
  return {.mini_trajectories = 6,
          .micro_trajectories = 4,
          .temperature = golden().at("temperature").get<float>(),
          .lr = {golden().at("lr").get<double>()},
          .grad_clip = golden().at("grad_clip")};
}

std::vector<const trajectory*> pointers(const std::vector<trajectory>& all) {
  std::vector<const trajectory*> order;
  for (const trajectory& t : all) order.push_back(&t);
  return order;
}

TEST(policy_update, advantages_and_log_probs_against_pytorch) {
  fixture f;
  std::vector<trajectory> all = batch();
  train::score_trajectories(f.actor.model, f.actor.space, all, golden().at("temperature").get<float>(), 4, 0,
                            &trajectory::entropy);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(all[i].advantage, golden().at("advantages")[i].get<double>(), 1e-6);
    ASSERT_EQ(all[i].entropy.size(), golden().at("logp")[i].size());
    for (std::size_t t = 0; t < all[i].entropy.size(); ++t)
      EXPECT_NEAR(all[i].entropy[t], golden().at("logp")[i][t].get<double>(), 1e-5) << i << " " << t;
  }
}

TEST(policy_update, loss_and_gradient_norm_of_the_first_step_against_pytorch) {
  for (const auto& [name, spec] : golden().at("cases").items()) {
    SCOPED_TRACE(name);
    fixture f;
    train::metrics m;
    const auto all = batch();
    EXPECT_EQ(train::update_actor(f.actor, algorithm_of(loss_of(spec)), all, one_update(), random_key{1}, m), 0);
    EXPECT_NEAR(m.get("actor/grad_norm"), spec.at("grad_norm"), 1e-5 * spec.at("grad_norm").get<double>());
    for (const char* key : {"pg_loss", "pg_clipfrac", "pg_clipfrac_lower", "ppo_kl", "kl_loss", "entropy_loss"}) {
      const std::string metric = std::string("actor/") + key;
      const bool wanted = key == std::string("entropy_loss") ? spec.at("entropy") > 0 : spec.contains(key);
      EXPECT_EQ(m.contains(metric), wanted) << key;
      if (wanted) {
        EXPECT_NEAR(m.get(metric), spec.at(key), 1e-6) << key;  // sums of terms around 1
      }
    }
    EXPECT_EQ(m.get("actor/lr"), 1e-2);
    for (const auto& [metric, x] : m) EXPECT_TRUE(train::is_defined_metric(metric)) << metric;
  }
}

TEST(policy_update, gradients_and_updated_weights_against_pytorch) {
  const json& spec = golden().at("cases").at("token_mean_k3");
  fixture f;
  train::metrics m;
  const auto all = batch();
  train::update_actor(f.actor, algorithm_of(loss_of(spec)), all, one_update(), random_key{1}, m);
  const double norm = spec.at("grad_norm");
  for (const nn::parameter& p : f.actor.model.parameters()) {
    const auto gradient = spec.at("gradients").at(p.name).get<std::vector<double>>();
    const auto updated = spec.at("updated").at(p.name).get<std::vector<double>>();
    for (std::size_t i = 0; i < p.size; ++i) {
      EXPECT_NEAR(f.actor.gradient().data()[p.offset + i], gradient[i], 1e-5 * norm) << p.name << " " << i;
      // AdamW's first step goes by the sign of the gradient: no statement where that is rounding noise.
      if (std::abs(gradient[i]) > 1e-4) {
        EXPECT_NEAR(f.weights()[p.offset + i], updated[i], 2e-5) << p.name << " " << i;
      }
    }
  }
}

TEST(policy_update, gradient_is_the_sum_trajectory_by_trajectory_to_the_bit) {
  for (const auto& [name, spec] : golden().at("cases").items()) {
    SCOPED_TRACE(name);
    const auto all = batch();
    const train::policy_loss_settings settings = loss_of(spec);
    const train::any_algorithm loss = train::algorithm_of(settings);
    global_counts counts;
    for (const trajectory& t : all) counts.add_row(t.response_length());
    fixture one;
    policy_report sum;
    for (const trajectory& t : all) {
      train::packed_trajectories packed;
      packed.push_back(t);
      const float temperature = golden().at("temperature").get<float>();
      nn::forward_backward(one.actor.model, one.actor.space, one.actor.gradient(), packed.input(), packed.targets,
                           temperature, false,
                           [&](std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp,
                               std::span<float> dentropy) {
                             const bool bonus = settings.entropy_coeff != 0;
                             policy_rows rows{.offsets = packed.offsets,
                                              .logp = logp,
                                              .old_logp = t.old_logp,
                                              .ref_logp = t.ref_logp,
                                              .advantage = std::span(&t.advantage, 1)};
                             if (bonus) rows.entropy = entropy;
                             sum += loss.loss(rows, counts, dlogp, bonus ? dentropy : std::span<float>());
                           });
    }
    for (const int threads : {1, 2})
      for (const std::size_t logits_bytes : {std::size_t{1}, std::size_t{1} << 20})
        for (const auto& [rows, tokens] : {std::pair{1, 0}, {2, 0}, {4, 0}, {0, 1}, {0, 20}, {0, 0}})
          for (const bool recompute : {false, true}) {
            fixture f(threads, logits_bytes);
            train::update_plan plan = one_update();
            plan.micro_trajectories = rows, plan.micro_tokens = tokens, f.actor.recompute = recompute;
            const policy_report report =
                train::accumulate_gradient(f.actor, algorithm_of(settings), pointers(all), plan);
            EXPECT_EQ(f.gradient(), one.gradient()) << threads << " " << logits_bytes << " " << rows << " " << tokens;
            EXPECT_EQ(report.loss(), sum.loss());
            EXPECT_EQ(report.ppo_kl_mean(), sum.ppo_kl_mean());
          }
  }
}

TEST(policy_update, log_probs_do_not_depend_on_the_split) {
  fixture f;
  std::vector<trajectory> whole = batch(), cut = batch();
  train::score_trajectories(f.actor.model, f.actor.space, whole, 0.8f, 0, 0, &trajectory::ref_logp);
  for (const auto& [rows, tokens] : {std::pair{1, 0}, {4, 0}, {0, 12}}) {
    train::score_trajectories(f.actor.model, f.actor.space, cut, 0.8f, rows, tokens, &trajectory::ref_logp);
    for (std::size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(cut[i].ref_logp, whole[i].ref_logp);
  }
}

TEST(policy_update, a_gradient_that_is_not_finite_changes_nothing) {
  const auto grpo = train::algorithm_of({});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    fixture f;
    auto all = batch();
    all[1].advantage = bad;
    const std::string before = f.state();
    train::metrics m;
    EXPECT_EQ(train::update_actor(f.actor, grpo, all, one_update(), random_key{1}, m), 1);
    EXPECT_EQ(f.state(), before);
    EXPECT_EQ(m.get("actor/skipped_updates"), 1);
    EXPECT_FALSE(std::isfinite(m.get("actor/grad_norm")));
  }
  fixture f;
  f.weights()[5] = std::numeric_limits<float>::infinity();
  const std::string before = f.state();
  train::metrics m;
  EXPECT_EQ(train::update_actor(f.actor, grpo, batch(), one_update(), random_key{1}, m), 1);
  EXPECT_EQ(f.state(), before);
}

TEST(policy_update, the_updates_after_a_skipped_one_are_made) {
  const auto grpo = train::algorithm_of({});
  train::update_plan plan = one_update();
  plan.mini_trajectories = 3;
  auto all = batch();
  fixture alone;
  train::metrics m;
  train::update_actor(alone.actor, grpo, std::vector(all.begin() + 3, all.end()), plan, random_key{1}, m);
  EXPECT_FALSE(m.contains("actor/skipped_updates"));
  all[0].advantage = std::numeric_limits<float>::quiet_NaN();
  fixture f;
  EXPECT_EQ(train::update_actor(f.actor, grpo, all, plan, random_key{1}, m), 1);
  EXPECT_EQ(f.state(), alone.state());
}

TEST(policy_update, one_optimizer_step_per_mini_batch_and_pass) {
  train::update_plan plan = one_update();
  plan.mini_trajectories = 4;  // 4 and 2
  plan.epochs = 3;
  plan.shuffle = true;
  const auto run = [&](std::uint64_t seed) {
    fixture f;
    train::metrics m;
    EXPECT_EQ(train::update_actor(f.actor, train::algorithm_of({}), batch(), plan, random_key{seed}, m), 0);
    EXPECT_EQ(f.actor.optimizer().steps(), 6);
    return f.state();
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));  // another order of the trajectories
  plan.shuffle = false;
  EXPECT_EQ(run(1), run(2));
}

TEST(policy_update, clipping_scales_the_gradient_and_zero_switches_it_off) {
  const auto weights = [&](double grad_clip) {
    fixture f;
    train::metrics m;
    train::update_plan plan = one_update();
    plan.grad_clip = grad_clip;
    train::update_actor(f.actor, train::algorithm_of({}), batch(), plan, random_key{1}, m);
    return std::pair{m.get("actor/grad_norm"), f.actor.optimizer().m().data()[3]};
  };
  const auto [norm, free] = weights(0);
  const auto [same_norm, clipped] = weights(norm / 4);
  EXPECT_EQ(norm, same_norm);  // before clipping
  EXPECT_NE(free, 0);
  EXPECT_NEAR(clipped, free / 4, 1e-5 * std::abs(free));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
