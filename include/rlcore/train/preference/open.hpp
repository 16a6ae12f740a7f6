// Declarations of what a preference recipe opens: rows, models and tasks.
#pragma once

#include <filesystem>
#include <memory>

#include "rlcore/core/abi.hpp"
#include "rlcore/train/preference/answer_loss.hpp"
#include "rlcore/train/preference/rows.hpp"

RLCORE_BEGIN
namespace train {

class options;
class team;
/// A Hugging Face folder without its weights: supervised/base_model.hpp.
struct base_model;
/// How rows become tokens: row_text.hpp.
struct row_rules;
/// A frozen model: load_reference.hpp.
template <class Device>
struct loaded_reference;
template <class Device>
class dpo_task;
template <class Device>
class kto_task;
template <class Device>
class rm_task;
template <class Device>
class prm_task;

/// The rows of --dataset, and those of --eval_dataset if it is given.
template <class Row>
struct row_sets {
  preference_rows<Row> train, held_out;
};

/// Reads the folder of --pretrain. Throws config_error for a score model.
std::shared_ptr<const base_model> open_language_model(const options& opt);
/// The same for a model that is to have one number per token for a head, whatever the folder's model has.
std::shared_ptr<const base_model> open_score_model(const options& opt);

/// --apply_chat_template, --tokenizer_chat_template, --input_template, --max_len, as read_row_rules(). `base` has to
/// outlive them.
std::shared_ptr<const row_rules> open_row_rules(const options& opt, const base_model& base);

/// Reads pairs of answers, as read_pairs(). Throws data_error naming file, row and column.
row_sets<preference_pair> open_pairs(const options& opt, const pair_columns& keys, const row_rules& rules,
                                     bool for_dpo);
/// Reads answers that are desirable or not. Throws data_error naming file, row and column.
row_sets<unpaired_row> open_unpaired(const options& opt, const unpaired_columns& keys, const row_rules& rules);
/// Reads answers whose steps are judged. Throws data_error naming file, row and column.
row_sets<judged_row> open_steps(const options& opt, const step_columns& keys, const step_tokens& words,
                                const row_rules& rules);
/// The tokens of the columns' words in the vocabulary of `base`. Throws config_error: a word that is not one token,
/// repeated reward tokens.
step_tokens find_step_tokens(const base_model& base, const step_columns& keys);
/// Prints the row counts. Throws data_error if no training row is usable.
template <class Row>
void announce_rows(const options& opt, const preference_rows<Row>& train, const preference_rows<Row>& held_out);
/// The path of rlcore.eval_scores, empty for none.
std::filesystem::path scores_path(const options& opt);

/// Loads the frozen model of --ref_pretrain. Returns nullptr with LoRA and no other folder: the trained model's base
/// then serves as the reference.
template <class Device>
std::shared_ptr<loaded_reference<Device>> load_reference(Device& device, const options& opt, const base_model& base,
                                                         const team& ranks);

/// DPO and IPO: dpo_task.hpp. `reference` must outlive the task, here and below.
template <class Device>
std::shared_ptr<dpo_task<Device>> make_task(Device& device, const dpo_task_settings& settings,
                                            preference_rows<preference_pair> train,
                                            preference_rows<preference_pair> held_out,
                                            loaded_reference<Device>* reference);
/// KTO: kto_task.hpp. `rules` are those that the rows were read with.
template <class Device>
std::shared_ptr<kto_task<Device>> make_task(Device& device, const kto_task_settings& settings, const row_rules& rules,
                                            preference_rows<unpaired_row> train, preference_rows<unpaired_row> held_out,
                                            loaded_reference<Device>* reference);
/// A reward model: rm_task.hpp.
template <class Device>
std::shared_ptr<rm_task<Device>> make_task(Device& device, const rm_task_settings& settings,
                                           preference_rows<preference_pair> train,
                                           preference_rows<preference_pair> held_out);
/// A process reward model: prm_task.hpp.
template <class Device>
std::shared_ptr<prm_task<Device>> make_task(Device& device, const prm_task_settings& settings,
                                            preference_rows<judged_row> train, preference_rows<judged_row> held_out);

}  // namespace train
RLCORE_END
