// Frozen model, such as a reference, distributed over ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/training/strategy/alone.hpp"
#include "rlcore/training/strategy/ranked.hpp"

RLCORE_BEGIN
namespace trainer {

/// Distributed like a trained model: tensor parallel ranks hold their parts, with zero 3 a shard, expert parallel ranks
/// their experts, and passes collect the rest unit by unit; otherwise each rank holds all of it.
template <class Device, class Strategy = any_strategy>
class frozen_model {
  using held_type = typename Strategy::template frozen<Device>;

 public:
  nn::causal_lm<Device> model;

  /// A model of the shape `config`; load its weights next.
  frozen_model(Device& device, const nn::config& config, Strategy strategy = {})
      : model(held_type::make_model(strategy, device, config)), held_(std::move(strategy), model) {}
  frozen_model(const frozen_model&) = delete;
  frozen_model& operator=(const frozen_model&) = delete;

  /// The weights of a Hugging Face folder. A rank with a shard reads only the shard.
  void load(const std::filesystem::path& folder, std::uint64_t seed = 1) { held_.load(folder, seed); }

 private:
  held_type held_;
};

}  // namespace trainer
RLCORE_END
