// Trainable model: weights or LoRA adapters, gradient and AdamW. train/files/trained_files.hpp loads and saves it.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/timeline.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/packed_units.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/train/model/leaf_plan.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/strategy/alone.hpp"
#include "rlcore/train/model/strategy/ranked.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"
#include "rlcore/train/model/strategy/training_strategy.hpp"

RLCORE_BEGIN
namespace train {

/// Settings of a trainable_model.
struct training_settings {
  optim::adamw_settings adamw = {};
  std::size_t logits_bytes = 0;        ///< as of nn::workspace
  bool recompute = false;              ///< activation recomputation; changes no bit
  std::uint64_t seed = 1;              ///< of a score head that the loaded folder does not have
  bool decay_norms_and_biases = true;  ///< false: weight decay is for matrices alone (OpenRLHF)
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;  ///< visual.*, including the merger: no gradient, no update, not part of the norm
  std::string base_name = {};        ///< name of the base in adapter folders; empty: the loaded folder
  double router_aux_loss = 0;        ///< above 0: adds a load-balancing loss of experts, overriding config.json
  std::size_t long_pass_tokens = train::long_pass_tokens;  ///< see leaf_plan.hpp; changes no bit
  bool save_whole = false;  ///< several ranks save the weights of huggingface/ too (verl's hf_model)
};

/// The model that adapters were attached to.
struct adapter_base {
  std::string name;         ///< in adapter folders
  std::string folder;       ///< where it was read
  std::string fingerprint;  ///< of its weights
};

/// One step of the optimizer.
struct step_settings {
  double lr = 0;         ///< learning rate
  double grad_clip = 0;  ///< largest L2 norm of the gradient (<= 0: no clipping)
};

/// The outcome of one optimizer step.
struct step_outcome {
  double gradient_norm = 0;  ///< global L2 norm before clipping
  bool skipped = false;      ///< the norm was not finite: parameters and optimizer state are untouched
};

/// `config`, with a load-balancing loss if the coefficient is above 0.
inline nn::config with_router_loss(nn::config config, double coefficient) {
  if (coefficient > 0) config.output_router_logits = true, config.router_aux_loss_coef = coefficient;
  return config;
}

/// True if training adds a load-balancing loss: like transformers, with output_router_logits.
inline bool balances(const nn::config& c) {
  return c.output_router_logits && c.router_aux_loss_coef > 0 && c.sparse_layers() > 0;
}
/// The gradient of the step's load-balancing loss with respect to each expert's probability
/// (nn::load_balancing_slopes).
inline std::vector<float> balance_slopes(const nn::config& c, const nn::router_counts& step) {
  return nn::load_balancing_slopes(step, c.router_aux_loss_coef);
}

/// One optimizer step is begin_update(), any number of forward_backward() or value_forward_backward(), apply(). LoRA
/// trains only the adapters and the head of a score model; `model` has them merged at all times.
///
/// `Strategy` defines what this rank holds and the collectives. Every rank has a trainable_model and makes the same
/// calls with the same rows; for_micro_batches() selects this rank's. strategy::alone compiles to single-rank code.
template <class Device, class Strategy = any_strategy>
class trainable_model {
  static_assert(training_strategy<Strategy, Device>,
                "rlcore: trainable_model: the second argument has to model training_strategy "
                "(train/model/strategy/training_strategy.hpp), as strategy::alone or any_strategy");
  using share_type = typename Strategy::template share<Device>;

 public:
  nn::causal_lm<Device> model;
  nn::workspace<Device> space;
  bool recompute;

  /// Throws config_error for bad LoRA settings (nn::check_lora), or if the model cannot be partitioned for these ranks.
  trainable_model(Device& device, const nn::config& config, const training_settings& s, Strategy strategy = {})
      : model(
            share_type::make_model(strategy, device, with_router_loss(config, s.router_aux_loss), s.lora.has_value())),
        space(device, s.logits_bytes),
        recompute(s.recompute),
        strategy_(std::move(strategy)),
        settings_(s),
        adapter_(s.lora ? std::optional<nn::lora<Device>>(std::in_place, model, adapters_of(s)) : std::nullopt),
        share_(strategy_, model, adapter_ ? &*adapter_ : nullptr),
        gradient_(share_.passing(), adapter()),
        optimizer_(device, share_.optimizer_size(), s.adamw) {
    share_.join(space, gradient_);
    freeze_tower(s.freeze_vision_tower);
    if (!s.decay_norms_and_biases) exempt_norms_and_biases(optimizer_, held(), pieces());
  }
  trainable_model(const trainable_model&) = delete;
  trainable_model& operator=(const trainable_model&) = delete;

