// Loads the reference model of DPO and KTO.
#pragma once

#include <memory>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/trainer/preference/open.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"
#include "rlcore/training/frozen_model.hpp"
#include "rlcore/training/named_model.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

/// The result of load_reference().
template <class Device>
struct loaded_reference : frozen_model<Device> {
  using frozen_model<Device>::frozen_model;
};

template <class Device>
std::shared_ptr<loaded_reference<Device>> load_reference(Device& device, const options& opt, const base_model& base,
                                                         const team& ranks) {
  const std::string name = opt.find<std::string>("ref_pretrain").value_or("");
  const bool separate = !name.empty() && named_model(opt, "ref_pretrain") != base.folder;
  if (!separate && opt.get<std::int64_t>("lora_rank") > 0) return nullptr;
  const base_model from = separate ? open_base_model(opt, "ref_pretrain") : base;
  if (from.config.vocab_size != base.config.vocab_size)
    throw config_error("--ref_pretrain: the reference has " + std::to_string(from.config.vocab_size) +
                       " tokens, the model " + std::to_string(base.config.vocab_size));
  auto model = std::make_shared<loaded_reference<Device>>(device, from.config, &ranks.world());
  model->load(from.folder);
  return model;
}

}  // namespace trainer
RLCORE_END
