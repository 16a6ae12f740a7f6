// What rlcore/train/run and its like declare (the target rlcore::train).
#define RLCORE_SOURCE_TRAIN_RUN
#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/files/run_settings.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/ranks/resources.hpp"
#include "rlcore/train/ranks/same_arithmetic.hpp"
#include "rlcore/train/ranks/team.hpp"
#include "rlcore/train/run/frame.hpp"
#include "rlcore/train/run/open_log.hpp"
#include "rlcore/train/run/read_device.hpp"