  /// The gradient of all weights; there is none with LoRA.
  nn::gradients<Device>& gradient() { return gradient_.of_weights(); }
  const nn::gradients<Device>& gradient() const { return gradient_.of_weights(); }
  optim::adamw<Device>& optimizer() noexcept { return optimizer_; }
  const optim::adamw<Device>& optimizer() const noexcept { return optimizer_; }
  /// nullptr without LoRA.
  const nn::lora<Device>* adapter() const noexcept { return adapter_ ? &*adapter_ : nullptr; }
  /// The trained parameters, and the number of their values.
  std::span<const nn::parameter> trained() const noexcept {
    return adapter_ ? adapter_->parameters() : model.parameters();
  }
  std::size_t trained_size() const noexcept { return adapter_ ? adapter_->size() : model.size(); }
  /// The model that training passes use: `model`, or this rank's part of it.
  const nn::causal_lm<Device>& passing() const noexcept { return share_.passing(); }
  /// The parameters of passing(), or of the adapters.
  std::span<const nn::parameter> held() const noexcept { return share_.parameters(); }
  /// The pieces of held() in this rank's optimizer: values [first, last) of optimizer(), and where they lie in the flat
  /// parameters.
  std::vector<optim::adamw_piece> pieces() const { return share_.pieces(); }

  const Strategy& strategy() const noexcept { return strategy_; }
  /// This rank's share.
  const share_type& share() const noexcept { return share_; }
  /// The process groups of a multi-rank strategy. (A template, since clang before 16 instantiates constrained
  /// members of an explicitly instantiated class.)
  template <std::derived_from<any_strategy> S = Strategy>
  parallel::world* world() const noexcept {
    return strategy_.world();
  }
  /// The experts of all tokens of the last optimizer step; empty without a load-balancing loss.
  const nn::router_counts& routed() const noexcept { return routed_; }
  const training_settings& settings() const noexcept { return settings_; }
  /// What adapters were attached to; empty without.
  const adapter_base& base() const noexcept { return base_; }

  /// The weights of the model in this rank's memory, with LoRA those of the base: all of them, or its pieces. Packed
  /// copies are dropped: write to them before the next pass. Throws std::logic_error while weights are gathered.
  resident_weights<Device> resident() { return share_.resident(); }
  /// Attaches the adapters to the weights of `model`, which were just set; checkpoints name them `base`. Throws
  /// std::logic_error without LoRA, and while weights in shards are gathered.
  void attach_adapters(adapter_base base) {
    if (!adapter_) throw std::logic_error("rlcore: attach_adapters: all weights are trained, there are no adapters");
    base_ = std::move(base);
    adapter_->attach(model);
  }
  /// Sets the trained values of this rank, in the order of resident().values or of the adapters, the moments in the
  /// order of pieces(), and the number of steps.
  void set_state(std::span<const float> values, std::span<const float> m, std::span<const float> v,
                 std::int64_t steps) {
    share_.weights().upload(values);
    if (adapter_) adapter_->merge(model);
    optimizer_.m().upload(m);
    optimizer_.v().upload(v);
    optimizer_.set_steps(steps);
  }
  /// While the returned object lives, model.weights() are whole on every rank. Ranks may change them if all make the
  /// same change. Collective: all ranks call it. Passes do not need it: they gather the weights unit by unit, with the
  /// same number of passes on every rank (scored_groups.hpp).
  [[nodiscard]] auto gather_full_params() { return share_.gather_full_params(); }

  /// Sets the gradient to 0.
  void begin_update() {
    gradient_.zero();
    share_.begin_update();
  }

