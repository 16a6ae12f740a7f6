// What rlcore/training declares (the target rlcore::trainer).
#define RLCORE_SOURCE_TRAINING
#include "rlcore/training/files/export_model.hpp"
#include "rlcore/training/files/run_settings.hpp"
#include "rlcore/training/images.hpp"
#include "rlcore/training/open_log.hpp"
#include "rlcore/training/ranks/available_memory.hpp"
#include "rlcore/training/ranks/cores.hpp"
#include "rlcore/training/ranks/same_arithmetic.hpp"
#include "rlcore/training/ranks/team.hpp"
#include "rlcore/training/read_device.hpp"
