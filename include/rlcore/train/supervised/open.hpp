// Declarations of what a supervised recipe opens, and of its training loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

class options;
class team;
/// A Hugging Face folder without its weights: base_model.hpp.
struct base_model;
/// SFT examples and training settings: sft_work.hpp.
struct sft_work;
template <class Device, class Objective>
class sft_task;

/// Reads the folder of --pretrain, or of verl's model.partial_pretrain. Throws rlcore::error.
std::shared_ptr<const base_model> open_pretrained(const options& opt);

/// The examples of the command line of either system. Throws rlcore::error.
std::shared_ptr<sft_work> open_sft(const options& opt, const base_model& base);

/// rlcore.show_mask: prints the first examples with their loss masks.
void show_masks(const sft_work& work, const base_model& base);

/// The SFT task of `work`, taking its rows. `loss`: of each trained token, e.g. negative_log_likelihood{}.
template <class Device, class Objective>
std::shared_ptr<sft_task<Device, Objective>> make_sft_task(Device& device, sft_work& work, Objective loss);

/// All steps of a run: the gradient of a batch of the task's rows, one optimizer step, evaluation and checkpoints when
/// they are due (supervised_run in run.hpp). Then the report, the first and last values of the metrics `shown`, and
/// with OpenRLHF's flags the model in --save_path. Throws rlcore::error. train_supervised.hpp defines it.
template <class Device, class Task>
void train_supervised(Device& device, const options& opt, const base_model& base, Task& task, const team& ranks,
                      const std::vector<std::string>& shown);

}  // namespace train
RLCORE_END
