// The model in training: a model or its adapters, their gradient, AdamW, and how all of it is saved and restored.
//
//   huggingface/         full weights (F32), with adapters merged, config, tokenizer: loads in transformers
//   lora_adapter/        with LoRA: the adapters, as PEFT writes them
//   optim.safetensors    exp_avg.<parameter>, exp_avg_sq.<parameter> of what is trained
//   extra_state.json     optimizer steps, with LoRA the fingerprint of the base, and what the caller adds
//   fsdp_config.json     {"FSDP_version": 1, "world_size": 1}
//
// Several ranks write the folders of sharded_state.hpp instead of huggingface/*.safetensors and optim.safetensors. Any
// number of ranks reads the files of any other number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/model/value_forward_backward.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/clip.hpp"
#include "rlcore/training/expert_passes.hpp"
#include "rlcore/training/files/adapter_files.hpp"
#include "rlcore/training/files/fingerprint.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/leaf_plan.hpp"
#include "rlcore/training/rank_model.hpp"
#include "rlcore/training/sharded/counted_ranges.hpp"
#include "rlcore/training/sharded/expert_shards.hpp"
#include "rlcore/training/sharded/sharded_state.hpp"
#include "rlcore/training/sharded/sharded_update.hpp"
#include "rlcore/training/sharded/sharded_weights.hpp"
#include "rlcore/training/sharded_passes.hpp"
#include "rlcore/training/training_settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// One optimizer step is begin_update(), any number of forward_backward() or value_forward_backward(), apply(). LoRA
/// trains only the adapters and the head of a score model; `model` has them merged at all times.
///
/// With a `world` every rank has a trained model and makes the same calls with the same rows; for_micro_batches() picks
/// this rank's rows. parallel_settings::zero says what the ranks hold in shards. Adapters are never cut further than
/// zero 2; their base is whole on every rank.
template <class Device>
class trainable_model {
 public:
  nn::causal_lm<Device> model;
  nn::workspace<Device> space;
  bool recompute;

  /// Throws config_error for bad LoRA settings (nn::check_lora), or for ranks that the model cannot be cut for.
  trainable_model(Device& device, const nn::config& config, const training_settings& s,
                  parallel::world* world = nullptr)
      : model(device, config_of(with_router_loss(config, s.router_aux_loss), world), part_of(world),
              (has_shards(world) || divides_experts(world)) && !s.lora),
        space(device, s.logits_bytes),
        recompute(s.recompute),
        seed_(s.seed),
        base_name_(s.base_name),
        save_whole_(s.save_whole),
        adapter_(s.lora ? std::optional<nn::lora<Device>>(std::in_place, model, *s.lora) : std::nullopt),
        world_(world),
        divided_(divides_experts(world) && !s.lora ? std::make_unique<expert_shards<Device>>(model, *world) : nullptr),
        sharded_(make_sharded(device)),
        units_(has_shards(world) && !s.lora
                   ? std::make_unique<sharded_weights<Device>>(model, *world, !world->settings().reshard_after_forward)
                   : nullptr),
        optimizer_(device, optimizer_size(), s.adamw) {
    if (adapter_)
      adapter_gradient_.emplace(model, *adapter_);
    else
      gradient_.emplace(passing(), units_ != nullptr);
    if (world_ && world_->context().size() > 1) space.context = {&world_->context(), world_->settings().how_context};
    nn::check_context(device, model.blocks().front().self_attention.shape, space.context);
    if (world_ && world_->tensor().size() > 1)
      model.set_tensor_group(&tensor_.emplace(world_->tensor(), world_->settings().sequence_parallel));
    if (divided_ && tensor_) divided_->part.set_tensor_group(&*tensor_);
    if (world_ && world_->expert().size() > 1)
      experts_.emplace(*world_, passing(), space, gradient_ ? &*gradient_ : nullptr,
                       divided_ && !sharded_->sums().by_leaf());
    if (!s.decay_norms_and_biases) exempt_norms_and_biases(optimizer_, held(), pieces());
  }
  trainable_model(const trainable_model&) = delete;
  trainable_model& operator=(const trainable_model&) = delete;

