// Launcher environment (mpirun, srun): rank, size, local rank and local size.
#pragma once

#include <cstdlib>
#include <optional>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// A number from an environment variable; empty if it is absent or not a number.
inline std::optional<int> number_of_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 0 || n > 1'000'000'000) return std::nullopt;
  return static_cast<int>(n);
}

/// The number of processes started by mpirun (Open MPI, MPICH) or srun --mpi=pmi2|pmix; 1 without a launcher.
inline int ranks_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const auto n = number_of_environment(name); n && *n > 0) return *n;
  // Slurm's variable counts the tasks of the step; it is valid only if srun has set up MPI.
  if (std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr)
    if (const auto n = number_of_environment("SLURM_STEP_NUM_TASKS"); n && *n > 0) return *n;
  return 1;
}

/// The rank of this process, from 0; 0 if unset.
inline int rank_of_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const auto n = number_of_environment(name)) return *n;
  return 0;
}

/// The number of processes on this host; 1 if unset.
inline int ranks_of_this_host() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (const auto n = number_of_environment(name); n && *n > 0) return *n;
  return 1;
}
/// The local rank of this process, from 0.
inline int rank_on_this_host() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const auto n = number_of_environment(name)) return *n;
  return 0;
}

}  // namespace parallel
RLCORE_END
