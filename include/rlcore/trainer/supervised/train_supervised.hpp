// The steps of a supervised recipe, as either command line says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/preference/settings.hpp"
#include "rlcore/trainer/supervised/base_model.hpp"
#include "rlcore/trainer/supervised/open.hpp"
#include "rlcore/trainer/supervised/openrlhf_sft.hpp"
#include "rlcore/trainer/supervised/run.hpp"
#include "rlcore/trainer/supervised/sft_settings.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

template <class Device, class Task>
void train_supervised(Device& device, const options& opt, const base_model& base, Task& task, const team& ranks,
                      const std::vector<std::string>& shown) {
  const bool openrlhf = speaks_openrlhf(opt);
  const auto [settings, training] = [&]() -> std::pair<supervised_settings, training_settings> {
    if (openrlhf) return {read_openrlhf_run(opt), read_openrlhf_training(opt)};
    sft_run_settings verl = read_sft_settings(opt);
    return {std::move(verl.run), std::move(verl.training)};
  }();
  supervised_run run(device, opt, settings, training, base, task, ranks);
  while (run.next_step()) {
    run.update();
    run.finish_step();
  }
  run.finish(shown);
  if (openrlhf && ranks.first() && run.complete()) export_model(opt);
}

}  // namespace trainer
RLCORE_END