  /// The gradient of all weights; there is none with LoRA.
  nn::gradients<Device>& gradient() { return gradient_.value(); }
  const nn::gradients<Device>& gradient() const { return gradient_.value(); }
  optim::adamw<Device>& optimizer() noexcept { return optimizer_; }
  const optim::adamw<Device>& optimizer() const noexcept { return optimizer_; }
  /// nullptr without LoRA.
  const nn::lora<Device>* adapter() const noexcept { return adapter_ ? &*adapter_ : nullptr; }
  /// The trained parameters, and the number of their values.
  std::span<const nn::parameter> trained() const noexcept {
    return adapter_ ? adapter_->parameters() : model.parameters();
  }
  std::size_t trained_size() const noexcept { return adapter_ ? adapter_->size() : model.size(); }
  /// The model that training passes use: `model`, or its part with this rank's experts.
  const nn::causal_lm<Device>& passing() const noexcept { return divided_ ? divided_->part : model; }
  /// The parameters of passing(), or of the adapters.
  std::span<const nn::parameter> held() const noexcept { return divided_ ? divided_->part.parameters() : trained(); }

  /// Loads the weights of a Hugging Face folder, with LoRA the base of the adapters. A score model may load a causal
  /// one: the seed then initialises its head.
  void load(const std::filesystem::path& folder) {
    if (units_) return units_->load(folder, seed_);
    if (divided_) return divided_->load(folder, seed_);
    load_model(model, folder, seed_);
    if (!adapter_) return;
    base_folder_ = folder;
    if (base_name_.empty()) base_name_ = folder.string();
    fingerprint_ = weights_fingerprint(model);
    adapter_->attach(model);
  }

  parallel::world* world() const noexcept { return world_; }
  /// The experts of all tokens of the last optimizer step; empty without a load-balancing loss.
  const nn::router_counts& routed() const noexcept { return routed_; }
  /// A line worth printing after restore(), or empty.
  const std::string& notice() const noexcept { return notice_; }
  /// The pieces of held() in this rank's optimizer: values [first, last) of optimizer(), and where they lie in the flat
  /// parameters. Without zero 1 or more this is everything.
  std::vector<optim::adamw_piece> pieces() const {
    if (!sharded_) return {{0, trained_size(), 0}};
    std::vector<optim::adamw_piece> owned(sharded_->pieces().begin(), sharded_->pieces().end());
    if (divided_)
      for (const optim::adamw_piece& p : divided_->pieces(sharded_->shard_size())) owned.push_back(p);
    return owned;
  }

  /// The trained weights in the places of pieces() if this rank holds only these (zero 3), otherwise nullptr.
  const float* own_weights() const noexcept { return units_ ? units_->shard().data() : nullptr; }
  /// While the returned object lives, model.weights() are whole on every rank. Ranks may change them if all make the
  /// same change. All ranks have to call it. Passes do not need it: they collect the weights unit by unit, and every
  /// rank makes the same number of them (scored_groups.hpp).
  [[nodiscard]] full_params<Device> gather_full_params() {
    return full_params<Device>(divided_ ? static_cast<gathered_layers<Device>*>(divided_.get()) : units_.get());
  }

  /// Sets the gradient to 0.
  void begin_update() {
    with_gradient([](auto& g) { g.zero(); });
    dealt_ = false;
  }

