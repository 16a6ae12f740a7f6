// A model that one rank holds and does not train.
#pragma once

#include <cstdint>
#include <filesystem>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/strategy/alone.hpp"
#include "rlcore/training/files/model_files.hpp"

RLCORE_BEGIN
namespace strategy {

/// Nothing beside the model.
template <class Device>
class alone::frozen {
 public:
  /// The whole model.
  static nn::causal_lm<Device> make_model(const alone&, Device& device, const nn::config& config) {
    return nn::causal_lm<Device>(device, config);
  }
  /// `model` has to outlive this.
  frozen(const alone&, nn::causal_lm<Device>& model) : model_(&model) {}
  /// All weights of the folder.
  void load(const std::filesystem::path& folder, std::uint64_t seed) { trainer::load_model(*model_, folder, seed); }

 private:
  nn::causal_lm<Device>* model_;
};

}  // namespace strategy
RLCORE_END
