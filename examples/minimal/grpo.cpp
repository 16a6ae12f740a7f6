// GRPO (Shao et al. 2024) without options: a small random model learns to answer with the first token of its prompt.
// Another device or strategy is a change of the two lines below; docs/own_trainer.md explains every part of grpo.cpp.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/device/advantages.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "shape.hpp"

using device = rlcore::cpu;
using strategy = rlcore::strategy::alone;
namespace rl = rlcore;

constexpr std::uint32_t vocabulary = 8, questions = 16, samples = 8, rows = questions * samples;
constexpr std::size_t prompt_length = 3, answer_length = 6, length = prompt_length + answer_length;

/// A prompt with an answer, and the log-probs of the answer's tokens when they were sampled.
struct sample {
  std::array<std::int32_t, length> text;
  std::array<float, answer_length> old_logp;
};

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  // The policy is trained. The reference, with the same random weights, anchors the KL term.
  rl::train::trainable_model<Device, Strategy> policy(here, shape(vocabulary), {}, ranks);
  rl::nn::causal_lm<Device> reference(here, shape(vocabulary));
  rl::nn::workspace<Device> reference_space(here);
  reference.initialize(1);
  {
    const auto whole = policy.gather_full_params();
    policy.model.initialize(1);
  }
  rl::rollout::engine<Device> engine;
  rl::rollout::generation generation;
  generation.max_new_tokens = answer_length;
  const auto grpo = rl::paper::grpo({.clip_low = 0.2, .clip_high = 0.2, .kl = 0.01});
  const auto tokens_of = [](std::uint32_t) { return length; };

  for (std::uint32_t step = 1; step <= 100; ++step) {
    // Rollout: `samples` answers to each of `questions` prompts. A rank samples its share, then every rank has all.
    const rl::random_key key = rl::random_key{7}.child(step);
    const auto share = ranks.rows(std::vector<std::int64_t>(rows, 1));
    std::vector<sample> batch(share.last - share.first);
    std::vector<rl::rollout::request> requests;
    for (sample& s : batch) {
      const auto i = static_cast<std::uint32_t>(share.first + requests.size());
      for (std::uint32_t t = 0; t < prompt_length; ++t)
        s.text[t] = static_cast<std::int32_t>(key.child(1).below(vocabulary, i / samples, t));
      requests.push_back(
          {.prompt = std::span(s.text).first(prompt_length), .prompt_number = i / samples, .sample = i % samples});
    }
    {
      const auto whole = policy.gather_full_params();
      const auto answers = engine.generate(policy.model, policy.space, requests, generation, key);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        std::copy_n(answers[i].tokens.begin(), answer_length, batch[i].text.begin() + prompt_length);
        std::copy_n(answers[i].logp.begin(), answer_length, batch[i].old_logp.begin());
      }
    }
    ranks.gather(batch);

    // Reward: the share of the answer's tokens that are the first token of the prompt.
    std::vector<float> reward, sampled_logp;
    for (const auto& [text, logp] : batch) {
      reward.push_back(float(std::count(text.begin() + prompt_length, text.end(), text[0])) / answer_length);
      sampled_logp.insert(sampled_logp.end(), logp.begin(), logp.end());
    }
    // Advantage: the reward relative to the prompt's group of answers. From here on, on the device.
    auto old_logp = to_device(here, sampled_logp), advantage = to_device(here, reward);
    compute_advantages(here, grpo.advantage, advantage, rl::groups_of(samples), advantage);
    // Update: the objective gives the slope of the loss by every log-prob, the model its gradient by every weight.
    rl::global_counts counts;
    for (std::size_t i = 0; i < rows; ++i) counts.add_row(answer_length);
    policy.begin_update();
    policy.for_micro_batches({.rows = rows, .max_rows = 32}, tokens_of, [&](std::span<const std::uint32_t> micro) {
      rl::train::packed_answers packed;
      for (const std::uint32_t i : micro) packed.push_back(batch[i].text, prompt_length);
      const auto old = rows_at(here, old_logp, micro, answer_length), better = rows_at(here, advantage, micro);
      rl::tensor<float, 1, Device> ref(here, old.shape());
      rl::nn::log_probs(reference, reference_space, packed.inputs, packed.targets, 1, ref);
      const auto slopes = [&](auto logp, auto, auto dlogp, auto) {  // vectors in the memory of `here`
        rl::token_batch<float, Device> fields{.logp = logp, .old_logp = old, .ref_logp = ref};
        fields.advantage = rl::per_row(better), fields.offsets = packed.offsets;
        evaluate(here, grpo, fields, counts, {.logp = dlogp});
      };
      policy.forward_backward(packed.inputs, packed.targets, 1, rl::nn::slopes_on_device{slopes});
    });
    const auto outcome = policy.apply({.lr = 3e-3, .grad_clip = 1.0});
    if (ranks.first() && (step == 1 || step % 10 == 0))
      std::printf("step %3u  reward %.3f  gradient norm %.3f\n", step,
                  std::accumulate(reward.begin(), reward.end(), 0.0) / rows, outcome.gradient_norm);
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
