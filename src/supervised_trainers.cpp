// The supervised trainers on a device chosen at run time, compiled once for many programs (the targets
// rlcore::trainers and rlcore::supervised_trainers).
#include "rlcore/trainer/preference/parts.hpp"
#include "rlcore/trainer/supervised/parts.hpp"

RLCORE_BEGIN
namespace trainer {
template std::unique_ptr<frozen_model<any_device>> load_reference(any_device&, const options&, const base_model&,
                                                                  const team&);
template class frozen_model<any_device>;
template class dpo_task<any_device>;
template class kto_task<any_device>;
template class rm_task<any_device>;
template class prm_task<any_device>;
template class supervised_run<any_device, sft_task<any_device, negative_log_likelihood>>;
template class supervised_run<any_device, sft_task<any_device, dft>>;
template class supervised_run<any_device, dpo_task<any_device>>;
template class supervised_run<any_device, kto_task<any_device>>;
template class supervised_run<any_device, rm_task<any_device>>;
template class supervised_run<any_device, prm_task<any_device>>;
}  // namespace trainer
RLCORE_END