  /// Deals the rows 0 .. count - 1 of an optimizer step to leaves and the leaves to ranks, then calls f(rows) for every
  /// micro-batch of this rank. `rows` (std::span<const std::uint32_t>, ascending) belong to one leaf. A micro-batch has
  /// at most `max_rows` rows and `max_tokens` tokens (0: no limit), tokens_of(row) each; a single longer row goes
  /// alone. f calls forward_backward() or value_forward_backward() once. Every rank calls this with the same numbers,
  /// between begin_update() and apply(). With a load-balancing loss f runs twice for each micro-batch; the first time
  /// forward_backward() only counts the experts that tokens are sent to. The gradient does not depend on the
  /// micro-batches, nor, if the settings say so, on the ranks.
  template <class TokensOf, class F>
  void for_micro_batches(std::size_t count, std::int64_t max_rows, std::int64_t max_tokens, TokensOf&& tokens_of,
                         F&& f) {
    std::vector<std::int64_t> tokens(count);
    for (std::size_t i = 0; i < count; ++i)
      tokens[i] = static_cast<std::int64_t>(tokens_of(static_cast<std::uint32_t>(i)));
    const bool alone = world_ == nullptr;
    const leaf_plan plan(model.settings(), std::move(tokens), alone ? 1 : sharded_->sums().schedule().leaves(),
                         !alone && world_->settings().balance, max_rows, max_tokens);
    balance_experts(plan, f);
    if (alone) return plan.for_each_pass(0, f);
    if (std::exchange(dealt_, true)) throw std::logic_error("rlcore: for_micro_batches: once in an optimizer step");
    const parallel::leaf_schedule& schedule = sharded_->sums().schedule();
    sharded_->sums().begin(plan.present());
    if (divided_) divided_->sums().begin(plan.present());
    for (std::size_t round = 0; round < schedule.rounds(); ++round) {
      const std::size_t leaf = schedule.leaf(static_cast<std::size_t>(world_->data().rank()), round);
      const bool has_rows = leaf != schedule.none && !plan.empty(leaf), by_leaf = sharded_->sums().by_leaf();
      const std::size_t most = model.units() || experts_ ? plan.most_passes(schedule, round) : 0;
      if (most == 1 && gradient_->can_go_by_units()) {
        unit_round(model, *gradient_, sharded_->sums(), plan, leaf, round, f);
        continue;
      }
      std::size_t passes = 0;
      if (has_rows) plan.for_each_pass(leaf, [&](std::span<const std::uint32_t> rows) { f(rows), ++passes; });
      for (; passes < most; ++passes) experts_ ? experts_->idle(recompute) : idle_pass(model, [](std::size_t) {});
      if (experts_ && !divided_ && by_leaf) experts_->end_leaf(has_rows);
      if (divided_ && by_leaf)
        divided_->take(round, *gradient_, has_rows, sharded_->sums());
      else if (!has_rows && !divided_)
        sharded_->sums().skip(round);
      else if (by_leaf)
        weight_sync(round);
    }
    if (sharded_->sums().by_leaf()) return;
    if (divided_) return divided_->take_sums(*gradient_, sharded_->sums());
    if (experts_) experts_->end_leaf(true);
    weight_sync(0);
  }
  /// As nn::forward_backward: slopes(logp, entropy, dlogp, dentropy).
  template <class Slopes>
  void forward_backward(const ragged<std::int32_t>& sequences, const nn::targets& wanted, float temperature,
                        Slopes&& slopes) {
    if (counting_) return nn::count_routes(passing(), space, sequences, routed_);
    with_gradient(
        [&](auto& g) { nn::forward_backward(passing(), space, g, sequences, wanted, temperature, recompute, slopes); });
  }
  /// As nn::value_forward_backward: slopes(value, dvalue).
  template <class Slopes>
  void value_forward_backward(const ragged<std::int32_t>& sequences, std::span<const std::int32_t> rows,
                              Slopes&& slopes) {
    if (counting_) return nn::count_routes(passing(), space, sequences, routed_);
    with_gradient(
        [&](auto& g) { nn::value_forward_backward(passing(), space, g, sequences, rows, recompute, slopes); });
  }
  /// Clips the accumulated gradient to `grad_clip` (<= 0: no clipping) and takes the optimizer step. Skips the step, on
  /// all ranks, if the gradient is not finite.
  step_outcome apply(double lr, double grad_clip) {
    if (world_) return apply_shared(lr, grad_clip);
    step_outcome outcome;
    with_gradient([&](auto& g) {
      outcome.gradient_norm = optim::global_norm(model.device(), g);
      outcome.skipped = !std::isfinite(outcome.gradient_norm);
      if (outcome.skipped) return;
      const float scale = optim::clip_scale(outcome.gradient_norm, grad_clip);
      optimizer_.step(adapter_ ? adapter_->values() : model.weights(), g, lr, scale);
    });
    if (adapter_ && !outcome.skipped) adapter_->merge(model);
    return outcome;
  }

  /// Runs f() without the adapters: the reference model of LoRA. Throws std::logic_error without LoRA.
  template <class F>
  void with_base(F&& f) {
    if (!adapter_) throw std::logic_error("rlcore: with_base: all weights are trained, there is no base");
    adapter_->with_base(model, std::forward<F>(f));
  }

