// DAPO (Yu et al. 2025) without options: a small random model learns short answers made of the first token of the
// prompt. Another device or strategy is a change of the two lines below; docs/own_trainer.md explains every part of
// grpo.cpp.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/filter.hpp"
#include "rlcore/objective/reward_shaping.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "shape.hpp"

using device = rlcore::cpu;
using strategy = rlcore::strategy::alone;
namespace rl = rlcore;

constexpr std::uint32_t vocabulary = 8, questions = 16, samples = 8, rows = questions * samples;
constexpr std::int32_t eos = 0;
constexpr std::size_t prompt_length = 3, longest = 8;

/// The share of the answer's tokens before eos that are `wanted`, less a penalty of answers above 4 tokens.
double reward_of(std::span<const std::int32_t> answer, std::int32_t wanted) {
  const auto words = answer.first(answer.size() - (answer.back() == eos));
  const auto right = double(std::count(words.begin(), words.end(), wanted));
  return right / double(std::max<std::size_t>(1, words.size())) +
         rl::soft_overlong{.max_length = longest, .buffer = 4}.penalty(std::ssize(answer));
}

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  rl::train::trainable_model<Device, Strategy> policy(here, shape(vocabulary), {}, ranks);
  {
    const auto whole = policy.gather_full_params();
    policy.model.initialize(1);
  }
  rl::rollout::engine<Device> engine;
  rl::rollout::generation generation;
  generation.max_new_tokens = longest, generation.eos_ids = {eos};
  const auto dapo = rl::paper::dapo({.clip_low = 0.2, .clip_high = 0.28});

  for (std::uint32_t step = 1; step <= 120; ++step) {
    // Dynamic sampling: until `rows` answers belong to groups whose rewards differ, or for three batches.
    std::vector<std::vector<std::int32_t>> text;  // prompt and answer
    std::vector<std::vector<float>> old_logp;
    std::vector<float> reward;
    double mean = 0;
    for (std::uint32_t attempt = 0; attempt < 3 && text.size() < rows; ++attempt) {
      // Rollout: `samples` answers to each prompt, the same on every rank. grpo.cpp has ranks that share this work.
      const rl::random_key key = rl::random_key{7}.child(step).child(attempt);
      std::array<std::array<std::int32_t, prompt_length>, questions> prompts;
      std::vector<rl::rollout::request> requests;
      for (std::uint32_t q = 0; q < questions; ++q) {
        for (std::uint32_t t = 0; t < prompt_length; ++t)
          prompts[q][t] = static_cast<std::int32_t>(1 + key.child(1).below(vocabulary - 1, q, t));
        for (std::uint32_t i = 0; i < samples; ++i)
          requests.push_back({.prompt = prompts[q], .prompt_number = q, .sample = i});
      }
      const auto whole = policy.gather_full_params();
      const auto answers = engine.generate(policy.model, policy.space, requests, generation, key);

      // Reward; groups of equal rewards teach nothing and are left out.
      std::vector<double> rewards;
      for (std::size_t i = 0; i < rows; ++i) rewards.push_back(reward_of(answers[i].tokens, requests[i].prompt[0]));
      if (attempt == 0) mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / rows;
      for (const std::int64_t kept : rl::keep_groups{}(rewards, samples).rows) {
        const auto i = static_cast<std::size_t>(kept);
        if (text.size() == rows) break;
        text.emplace_back(requests[i].prompt.begin(), requests[i].prompt.end());
        text.back().insert(text.back().end(), answers[i].tokens.begin(), answers[i].tokens.end());
        old_logp.push_back(answers[i].logp), reward.push_back(static_cast<float>(rewards[i]));
      }
    }
    std::vector<float> advantage(reward.size());
    dapo.advantage(reward, rl::groups_of(samples), advantage);

    // Update: clip-higher, and the mean over all tokens of the step.
    rl::global_counts counts;
    for (const auto& logp : old_logp) counts.add_row(std::ssize(logp));
    const auto tokens_of = [&](std::uint32_t i) { return text[i].size(); };
    policy.begin_update();
    policy.for_micro_batches(
        {.rows = text.size(), .max_rows = 1}, tokens_of, [&](std::span<const std::uint32_t> micro) {
          const std::size_t i = micro[0];
          rl::train::packed_answers packed;
          packed.push_back(text[i], prompt_length);
          policy.forward_backward(packed.inputs, packed.targets, 1, [&](auto logp, auto, auto dlogp, auto) {
            rl::token_batch<float> batch{.logp = logp, .old_logp = old_logp[i]};
            batch.advantage = rl::per_row(std::span(advantage).subspan(i, 1)), batch.offsets = packed.offsets;
            evaluate(rl::serial{}, dapo, batch, counts, {.logp = dlogp});
          });
        });
    policy.apply({.lr = 3e-3, .grad_clip = 1.0});
    if (ranks.first() && (step == 1 || step % 10 == 0))
      std::printf("step %3u  reward %.3f  answers trained on %zu\n", step, mean, text.size());
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
