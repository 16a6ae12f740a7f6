// One training step: forward, backward, clip, AdamW; every token predicts the next one.
#include <cstdint>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/optim/adamw.hpp"
#include "speed/bench.hpp"
#include "speed/models.hpp"

namespace speed {

namespace {

using rlcore::cpu;
namespace nn = rlcore::nn;

void one_size(const options& o, cpu& device, const std::string& name, const char* compute, std::int64_t sequences,
              std::int64_t length, nn::causal_lm<cpu>& model, nn::gradients<cpu>& gradient,
              rlcore::optim::adamw<cpu>& adamw) {
  const std::int64_t tokens = sequences * length;
  const nn::config& c = model.settings();
  const auto [inputs, targets] = training_rows(c, sequences, length);
  const memory_peak memory;
  nn::workspace<cpu> space(device);
  const double s = best_seconds(
      [&] {
        gradient.zero();
        nn::forward_backward(
            model, space, gradient, inputs, targets, 1.0f, false,
            [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
              for (float& d : dlogp) d = -1.0f / static_cast<float>(logp.size());
            });
        const double norm = rlcore::optim::global_norm(device, gradient);
        adamw.step(model.weights(), gradient, 1e-5, rlcore::optim::clip_scale(norm, 1));
      },
      o.budget());
  const auto n = static_cast<double>(tokens);
  const double flops =
      6 * product_weights(c) * n + 3.5 * n * attention_operations(c, static_cast<double>(length + 1) / 2);
  const double bytes = 32 * static_cast<double>(model.size());  // clip and AdamW
  print(o, {name + " " + compute + " tokens=" + std::to_string(tokens),
            s,
            n,
            "token",
            {flops, 0, name == "1M" ? 0 : bytes},
            memory.total()});
}

}  // namespace

void train(const options& o) {
  for (const char* name : {"1M", "124M", "0.5B"}) {
    if (o.threads == 1 && std::string_view(name) == "0.5B" && o.only.empty()) continue;  // minutes for a step
    if (o.quick && std::string_view(name) == "0.5B" && o.only.empty()) continue;
    for (const char* compute : computes) {
      const std::string of = std::string(name) + " " + compute;
      if (!o.wants(of + " tokens=256") && !o.wants(of + " tokens=1024")) continue;
      cpu device(o.threads, {}, compute == computes[0] ? rlcore::compute::float32 : rlcore::compute::bfloat16);
      nn::causal_lm<cpu> model(device, model_config(name));
      fill(model.weights().data(), model.size(), 0.03f);
      nn::gradients<cpu> gradient(model);
      rlcore::optim::adamw<cpu> adamw(device, model.size());
      const bool tiny = std::string_view(name) == "1M";
      if (o.wants(of + " tokens=256"))
        one_size(o, device, name, compute, tiny ? 8 : 4, tiny ? 32 : 64, model, gradient, adamw);
      if (o.wants(of + " tokens=1024") && !(o.quick && !tiny))
        one_size(o, device, name, compute, tiny ? 8 : 4, tiny ? 128 : 256, model, gradient, adamw);
    }
  }
}

}  // namespace speed
