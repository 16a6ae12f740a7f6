// The vision tower of Qwen2.5-VL-7B, eight of its 32 blocks: images forward, and forward with the gradient.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "speed/bench.hpp"

namespace speed {

namespace {

using rlcore::cpu;
namespace nn = rlcore::nn;

/// The language model is only as wide as the tower's rows: it takes no part.
nn::config tower_of_7b() {
  nn::config c;
  c.vocab_size = 64, c.hidden_size = 3584, c.intermediate_size = 64, c.num_hidden_layers = 1;
  c.num_attention_heads = 28, c.num_key_value_heads = 4, c.head_dim = 128;
  c.mrope_section = {16, 24, 24};
  c.image_token_id = 63, c.video_token_id = 62;
  nn::vision_config& v = c.vision.emplace();
  v.depth = 8, v.fullatt_block_indexes = {7}, v.out_hidden_size = c.hidden_size;
  return c;
}

void one_image(const options& o, nn::causal_lm<cpu>& model, std::vector<float>& gradients, const char* compute,
               std::int64_t side) {
  const nn::config& c = model.settings();
  const std::string name = "7B " + std::string(compute) + " patches=" + std::to_string(side * side);
  if (!o.wants(name + " forward") && !o.wants(name + " forward+backward")) return;
  const auto patches = numbers(static_cast<std::size_t>(side * side * c.vision->patch()), 1.0f);
  const nn::image_patches shown{{side, side}, patches};
  const auto slopes = numbers(static_cast<std::size_t>(side * side / c.vision->merged() * c.hidden_size), 1.0f, 2);
  // vision_cost() counts in the operations of this language model for one key of one query.
  const double unit = 2 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_dim);
  const double operations = nn::vision_cost(c, shown.grid) * unit;
  for (const bool backward : {false, true}) {
    if (!o.wants(name + (backward ? " forward+backward" : " forward"))) continue;
    const memory_peak memory;
    nn::workspace<cpu> space(model.device());
    const double s = best_seconds(
        [&] {
          nn::vision_pass<cpu> pass(model.tower(), model.device(), space, model.weights().data(), model.packed(),
                                    std::span(&shown, 1), false, backward);
          if (backward) pass.backward(gradients.data(), true, slopes.data());
        },
        o.budget());
    // Attention's backward is 2.5 forwards, and patches have no gradient: one part in a hundred each.
    const double least = (backward ? 3 : 1) * operations;
    print(o, {name + (backward ? " forward+backward" : " forward"), s, least, "flop", {.fma = least}, memory.total()});
  }
}

}  // namespace

void tower(const options& o) {
  for (const char* compute : computes) {
    cpu device(o.threads, {}, compute == computes[0] ? rlcore::compute::float32 : rlcore::compute::bfloat16);
    nn::causal_lm<cpu> model(device, tower_of_7b());
    fill(model.weights().data(), model.size(), 0.03f);
    std::vector<float> gradients(model.size());
    one_image(o, model, gradients, compute, 16);
    if (!o.quick) one_image(o, model, gradients, compute, 32);
  }
}

}  // namespace speed
