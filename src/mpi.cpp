// MPI as an engine of parallel::launch() (the target rlcore::mpi): the one place that sees mpi.h. RLCORE_HAS_MPI is 0
// where CMake has found none.
#include "rlcore/parallel/launch.hpp"

#if RLCORE_HAS_MPI
#include "rlcore/parallel/communicator/mpi_job.hpp"
#else
#include <string>

#include "rlcore/core/error.hpp"
#endif

RLCORE_BEGIN
namespace parallel {
#if RLCORE_HAS_MPI
void launch_mpi(const launch_settings& s, const rank_function& f) { run_mpi_rank(s, f); }
#else
void launch_mpi(const launch_settings&, const rank_function&) {
  throw communication_error("rlcore: " + std::to_string(ranks_of_environment()) +
                            " processes were started, but no MPI was found when this program was built: install one "
                            "(Debian packages libopenmpi-dev openmpi-bin) and build it again");
}
#endif
}  // namespace parallel
RLCORE_END
