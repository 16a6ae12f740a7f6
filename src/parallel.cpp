// What rlcore/parallel declares (the target rlcore::kernels).
#define RLCORE_SOURCE_PARALLEL
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/communicator/flight_recorder.hpp"
#include "rlcore/parallel/communicator/rendezvous.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/communicator/watchdog.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"
#include "rlcore/parallel/reduction/piece_sum.hpp"
#include "rlcore/parallel/settings.hpp"
