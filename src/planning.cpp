// What rlcore/planning declares (the target rlcore::train).
#define RLCORE_SOURCE_PLANNING
#include "rlcore/planning/check_host.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/measure_rank.hpp"
#include "rlcore/planning/memory_need.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/plan.hpp"
#include "rlcore/planning/read_plan.hpp"
#include "rlcore/planning/search.hpp"
#include "rlcore/planning/stage_times.hpp"
#include "rlcore/planning/traffic.hpp"
