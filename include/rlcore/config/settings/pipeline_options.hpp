// Keys of pipeline parallelism: stages, and the layers of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/settings.hpp"

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train::detail {

inline constexpr std::string_view actor_transformer_config =
    "actor_rollout_ref.actor.megatron.override_transformer_config";

/// A member of the actor's override_transformer_config; null if it is absent or the strategy is another.
RLCORE_INLINE const value* transformer_override(const options& opt, const strategy_keys& k, std::string_view name) {
  if (k.strategy != "megatron" || opt.known().find(actor_transformer_config) == nullptr) return nullptr;
  const value* const found = opt.at(actor_transformer_config).find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

/// The number there. Throws config_error for anything else.
RLCORE_INLINE std::optional<std::int64_t> number_override(const options& opt, const strategy_keys& k,
                                                          std::string_view name) {
  const value* const found = transformer_override(opt, k, name);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = found->as<std::int64_t>()) return *number;
  throw config_error(std::string(actor_transformer_config) + "." + std::string(name) + "=" + inline_text(*found) +
                     ": expected a number of layers or ranks");
}

/// The flag there. Throws config_error for anything else.
RLCORE_INLINE bool flag_override(const options& opt, const strategy_keys& k, std::string_view name) {
  const value* const found = transformer_override(opt, k, name);
  if (found == nullptr) return false;
  if (const auto* flag = found->as<bool>()) return *flag;
  throw config_error(std::string(actor_transformer_config) + "." + std::string(name) + "=" + inline_text(*found) +
                     ": expected True or False");
}

/// Chunks of a stage, and the key that sets them.
RLCORE_INLINE asked_size asked_chunks(const options& opt, const strategy_keys& k) {
  const std::string name = "actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size";
  if (k.strategy != "megatron" || opt.known().find(name) == nullptr) return {1, name};
  return {opt.find<std::int64_t>(name).value_or(1), name};
}

/// Throws config_error if the member context_parallel_size is not the actor's size.
RLCORE_INLINE void check_context_override(const options& opt, const strategy_keys& k) {
  const auto context = number_override(opt, k, "context_parallel_size");
  if (context && *context != k.context.ranks)
    throw config_error(std::string(actor_transformer_config) + ".context_parallel_size=" + std::to_string(*context) +
                       ": expected " + k.context.text());
}

RLCORE_INLINE parallel::pipeline_division read_pipeline(const options& opt, const strategy_keys& k, int zero) {
  parallel::pipeline_division d;
  if (k.pipeline.ranks == 1) return d;
  const std::string text = k.pipeline.text();
  if (zero > 1)
    throw config_error(text + ": expected ZeRO stage 0 or 1, not " + std::to_string(zero) +
                       "; rlcore.zero_stage=1 shares the optimizer state");
  if (const asked_size chunks = asked_chunks(opt, k); chunks.ranks > 1)
    throw config_error(chunks.text() + ": expected 1; a stage runs its layers in one chunk");
  if (const value* layout = transformer_override(opt, k, "pipeline_model_parallel_layout"))
    throw config_error(std::string(actor_transformer_config) +
                       ".pipeline_model_parallel_layout=" + inline_text(*layout) +
                       ": expected num_layers_in_first_pipeline_stage and num_layers_in_last_pipeline_stage");
  d.stages = static_cast<int>(k.pipeline.ranks);
  d.first = number_override(opt, k, "num_layers_in_first_pipeline_stage");
  d.last = number_override(opt, k, "num_layers_in_last_pipeline_stage");
  d.account_for_embedding = flag_override(opt, k, "account_for_embedding_in_pipeline_split");
  d.account_for_loss = flag_override(opt, k, "account_for_loss_in_pipeline_split");
  return d;
}

/// The members of override_transformer_config that divide layers into stages.
inline constexpr std::string_view division_overrides[] = {
    "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split", "pipeline_model_parallel_layout"};

/// A note about the members that are not read.
RLCORE_INLINE void note_unread_overrides(options& opt, const strategy_keys& k) {
  const std::string name(actor_transformer_config);
  if (opt.known().find(name) == nullptr || !opt.is_set(name)) return;
  value::map unread;
  if (const auto* members = opt.at(name).as<value::map>())
    for (const member& each : *members)
      if (k.strategy != "megatron" ||
          (each.name != "context_parallel_size" &&
           std::ranges::find(division_overrides, each.name) == std::end(division_overrides)))
        unread.push_back(each);
  if (!unread.empty()) opt.note("accepted, without effect on this device: " + name + "=" + inline_text(value(unread)));
}

RLCORE_INLINE void note_pipeline(options& opt, const strategy_keys& k) {
  note_unread_overrides(opt, k);
  if (k.pipeline.ranks > 1) return;
  if (const asked_size chunks = asked_chunks(opt, k); chunks.ranks > 1)
    opt.note(chunks.text() + ": no effect with " + k.pipeline.text());
  for (const std::string_view name : division_overrides)
    if (transformer_override(opt, k, name) != nullptr)
      opt.note(std::string(actor_transformer_config) + "." + std::string(name) + ": no effect with " +
               k.pipeline.text());
}

}  // namespace train::detail
RLCORE_END
#endif