  /// Writes the files above into `folder`, all ranks together; rank 0's `extra` goes into extra_state.json.
  void save(const std::filesystem::path& folder, const std::filesystem::path& tokenizer_folder,
            const nlohmann::ordered_json& extra = nlohmann::ordered_json::object()) const {
    nlohmann::ordered_json state{{"rlcore_version", RLCORE_VERSION_STRING}, {"optimizer_steps", optimizer_.steps()}};
    if (world_)
      state["sums"] = settings_of_sums(world_->settings(), static_cast<int>(model.settings().tp_reduce_chunks));
    if (adapter_) state["base_fingerprint"] = fingerprint_;
    for (const auto& [key, value] : extra.items()) state[key] = value;
    const int ranks = world_ ? world_->all().size() : 1;
    if (ranks > 1) return save_together(folder, tokenizer_folder, state);
    save_model(folder / "huggingface", model, tokenizer_folder);
    if (adapter_)
      save_adapter(folder, model.settings(), adapter_->settings(), base_name_, trained(),
                   to_host(model.device(), adapter_->values()));
    const std::vector<float> m = to_host(model.device(), optimizer_.m()), v = to_host(model.device(), optimizer_.v());
    checkpoint::write_safetensors(folder / "optim.safetensors", moment_tensors(trained(), m, v));
    save_settings(folder, state, ranks);
  }

  /// Restores what save() wrote, to the same bits; returns extra_state.json. With LoRA the base has to be loaded
  /// before. Throws format_error for another model, config_error for other LoRA settings or another base.
  checkpoint::json_file restore(const std::filesystem::path& folder) {
    checkpoint::json_file extra(folder / "extra_state.json");
    const std::int64_t steps = extra.integer("optimizer_steps", 0);
    if (world_)
      notice_ = sums_notice(folder, extra,
                            settings_of_sums(world_->settings(), static_cast<int>(model.settings().tp_reduce_chunks)));
    check_adapter(folder, extra, adapter_ ? &adapter_->settings() : nullptr, {base_folder_, fingerprint_});
    if (units_ && units_->gathered()) throw std::logic_error("rlcore: restore: weights are gathered");
    const std::vector<owned_run> runs = owned_runs(held(), pieces());
    std::vector<float> values(units_ ? optimizer_.size() : divided_ ? divided_->part.size() : trained_size());
    std::vector<float> m(optimizer_.size()), v(m.size());
    if (adapter_)
      read_adapter(folder, trained(), values);
    else if (units_ || divided_)
      read_weights(folder, trained(), units_ ? runs : divided_->runs(), values);
    else
      checkpoint::load_weights(folder / "huggingface", trained(), values);
    read_moments(folder, runs, m, v);
    (units_ ? units_->shard() : trained_weights()).upload(values);
    if (adapter_) adapter_->merge(model);
    optimizer_.m().upload(m);
    optimizer_.v().upload(v);
    optimizer_.set_steps(steps);
    return extra;
  }

 private:
  template <class F>
  void with_gradient(F&& f) {
    if (adapter_gradient_)
      f(*adapter_gradient_);
    else
      f(*gradient_);
  }

  std::optional<sharded_update<Device>> make_sharded(Device& device) {
    if (!world_) return std::nullopt;
    const std::span<const nn::parameter> shared = divided_ ? divided_->shared_parameters() : trained();
    return std::optional<sharded_update<Device>>(
        std::in_place, device, *world_, adapter_ ? std::vector<std::size_t>{adapter_->size()} : nn::unit_ends(shared),
        counted_ranges(shared, model.part().tensor_rank), nn::expert_begins(shared));
  }
  std::size_t optimizer_size() const {
    return (sharded_ ? sharded_->shard_size() : trained_size()) + (divided_ ? divided_->shard_size() : 0);
  }

