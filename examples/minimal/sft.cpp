// SFT without options: a small random model learns to repeat its prompt.
// Another device or strategy is a change of the two lines below; docs/own_trainer.md explains every part of grpo.cpp.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/objective/algorithm/sft.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "shape.hpp"

using device = rlcore::cpu;
using strategy = rlcore::strategy::alone;
namespace rl = rlcore;

constexpr std::uint32_t vocabulary = 8, examples = 64;
constexpr std::size_t prompt_length = 4, answer_length = prompt_length, length = prompt_length + answer_length;

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  rl::train::trainable_model<Device, Strategy> model(here, shape(vocabulary), {}, ranks);
  {
    const auto whole = model.gather_full_params();
    model.model.initialize(1);
  }
  const auto sft = rl::paper::sft();
  rl::global_counts counts;
  for (std::size_t i = 0; i < examples; ++i) counts.add_row(answer_length);

  for (std::uint32_t step = 1; step <= 150; ++step) {
    // Data: a random prompt, and the prompt once more as the answer.
    const rl::random_key key = rl::random_key{7}.child(step);
    std::vector<std::int32_t> text;
    for (std::uint32_t i = 0; i < examples; ++i)
      for (std::uint32_t t = 0; t < length; ++t)
        text.push_back(static_cast<std::int32_t>(key.below(vocabulary, i, t % prompt_length)));

    auto report = sft.report();  // summed over the micro-batches
    model.begin_update();
    model.for_micro_batches(
        {.rows = examples, .max_rows = 16}, [](std::uint32_t) { return length; },
        [&](std::span<const std::uint32_t> micro) {
          // The loss mask: only the tokens of the answer are targets.
          rl::ragged<std::int32_t> inputs;
          rl::nn::targets targets;
          std::vector<std::int32_t> offsets{0};
          for (const std::uint32_t i : micro) {
            const auto row = std::span<const std::int32_t>(text).subspan(i * length, length);
            for (std::size_t t = prompt_length; t < length; ++t) {
              targets.row.push_back(static_cast<std::int32_t>(inputs.size() + t - 1));  // where token t is predicted
              targets.token.push_back(row[t]);
            }
            inputs.push_back(row.first(length - 1));
            offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
          }
          const auto slopes = [&](auto logp, auto, auto dlogp, auto) {  // vectors in the memory of `here`
            rl::token_batch<float, Device> batch{.logp = logp, .offsets = offsets};
            report += evaluate(here, sft, batch, counts, {.logp = dlogp});
          };
          model.forward_backward(inputs, targets, 1, rl::nn::slopes_on_device{slopes});
        });
    const auto outcome = model.apply({.lr = 3e-3, .grad_clip = 1.0});
    ranks.sum(report);
    if (ranks.first() && (step == 1 || step % 10 == 0))
      std::printf("step %3u  loss %.3f  gradient norm %.3f\n", step, report.loss(), outcome.gradient_norm);
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
