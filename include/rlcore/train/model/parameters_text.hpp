// Parameter counts of a model in training, in total and on this rank.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
namespace train {

/// The number of parameters of the whole model, whatever part of it is on this rank.
template <class Device, class Strategy>
std::size_t whole_size(const trainable_model<Device, Strategy>& model) {
  const nn::causal_lm<Device>& here = model.model;
  if (here.part().tensor_size == 1 && !here.part().stage.split()) return here.size();
  return nn::causal_lm<Device>(here.device(), here.settings(), {}, nn::weights_in::units)
      .size();  // without memory for weights
}

/// The number of trained parameters of the whole model: with LoRA those of the adapters. (model.trained_size() is this
/// rank's.)
template <class Device, class Strategy>
std::size_t whole_trained_size(const trainable_model<Device, Strategy>& model) {
  if (model.adapter() == nullptr) return whole_size(model);
  std::size_t size = 0;
  for (const nn::parameter& p : model.adapter()->all_parameters()) size += parallel::elements_of(p.whole_shape());
  return size;
}

/// "0.143 M parameters"; with tensor or expert parallelism "0.143 M parameters, 0.0716 M of them on this rank".
template <class Device, class Strategy>
std::string parameters_text(const trainable_model<Device, Strategy>& model) {
  const std::size_t all = whole_size(model), here = model.passing().size();
  std::string text = fmt::format("{:.3g} M parameters", static_cast<double>(all) * 1e-6);
  if (here != all) text += fmt::format(", {:.3g} M of them on this rank", static_cast<double>(here) * 1e-6);
  return text;
}

}  // namespace train
RLCORE_END
