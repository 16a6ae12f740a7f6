// What is being trained: a model, its gradient, AdamW, and how all of it is saved and restored.
//
//   huggingface/         full weights (F32), config, tokenizer: loads in transformers
//   optim.safetensors    exp_avg.<parameter>, exp_avg_sq.<parameter>
//   extra_state.json     optimizer steps and what the caller adds
//   fsdp_config.json     {"FSDP_version": 1, "world_size": 1}
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/nn/forward_backward.hpp"
#include "rlcore/nn/value_forward_backward.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/clip.hpp"
#include "rlcore/trainer/model_files.hpp"

RLCORE_BEGIN
namespace trainer {

struct trainee_settings {
  optim::adamw_settings adamw = {};
  std::size_t logits_bytes = 0;  ///< as of nn::workspace
  bool recompute = false;        ///< activation recomputation; changes no bit
  std::uint64_t seed = 1;        ///< of a score head that the loaded folder does not have
};

/// What one optimizer step did to the parameters.
struct step_outcome {
  double gradient_norm = 0;  ///< global L2 norm before clipping
  bool skipped = false;      ///< the norm was not finite: parameters and optimizer state are untouched
};

/// One optimizer step is begin_update(), any number of forward_backward() or value_forward_backward(), apply().
template <class Device>
class trainee {
 public:
  nn::causal_lm<Device> model;
  nn::workspace<Device> space;
  bool recompute;

  trainee(Device& device, const nn::config& config, const trainee_settings& s)
      : model(device, config),
        space(device, s.logits_bytes),
        recompute(s.recompute),
        seed_(s.seed),
        gradient_(model),
        optimizer_(device, model.size(), s.adamw) {}

  nn::gradients<Device>& gradient() noexcept { return gradient_; }
  const nn::gradients<Device>& gradient() const noexcept { return gradient_; }
  optim::adamw<Device>& optimizer() noexcept { return optimizer_; }
  const optim::adamw<Device>& optimizer() const noexcept { return optimizer_; }

  /// The weights of a Hugging Face folder. A score model may come from a causal one: its head is then initialised from
  /// the seed.
  void load(const std::filesystem::path& folder) { load_model(model, folder, seed_); }

  /// The gradient is 0 from here on.
  void begin_update() { gradient_.zero(); }
  /// As nn::forward_backward: slopes(logp, entropy, dlogp, dentropy).
  template <class Slopes>
  void forward_backward(const ragged<std::int32_t>& sequences, const nn::targets& wanted, float temperature,
                        Slopes&& slopes) {
    nn::forward_backward(model, space, gradient_, sequences, wanted, temperature, recompute, slopes);
  }
  /// As nn::value_forward_backward: slopes(value, dvalue).
  template <class Slopes>
  void value_forward_backward(const ragged<std::int32_t>& sequences, std::span<const std::int32_t> rows,
                              Slopes&& slopes) {
    nn::value_forward_backward(model, space, gradient_, sequences, rows, recompute, slopes);
  }
  /// Clips the accumulated gradient to `grad_clip` (<= 0: no clipping) and steps, unless the gradient is not finite.
  step_outcome apply(double lr, double grad_clip) {
    const double norm = optim::global_norm(model.device(), gradient_);
    if (!std::isfinite(norm)) return {norm, true};
    optimizer_.step(model.weights(), gradient_, lr, optim::clip_scale(norm, grad_clip));
    return {norm, false};
  }

  /// Writes the files above into `folder`; `extra` goes into extra_state.json.
  void save(const std::filesystem::path& folder, const std::filesystem::path& tokenizer_folder,
            const nlohmann::ordered_json& extra = nlohmann::ordered_json::object()) const {
    save_model(folder / "huggingface", model, tokenizer_folder);
    const std::vector<float> m = to_host(model.device(), optimizer_.m()), v = to_host(model.device(), optimizer_.v());
    checkpoint::write_safetensors(folder / "optim.safetensors", moment_tensors(model.parameters(), m, v));
    nlohmann::ordered_json state{{"rlcore_version", RLCORE_VERSION_STRING}, {"optimizer_steps", optimizer_.steps()}};
    for (const auto& [key, value] : extra.items()) state[key] = value;
    checkpoint::write_file_atomically(folder / "extra_state.json", state.dump(2) + "\n");
    const nlohmann::ordered_json fsdp{{"FSDP_version", 1}, {"world_size", 1}};
    checkpoint::write_file_atomically(folder / "fsdp_config.json", fsdp.dump(2) + "\n");
  }

  /// Goes on, to the same bits, from what save() wrote; returns extra_state.json. Throws format_error when it was
  /// written for another model.
  checkpoint::json_file restore(const std::filesystem::path& folder) {
    std::vector<float> weights(model.size()), m(model.size()), v(model.size());
    checkpoint::load_weights(folder / "huggingface", model.parameters(), weights);
    const checkpoint::safetensors_reader moments(folder / "optim.safetensors");
    for (const nn::parameter& p : model.parameters()) {
      moments.read_f32("exp_avg." + p.name, std::span(m).subspan(p.offset, p.size));
      moments.read_f32("exp_avg_sq." + p.name, std::span(v).subspan(p.offset, p.size));
    }
    checkpoint::json_file extra(folder / "extra_state.json");
    const std::int64_t steps = extra.integer("optimizer_steps", 0);
    model.weights().upload(weights);
    optimizer_.m().upload(m);
    optimizer_.v().upload(v);
    optimizer_.set_steps(steps);
    return extra;
  }

 private:
  std::uint64_t seed_;
  nn::gradients<Device> gradient_;
  optim::adamw<Device> optimizer_;
};

}  // namespace trainer
RLCORE_END
