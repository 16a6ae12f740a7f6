// What the launcher of a job tells each of its processes.
#pragma once

#include <cstdlib>
#include <optional>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// A number of the environment; nothing if it is absent or is no number.
inline std::optional<int> number_of_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 0 || n > 1'000'000'000) return std::nullopt;
  return static_cast<int>(n);
}

/// Processes of this job: what mpirun (Open MPI, MPICH) or srun --mpi=pmi2|pmix started; 1 without any of them.
inline int ranks_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const auto n = number_of_environment(name); n && *n > 0) return *n;
  // Slurm's own number is that of the tasks of the step; it counts only where srun has set up MPI.
  if (std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr)
    if (const auto n = number_of_environment("SLURM_STEP_NUM_TASKS"); n && *n > 0) return *n;
  return 1;
}

/// Which of them this process is, from 0 on; 0 where nobody says.
inline int rank_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const auto n = number_of_environment(name)) return *n;
  return 0;
}

/// Of them, those on this host; 1 where nobody says.
inline int ranks_of_this_host() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (const auto n = number_of_environment(name); n && *n > 0) return *n;
  return 1;
}
/// This process among them, from 0 on.
inline int rank_on_this_host() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const auto n = number_of_environment(name)) return *n;
  return 0;
}

}  // namespace parallel
RLCORE_END
