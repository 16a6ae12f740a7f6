// Models in training, under a strategy chosen at run time (the target rlcore::trainer).
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
template class trainer::trainable_model<cpu>;
template class trainer::trainable_model<any_device>;
RLCORE_END
