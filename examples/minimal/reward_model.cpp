// A reward model (Ouyang et al. 2022) without options: a small model learns which of two answers is preferred, here the
// one with more copies of the prompt's first token. Another device or strategy is a change of the two lines below;
// docs/own_trainer.md explains every part of grpo.cpp.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/reward_model.hpp"
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

/// Prompts with answers, packed, by turns chosen and rejected. The reward of a row is read at its last token.
struct packed_pairs {
  rl::ragged<std::int32_t> inputs;
  std::vector<std::int32_t> last, offsets{0};

  /// Appends pair `p` of `key`: three tokens of the chosen answer, one of the rejected, are the prompt's first token.
  void push_back(rl::random_key key, std::uint32_t p) {
    const auto token = [&](std::uint32_t i) { return static_cast<std::int32_t>(key.below(vocabulary, p, i)); };
    for (const bool chosen : {true, false}) {
      std::vector<std::int32_t> text{token(0), token(1), token(2)};
      const std::uint32_t odd = key.below(answer_length, p, chosen ? 8 : 9);  // the place of the odd one
      for (std::uint32_t t = 0; t < answer_length; ++t)
        text.push_back((t != odd) == chosen ? token(0) : (token(0) + 1 + token(10 + t) % 7) % 8);
      inputs.push_back(text);
      last.push_back(static_cast<std::int32_t>(inputs.size()) - 1);
      offsets.push_back(static_cast<std::int32_t>(last.size()));
    }
  }
};

template <class Device, class Strategy>
void run(Device& here, const Strategy& ranks) {
  rl::train::trainable_model<Device, Strategy> model(here, shape(vocabulary, rl::nn::model_output::score), {}, ranks);
  {
    const auto whole = model.gather_full_params();
    model.model.initialize(1);
  }
  const auto bradley_terry = rl::paper::rm();
  rl::global_counts counts;
  for (std::size_t i = 0; i < 2 * pairs; ++i) counts.add_row(1);  // one score per answer

  for (std::uint32_t step = 1; step <= 100; ++step) {
    const rl::random_key key = rl::random_key{7}.child(step);
    model.begin_update();
    model.for_micro_batches(
        {.rows = pairs, .max_rows = 16}, [](std::uint32_t) { return 2 * length; },
        [&](std::span<const std::uint32_t> micro) {
          packed_pairs packed;
          for (const std::uint32_t p : micro) packed.push_back(key, p);
          model.value_forward_backward(packed.inputs, packed.last, [&](auto reward, auto slope) {
            rl::token_batch<float> batch{.value = reward, .offsets = packed.offsets};
            evaluate(rl::serial{}, bradley_terry, batch, counts, {.value = slope});
          });
        });
    const auto outcome = model.apply({.lr = 3e-3, .grad_clip = 1.0});
    if (step != 1 && step % 10 != 0) continue;

    // Held-out pairs: how often is the reward of the chosen answer higher? Every rank scores its share.
    const auto share = ranks.rows(std::vector<std::int64_t>(pairs, 1));
    packed_pairs held_out;
    for (std::size_t p = share.first; p < share.last; ++p)
      held_out.push_back(rl::random_key{8}, static_cast<std::uint32_t>(p));
    std::vector<float> reward(held_out.last.size());
    {
      const auto whole = model.gather_full_params();
      rl::nn::values(model.model, model.space, held_out.inputs, held_out.last, reward);
    }
    std::int64_t right = 0;
    for (std::size_t i = 0; i < reward.size(); i += 2) right += reward[i] > reward[i + 1];
    ranks.sum(right);
    if (ranks.first())
      std::printf("step %3u  held-out accuracy %.3f  gradient norm %.3f\n", step, static_cast<double>(right) / pairs,
                  outcome.gradient_norm);
  }
}

int main(int argc, char** argv) {
  return rl::launch<strategy>(argc, argv, [](strategy& ranks) {
    device here;
    run(here, ranks);
  });
}
