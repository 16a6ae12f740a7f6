// Models in training, under a strategy chosen at run time, and their files (the target rlcore::train).
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
template class train::trainable_model<cpu>;
template class train::trainable_model<any_device>;
template void train::load_weights(trainable_model<cpu>&, const std::filesystem::path&);
template void train::load_weights(trainable_model<any_device>&, const std::filesystem::path&);
template void train::load_weights(frozen_model<cpu>&, const std::filesystem::path&, std::uint64_t);
template void train::load_weights(frozen_model<any_device>&, const std::filesystem::path&, std::uint64_t);
template void train::save_checkpoint(const trainable_model<cpu>&, const std::filesystem::path&, const model_source&,
                                     const nlohmann::ordered_json&);
template void train::save_checkpoint(const trainable_model<any_device>&, const std::filesystem::path&,
                                     const model_source&, const nlohmann::ordered_json&);
template train::restored_checkpoint train::restore_checkpoint(trainable_model<cpu>&, const std::filesystem::path&);
template train::restored_checkpoint train::restore_checkpoint(trainable_model<any_device>&,
                                                              const std::filesystem::path&);
RLCORE_END