  /// Splits the rows 0 .. s.rows - 1 of an optimizer step into leaves and micro-batches; calls f(rows) for every
  /// micro-batch of this rank. `rows` (std::span<const std::uint32_t>, ascending) belong to one leaf. Row i has
  /// tokens_of(i) tokens. f calls forward_backward() or value_forward_backward() once. Every rank calls this with the
  /// same numbers, once between begin_update() and apply(). With a load-balancing loss f runs twice for each
  /// micro-batch; the first time forward_backward() only counts tokens per expert. The gradient does not depend on the
  /// micro-batches, nor, with the corresponding settings, on the ranks.
  template <class TokensOf, class F>
  void for_micro_batches(const micro_batch_settings& s, TokensOf&& tokens_of, F&& f) {
    for_micro_batches(s, tokens_of, [](std::uint32_t) { return std::span<const nn::image_patches>(); }, f);
  }
  /// The same for rows with images, images_of(row) each: row balancing includes the cost of the tower.
  template <class TokensOf, class ImagesOf, class F>
  void for_micro_batches(const micro_batch_settings& s, TokensOf&& tokens_of, ImagesOf&& images_of, F&& f) {
    const leaf_plan plan = plan_leaves(model.settings(), strategy_.settings(), s, tokens_of, images_of);
    const pass_units units(*this, plan);
    if (balances(model.settings())) balance_experts(plan, f);
    share_.micro_batches(plan, gradient_, recompute, f);
  }
  /// Calls f for the same passes without a gradient, in which it calls chosen_experts() once. For models with experts.
  template <class TokensOf, class ImagesOf, class F>
  void for_passes(const micro_batch_settings& s, TokensOf&& tokens_of, ImagesOf&& images_of, F&& f) {
    const leaf_plan plan = plan_leaves(model.settings(), strategy_.settings(), s, tokens_of, images_of);
    const pass_units units(*this, plan);
    nn::router_counts unread;
    count_experts(plan, unread, f);
  }
  /// As nn::chosen_experts.
  std::vector<std::int16_t> chosen_experts(const nn::input& sequences) {
    return nn::chosen_experts(passing(), space, sequences);
  }
  /// As nn::forward_backward: slopes(logp, entropy, dlogp, dentropy). Sequences are text, or text and images.
  template <class Slopes>
  void forward_backward(const nn::input& sequences, const nn::targets& wanted, float temperature, Slopes&& slopes) {
    if (counting_) return nn::count_routes(passing(), space, sequences, routed_);
    const timeline::span traced("micro-batch", "tokens", std::ssize(sequences.tokens.values));
    if (pass_on(sequences, wanted.row)) return;
    gradient_.with(
        [&](auto& g) { nn::forward_backward(passing(), space, g, sequences, wanted, temperature, recompute, slopes); });
  }
  /// As nn::value_forward_backward: slopes(value, dvalue).
  template <class Slopes>
  void value_forward_backward(const nn::input& sequences, std::span<const std::int32_t> rows, Slopes&& slopes) {
    if (counting_) return nn::count_routes(passing(), space, sequences, routed_);
    const timeline::span traced("micro-batch", "tokens", std::ssize(sequences.tokens.values));
    if (pass_on(sequences, rows)) return;
    gradient_.with(
        [&](auto& g) { nn::value_forward_backward(passing(), space, g, sequences, rows, recompute, slopes); });
  }
  /// Clips the accumulated gradient and takes the optimizer step. Skips the step, on all ranks, if the gradient is not
  /// finite.
  step_outcome apply(const step_settings& s) {
    step_outcome outcome;
    {
      const timeline::span traced("gradient sums");
      outcome.gradient_norm = share_.reduce(gradient_);
    }
    outcome.skipped = !std::isfinite(outcome.gradient_norm);
    if (outcome.skipped) return outcome;
    const timeline::span traced("optimizer");
    share_.step(optimizer_, s.lr, optim::clip_scale(outcome.gradient_norm, s.grad_clip));
    if (adapter_) adapter_->merge(model);
    return outcome;
  }

  /// Frees the memory of gradients and of packed units, until the next step needs it: for runs that do other things
  /// between steps.
  void release_gradients() {
    share_.release(gradient_);
    if (packer_) packer_->rest();
  }

  /// Runs f() without the adapters: the reference model of LoRA. Throws std::logic_error without LoRA, and while
  /// weights in shards are gathered.
  template <class F>
  void with_base(F&& f) {
    if (!adapter_) throw std::logic_error("rlcore: with_base: all weights are trained, there is no base");
    adapter_->with_base(model, std::forward<F>(f));
  }

 private:
  /// In a stage of a pipeline that is not the last: makes the forward of the pass and keeps it for its backward, which
  /// for_micro_batches() makes; slopes are not called.
  bool pass_on(const nn::input& sequences, std::span<const std::int32_t> rows) {
    if constexpr (requires { share_.stage(); })
      if (auto* const stage = share_.stage(); stage != nullptr && !stage->last()) {
        stage->forward(sequences, rows, recompute);
        return true;
      }
    return false;
  }

