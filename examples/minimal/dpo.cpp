// DPO (Rafailov et al. 2023) without options: a small random model learns to prefer the first token of its prompt.
// Another device or strategy is a change of the two lines below; docs/own_trainer.md explains every part of grpo.cpp.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "shape.hpp"

using device = rlcore::cpu;
using strategy = rlcore::strategy::alone;
namespace rl = rlcore;

constexpr std::uint32_t vocabulary = 8, pairs = 64;
constexpr std::size_t prompt_length = 3, answer_length = 4, length = prompt_length + answer_length;

/// Rows of a random prompt and an answer, alternately chosen and rejected: the first token of the prompt repeated, and
/// a different token repeated.
std::vector<std::int32_t> make_pairs(rl::random_key key) {
  std::vector<std::int32_t> text;
  for (std::uint32_t p = 0; p < pairs; ++p) {
    const auto token = [&](std::uint32_t i) { return static_cast<std::int32_t>(key.below(vocabulary, p, i)); };
    const auto other = static_cast<std::int32_t>(1 + key.below(vocabulary - 1, p, prompt_length));
    for (const std::int32_t shift : {0, other}) {
      for (std::uint32_t t = 0; t < prompt_length; ++t) text.push_back(token(t));
      text.insert(text.end(), answer_length, (token(0) + shift) % static_cast<std::int32_t>(vocabulary));
    }
  }
  return text;
}

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  // The policy is trained. The reference, which stays as it is, has the same random weights.
  rl::train::trainable_model<Device, Strategy> policy(here, shape(vocabulary), {}, ranks);
  rl::nn::causal_lm<Device> reference(here, shape(vocabulary));
  rl::nn::workspace<Device> reference_space(here);
  reference.initialize(1);
  {
    const auto whole = policy.gather_full_params();
    policy.model.initialize(1);
  }
  const auto dpo = rl::paper::dpo({.beta = 0.5});
  rl::global_counts counts;
  for (std::size_t i = 0; i < 2 * pairs; ++i) counts.add_row(answer_length);

  for (std::uint32_t step = 1; step <= 60; ++step) {
    const std::vector<std::int32_t> text = make_pairs(rl::random_key{7}.child(step));
    auto report = dpo.report();  // summed over the micro-batches
    policy.begin_update();
    policy.for_micro_batches(
        {.rows = pairs, .max_rows = 16}, [](std::uint32_t) { return 2 * length; },
        [&](std::span<const std::uint32_t> micro) {
          rl::train::packed_answers packed;
          for (const std::uint32_t p : micro)
            for (const std::size_t row : {2 * std::size_t{p}, 2 * std::size_t{p} + 1})
              packed.push_back(std::span(text).subspan(row * length, length), prompt_length);
          std::vector<float> ref(packed.targets.row.size());
          rl::nn::log_probs(reference, reference_space, packed.inputs, packed.targets, 1, ref, {});
          policy.forward_backward(packed.inputs, packed.targets, 1, [&](auto logp, auto, auto dlogp, auto) {
            rl::token_batch<float> batch{.logp = logp, .ref_logp = ref};
            batch.offsets = packed.offsets;
            report += evaluate(rl::serial{}, dpo, batch, counts, {.logp = dlogp});
          });
        });
    const auto outcome = policy.apply({.lr = 1e-3, .grad_clip = 1.0});
    ranks.sum(report);
    // The pairs of a step are new, so the accuracy of the implicit rewards is that on pairs never seen.
    if (ranks.first() && (step == 1 || step % 10 == 0))
      std::printf("step %3u  loss %.3f  accuracy %.3f  gradient norm %.3f\n", step, report.loss(), report["accuracy"],
                  outcome.gradient_norm);
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
