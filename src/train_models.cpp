// Models in training, under a strategy chosen at run time (the target rlcore::train).
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
template class train::trainable_model<cpu>;
template class train::trainable_model<any_device>;
RLCORE_END