  /// While it lives, passes pack weights unit by unit, if they are long and the weights are in memory; then there is no
  /// packed copy of the whole model.
  class pass_units {
   public:
    pass_units(trainable_model& t, const leaf_plan& plan) : space_(t.space) {
      const nn::causal_lm<Device>& m = t.passing();
      const nn::config& c = m.settings();
      std::size_t ranks = 1;  // that share a pass
      if constexpr (std::derived_from<Strategy, any_strategy>)
        ranks = static_cast<std::size_t>(t.world()->context().size());
      const bool whole = m.units() == nullptr && m.part().expert_size == 1 && !m.part().stage.split();
      if (!whole || !packs_units(plan.tokens_per_pass() / ranks, t.settings_.long_pass_tokens, c.num_experts,
                                 c.num_experts_per_tok))
        return;
      m.free_packed();
      if (!t.packer_) t.packer_.emplace(m);
      space_.units = &*t.packer_;
    }
    ~pass_units() { space_.units = nullptr; }
    pass_units(const pass_units&) = delete;
    pass_units& operator=(const pass_units&) = delete;

   private:
    nn::workspace<Device>& space_;
  };
  /// A frozen tower has no adapters.
  static nn::lora_settings adapters_of(const training_settings& s) {
    nn::lora_settings lora = *s.lora;
    if (s.freeze_vision_tower)
      lora.excluded = [excluded = lora.excluded](const std::string& module) {
        return module.starts_with("visual.") || (excluded && excluded(module));
      };
    return lora;
  }
  /// With adapters the tower is trained if it has adapters.
  void freeze_tower(bool asked) {
    if (asked && !model.settings().vision)
      throw config_error("freeze_vision_tower: the model has no vision tower (no vision_config in config.json)");
    model.freeze_tower(asked || (adapter_ && !adapter_->adapts_tower()));
    if (asked && !adapter_) freeze_parameters(optimizer_, held(), pieces(), "visual.");
  }
  /// Calls f for all micro-batches to count their experts: a load-balancing loss needs the counts before its gradient.
  template <class F>
  void balance_experts(const leaf_plan& plan, F&& f) {
    counting_ = true;
    count_experts(plan, routed_, f);
    counting_ = false;
    gradient_.balance(balance_slopes(model.settings(), routed_));
  }
  /// Calls f, which makes a forward, for all micro-batches.
  template <class F>
  void count_experts(const leaf_plan& plan, nn::router_counts& counts, F&& f) {
    counts.reset(static_cast<std::size_t>(model.settings().num_experts));
    const ragged<std::int32_t> none;
    share_.count_passes(plan, counts, f, [&] { nn::count_routes(passing(), space, none, counts); });
  }

  Strategy strategy_;
  training_settings settings_;
  bool counting_ = false;
  adapter_base base_;
  std::optional<nn::lora<Device>> adapter_;
  share_type share_;
  nn::router_counts routed_;
  std::optional<nn::unit_packer<Device>> packer_;  // made at the first step of long passes
  step_gradient<Device> gradient_;
  optim::adamw<Device> optimizer_;
};

/// Distributed like a trained model: tensor parallel ranks hold their parts, with zero 3 a shard, expert parallel ranks
/// their experts, and passes collect the rest unit by unit; otherwise each rank holds all of it.
template <class Device, class Strategy = any_strategy>
class frozen_model {
  using held_type = typename Strategy::template frozen<Device>;

 public:
  nn::causal_lm<Device> model;

  /// A model of the shape `config`; load its weights next. `packed`: a model that this rank holds as a whole
  /// has them in packed form alone (nn::weights_in::packed), half the memory.
  frozen_model(Device& device, const nn::config& config, Strategy strategy = {}, bool packed = false)
      : model(held_type::make_model(strategy, device, config, packed)), held_(std::move(strategy), model) {}
  frozen_model(const frozen_model&) = delete;
  frozen_model& operator=(const frozen_model&) = delete;

  /// The weights in this rank's memory; not of a model in packed form alone.
  resident_weights<Device> resident() { return held_.resident(); }

 private:
  held_type held_;
};

/// Whether losses of `m` can be computed in device memory, without copying log-probs or slopes to the host: the device
/// can run losses, its memory is not host memory, and this rank holds all log-probs of its rows (not the case under
/// context parallelism).
template <class Device>
bool loss_stays_on_device(const trainable_model<Device>& m) {
  if constexpr (loss_device<Device> && !Device::host_readable) {
    if constexpr (requires { m.model.device().losses_stay(); })
      if (!m.model.device().losses_stay()) return false;
    return m.world() == nullptr || m.world()->context().size() == 1;
  } else {
    return false;
  }
}

}  // namespace train

RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace train {

extern template class trainable_model<cpu>;
extern template class trainable_model<any_device>;

}  // namespace train
RLCORE_END
#endif
