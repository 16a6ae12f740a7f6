// The supervised trainers on a device chosen at run time, compiled once for many programs (the targets
// rlcore::trainers and rlcore::supervised_trainers).
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/train/preference/dpo_task.hpp"
#include "rlcore/train/preference/kto_task.hpp"
#include "rlcore/train/preference/prm_task.hpp"
#include "rlcore/train/preference/reference.hpp"
#include "rlcore/train/preference/rm_task.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"
#include "rlcore/train/supervised/run.hpp"
#include "rlcore/train/supervised/sft_work.hpp"

RLCORE_BEGIN
namespace train {
using texts = std::vector<std::string>;
using pairs = preference_rows<preference_pair>;
using answers = preference_rows<unpaired_row>;
using judged = preference_rows<judged_row>;
template <class Task>
using made = std::shared_ptr<Task>;

// train/preference/parts.hpp
template void announce_rows(const options&, const pairs&, const pairs&);
template void announce_rows(const options&, const answers&, const answers&);
template void announce_rows(const options&, const judged&, const judged&);
template made<loaded_reference<any_device>> load_reference(any_device&, const options&, const base_model&, const team&);
template made<dpo_task<any_device>> make_task(any_device&, const dpo_task_settings&, pairs, pairs,
                                              loaded_reference<any_device>*);
template made<kto_task<any_device>> make_task(any_device&, const kto_task_settings&, const row_rules&, answers, answers,
                                              loaded_reference<any_device>*);
template made<rm_task<any_device>> make_task(any_device&, const rm_task_settings&, pairs, pairs);
template made<prm_task<any_device>> make_task(any_device&, const prm_task_settings&, judged, judged);
template void train_supervised(any_device&, const options&, const base_model&, dpo_task<any_device>&, const team&,
                               const texts&);
template void train_supervised(any_device&, const options&, const base_model&, kto_task<any_device>&, const team&,
                               const texts&);
template void train_supervised(any_device&, const options&, const base_model&, rm_task<any_device>&, const team&,
                               const texts&);
template void train_supervised(any_device&, const options&, const base_model&, prm_task<any_device>&, const team&,
                               const texts&);

// train/supervised/parts.hpp
using likelihood_task = sft_task<any_device, negative_log_likelihood>;
using dft_task = sft_task<any_device, dft>;
template made<likelihood_task> make_sft_task(any_device&, sft_work&, negative_log_likelihood);
template made<dft_task> make_sft_task(any_device&, sft_work&, dft);
template void train_supervised(any_device&, const options&, const base_model&, likelihood_task&, const team&,
                               const texts&);
template void train_supervised(any_device&, const options&, const base_model&, dft_task&, const team&, const texts&);
}  // namespace train
RLCORE_END
