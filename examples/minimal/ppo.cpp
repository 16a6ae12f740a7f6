// PPO (Schulman et al. 2017) without options: a small random model learns to answer with the first token of its prompt.
// Another device or strategy is a change of the two lines below; docs/own_trainer.md explains every part of grpo.cpp.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "shape.hpp"

using device = rlcore::cpu;
using strategy = rlcore::strategy::alone;
namespace rl = rlcore;

constexpr std::uint32_t vocabulary = 8, rows = 64;
constexpr std::size_t prompt_length = 3, answer_length = 6, length = prompt_length + answer_length;

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  // The critic predicts the reward of an answer before each of its tokens.
  rl::train::trainable_model<Device, Strategy> policy(here, shape(vocabulary), {}, ranks);
  rl::train::trainable_model<Device, Strategy> critic(here, shape(vocabulary, rl::nn::model_output::score), {}, ranks);
  {
    const auto whole = policy.gather_full_params(), whole_critic = critic.gather_full_params();
    policy.model.initialize(1), critic.model.initialize(2);
  }
  rl::rollout::engine<Device> engine;
  rl::rollout::generation generation;
  generation.max_new_tokens = answer_length;
  const auto ppo = rl::paper::ppo({.gamma = 1.0, .lambda = 0.95});
  const auto critic_loss = rl::paper::ppo_critic({.range = 0.5});
  const auto matrix = [](std::vector<float>& x) { return rl::matrix_view<float>(x.data(), {rows, answer_length}); };
  const auto row = [](auto& x, std::size_t i) { return std::span(x).subspan(i * answer_length, answer_length); };
  const auto tokens_of = [](std::uint32_t) { return length; };
  rl::global_counts counts;
  for (std::size_t i = 0; i < rows; ++i) counts.add_row(answer_length);

  for (std::uint32_t step = 1; step <= 80; ++step) {
    // Rollout: an answer to each of `rows` prompts, the same on every rank. grpo.cpp has ranks that share this work.
    const rl::random_key key = rl::random_key{7}.child(step);
    std::array<std::array<std::int32_t, prompt_length>, rows> prompts;
    std::vector<rl::rollout::request> requests;
    for (std::uint32_t i = 0; i < rows; ++i) {
      for (std::uint32_t t = 0; t < prompt_length; ++t)
        prompts[i][t] = static_cast<std::int32_t>(key.child(1).below(vocabulary, i, t));
      requests.push_back({.prompt = prompts[i], .prompt_number = i});
    }
    std::vector<rl::rollout::response> answers;
    std::vector<rl::train::packed_answers> texts(rows);
    std::vector<float> value(rows * answer_length), reward(value), advantage(value), target(value);
    double mean = 0;
    {
      const auto whole = policy.gather_full_params(), whole_critic = critic.gather_full_params();
      answers = engine.generate(policy.model, policy.space, requests, generation, key);
      for (std::size_t i = 0; i < rows; ++i) {
        std::vector<std::int32_t> text(prompts[i].begin(), prompts[i].end());
        text.insert(text.end(), answers[i].tokens.begin(), answers[i].tokens.end());
        texts[i].push_back(text, prompt_length);
        rl::nn::values(critic.model, critic.space, texts[i].inputs, texts[i].targets.row, row(value, i));
      }
    }
    // Reward, at the last token: the share of the answer's tokens that are the first token of the prompt.
    for (std::size_t i = 0; i < rows; ++i) {
      const auto right = std::count(answers[i].tokens.begin(), answers[i].tokens.end(), prompts[i][0]);
      row(reward, i).back() = float(right) / answer_length, mean += double(right) / answer_length / rows;
    }
    // Advantage: GAE, then mean 0 and variance 1 over the step. The target of the critic is the return.
    ppo.advantage(matrix(reward), matrix(value), {}, matrix(advantage), matrix(target));
    rl::whitening{}(matrix(advantage), {}, matrix(advantage));

    // Update: two passes over the answers. No bit depends on the size of a micro-batch, which is one answer here.
    for (int epoch = 0; epoch < 2; ++epoch) {
      policy.begin_update(), critic.begin_update();
      policy.for_micro_batches({.rows = rows, .max_rows = 1}, tokens_of, [&](std::span<const std::uint32_t> micro) {
        const std::size_t i = micro[0];
        policy.forward_backward(texts[i].inputs, texts[i].targets, 1, [&](auto logp, auto, auto dlogp, auto) {
          rl::token_batch<float> batch{.logp = logp, .old_logp = answers[i].logp, .advantage = row(advantage, i)};
          batch.offsets = texts[i].offsets;
          evaluate(rl::serial{}, ppo, batch, counts, {.logp = dlogp});
        });
      });
      critic.for_micro_batches({.rows = rows, .max_rows = 1}, tokens_of, [&](std::span<const std::uint32_t> micro) {
        const std::size_t i = micro[0];
        critic.value_forward_backward(texts[i].inputs, texts[i].targets.row, [&](auto predicted, auto slope) {
          rl::token_batch<float> batch{.value = predicted, .old_value = row(value, i), .target = row(target, i)};
          batch.offsets = texts[i].offsets;
          evaluate(rl::serial{}, critic_loss, batch, counts, {.value = slope});
        });
      });
      policy.apply({.lr = 3e-3, .grad_clip = 1.0}), critic.apply({.lr = 3e-3, .grad_clip = 1.0});
    }
    if (ranks.first() && (step == 1 || step % 10 == 0)) std::printf("step %3u  reward %.3f\n", step, mean);
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
