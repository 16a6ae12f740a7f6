// Runs a function on every rank; the environment of launchers (mpirun, srun): rank, size, local rank and local size.
#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"

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

/// Settings of launch(): the number of ranks and the timeouts.
struct launch_settings {
  int thread_ranks = 1;                                           ///< ranks as threads of this process
  std::chrono::milliseconds deadline = std::chrono::minutes(10);  ///< timeout of a collective
  /// mpi: minimum timeout until all ranks have connected; process startup can be slow.
  std::chrono::milliseconds start_deadline = std::chrono::minutes(10);
#if defined(NDEBUG)
  bool fingerprint = false;  ///< check that all ranks enter the same collective; threads always do
#else
  bool fingerprint = true;
#endif
  std::size_t message_bytes = std::size_t{1} << 30;  ///< mpi: longer messages are sent in pieces of this size
};

/// The function that each rank runs.
using rank_function = std::function<void(any_communicator&)>;

/// Runs f on this process's rank of an MPI job: src/mpi.cpp, the only source that includes mpi.h. A header-only program
/// has no MPI.
#if defined(RLCORE_COMPILED)
void launch_mpi(const launch_settings& s, const rank_function& f);
#else
/// Without MPI: throws communication_error naming the library to link.
RLCORE_NOINLINE inline void launch_mpi(const launch_settings&, const rank_function&) {
  throw communication_error("rlcore: " + std::to_string(ranks_of_environment()) +
                            " processes were started, but this program was built without MPI: link rlcore::mpi");
}
#endif

/// Calls f on every rank of this process: one rank of an MPI job under mpirun or srun, otherwise s.thread_ranks
/// threads, otherwise the process itself. Returns when all have finished; rethrows the exception of the first rank that
/// failed.
inline void launch(const launch_settings& s, const rank_function& f) {
  if (s.thread_ranks < 1)
    throw std::invalid_argument("rlcore: launch: " + std::to_string(s.thread_ranks) + " ranks, expected 1 or more");
  if (const int processes = ranks_of_environment(); processes > 1) {
    if (s.thread_ranks > 1)
      throw config_error("rlcore: " + std::to_string(s.thread_ranks) + " ranks as threads were asked for in each of " +
                         std::to_string(processes) + " processes: ranks are threads or processes, not both");
    return launch_mpi(s, f);
  }
  if (s.thread_ranks == 1) {
    any_communicator_of<alone> self{alone{}};
    return f(self);
  }
  run_ranks(
      s.thread_ranks,
      [&](thread_rank& c) {
        any_communicator_of<thread_rank> self(c);
        f(self);
      },
      s.deadline, stuck_rank::end_process);
}

}  // namespace parallel

namespace launching {

/// Removes `--ranks N` or `--ranks=N` from the command-line arguments.
inline std::optional<int> take_ranks(std::vector<std::string>& words) {
  constexpr std::string_view flag = "--ranks";
  std::optional<int> ranks;
  for (auto word = words.begin(); word != words.end();) {
    if (!word->starts_with(flag) || (word->size() > flag.size() && (*word)[flag.size()] != '=')) {
      ++word;
      continue;
    }
    std::string number = word->size() > flag.size() ? word->substr(flag.size() + 1) : "";
    word = words.erase(word);
    if (number.empty() && word != words.end()) number = *word, word = words.erase(word);
    int value = 0;
    const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (wrong != std::errc{} || end != number.data() + number.size() || value < 1)
      throw config_error("--ranks is '" + number + "', expected the number of ranks, 1 or more");
    ranks = value;
  }
  return ranks;
}

/// Calls body(strategy), or body(strategy, words) if it takes the remaining arguments.
template <class Strategy, class Body>
void call_body(Body& body, Strategy& strategy, const std::vector<std::string>& words) {
  if constexpr (std::invocable<Body&, Strategy&, std::span<const std::string>>) {
    body(strategy, std::span<const std::string>(words));
  } else {
    if (!words.empty()) throw config_error("unknown word '" + words.front() + "', expected nothing or --ranks N");
    body(strategy);
  }
}

/// Calls the body on every rank requested by the command line or the environment. Throws config_error.
template <class Strategy, class Body>
void launch_body(std::vector<std::string> words, Body& body) {
  const std::optional<int> asked = take_ranks(words);
  const int processes = parallel::ranks_of_environment();
  if constexpr (std::constructible_from<Strategy, parallel::any_communicator&>) {
    parallel::launch_settings settings;
    if constexpr (requires { Strategy::least_ranks(); }) settings.thread_ranks = Strategy::least_ranks();
    if (processes > 1) settings.thread_ranks = 1;
    if (asked) settings.thread_ranks = *asked;
    parallel::launch(settings, [&](parallel::any_communicator& ranks) {
      Strategy strategy(ranks);
      call_body(body, strategy, words);
    });
  } else {
    if (const int ranks = processes > 1 ? processes : asked.value_or(1); ranks > 1)
      throw config_error(std::to_string(ranks) +
                         " ranks: the strategy of this program is one rank; with another, such " +
                         "as strategy::data<> or strategy::sharded<3>, it trains on several");
    Strategy strategy;
    call_body(body, strategy, words);
  }
}

}  // namespace launching

/// Calls body(strategy) on every rank of `Strategy` in this process; returns the exit code of main: 0, or 1 after
/// printing the exception on stderr. strategy::alone only calls the body. Any other strategy uses the processes of
/// mpirun or srun as ranks (link rlcore::mpi), else `--ranks N` threads, else the minimum number for its type. Copies
/// of the strategy are valid inside the body. A body that takes (strategy, std::span<const std::string>) gets the other
/// arguments; without it, they are an error.
template <parallel_strategy Strategy, class Body>
int launch(int argc, char** argv, Body&& body) noexcept {
  std::string_view program = argc > 0 ? argv[0] : "rlcore";
  program.remove_prefix(program.rfind('/') + 1);
  const auto failed = [&](const char* why) {
    std::fflush(stdout);
    std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(), why);
    return 1;
  };
  try {
    launching::launch_body<Strategy>({argv + (argc > 0), argv + argc}, body);
    return std::fflush(stdout) == 0 ? 0 : failed("cannot write to standard output");
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}
RLCORE_END