  /// Calls f for all micro-batches to count their experts: a load-balancing loss needs the counts before its gradient.
  template <class F>
  void balance_experts(const leaf_plan& plan, F&& f) {
    if (!balances(model.settings())) return;
    counting_ = true;
    count_step(plan, world_ ? &sharded_->sums().schedule() : nullptr, world_, routed_, model.settings().num_experts, f,
               [&] { nn::count_routes(passing(), space, {}, routed_); });
    counting_ = false;
    with_gradient([&](auto& g) { g.balance(balance_slopes(model.settings(), routed_)); });
  }
  void weight_sync(std::size_t round) {
    with_gradient([&](auto& g) {
      buffer<float, Device> leaf;
      g.swap(leaf);
      sharded_->sums().take(round, leaf);
      g.give(std::move(leaf));
    });
  }
  step_outcome apply_shared(double lr, double grad_clip) {
    if (!dealt_) {
      if (world_->all().size() > 1)
        throw std::logic_error("rlcore: apply: rows have to be dealt to ranks by for_micro_batches");
      sharded_->sums().begin(std::vector<bool>(sharded_->sums().schedule().leaves(), true));
      weight_sync(0);
    }
    const float *gradient = sharded_->sums().finish(), *of_experts = divided_ ? divided_->sums().finish() : nullptr;
    step_outcome outcome;
    outcome.gradient_norm = sharded_->norm(gradient, divided_ ? &divided_->squares_of(of_experts) : nullptr);
    outcome.skipped = !std::isfinite(outcome.gradient_norm);
    if (outcome.skipped) return outcome;
    const float scale = optim::clip_scale(outcome.gradient_norm, grad_clip);
    if (units_) {
      if (units_->gathered()) throw std::logic_error("rlcore: apply: weights are gathered");
      optimizer_.step(units_->shard(), std::span<const float>(gradient, optimizer_.size()), lr, scale);
      return outcome;
    }
    float* weights = trained_weights().data();
    optimizer_.step(sharded_->pieces(), weights, gradient, lr, scale);
    sharded_->gather(weights);
    if (divided_) divided_->step(optimizer_, sharded_->shard_size(), of_experts, lr, scale);
    if (adapter_) adapter_->merge(model);
    return outcome;
  }

  void save_together(const std::filesystem::path& folder, const std::filesystem::path& tokenizer_folder,
                     const nlohmann::ordered_json& state) const {
    parallel::any_communicator& ranks = world_->all();
    const auto weights = [&](const owned_run& r) {
      return units_ ? units_->shard().data() + r.moments : trained_weights().data() + r.weights;
    };
    save_runs(ranks, folder, adapter_ ? "adapter" : "weights", owned_runs(held(), pieces()), model.device(), weights,
              optimizer_.m().data(), optimizer_.v().data());
    if (world_->first()) {
      save_config(folder / "huggingface", model, tokenizer_folder);
      if (adapter_) save_adapter_of_shards(folder, model.settings(), adapter_->settings(), base_name_, trained());
      save_settings(folder, state, ranks.size());
    }
    if (save_whole_ && adapter_)
      save_whole_weights(ranks, folder, model.parameters(), model.device(), model.weights().data());
    if (save_whole_ && !adapter_) save_weights_of_shards(ranks, folder, folder / checkpoint::shard_folder_name);
    ranks.barrier();
  }
  const buffer<float, Device>& trained_weights() const { return adapter_ ? adapter_->values() : passing().weights(); }
  buffer<float, Device>& trained_weights() {
    return adapter_ ? adapter_->values() : (divided_ ? divided_->part : model).weights();
  }

  std::uint64_t seed_;
  std::string base_name_, fingerprint_, notice_;
  bool save_whole_;
  std::filesystem::path base_folder_;
  std::optional<nn::lora<Device>> adapter_;
  parallel::world* world_ = nullptr;
  bool dealt_ = false, counting_ = false;
  std::optional<nn::tensor_group_of<parallel::any_communicator>> tensor_;
  std::unique_ptr<expert_shards<Device>> divided_;  // unless zero 3
  std::optional<sharded_update<Device>> sharded_;
  std::unique_ptr<sharded_weights<Device>> units_;  // zero 3
  std::optional<expert_passes<Device>> experts_;
  nn::router_counts routed_;
  std::optional<nn::gradients<Device>> gradient_;               // of all weights, or
  std::optional<nn::lora_gradients<Device>> adapter_gradient_;  // of the adapters
  optim::adamw<Device> optimizer_;
};

}  // namespace trainer
RLCORE_END
