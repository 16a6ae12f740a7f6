// What the engines of parallel/ move per second: parallel_bench [ranks as threads], or under mpirun. Calls follow each
// other on buffers that take turns, so that none is warm in the cache; the best of five rounds.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#if RLCORE_HAS_MPI
#include <mpi.h>
#endif

#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

namespace {

using namespace rlcore::parallel;
using buffers = std::vector<std::vector<float>>;

/// Seconds of one call of f(k), where k counts calls; the slowest rank's.
template <class F>
double seconds_of(any_communicator& c, std::size_t bytes, F f) {
  const int calls = static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 27) / bytes, 4, 2000));
  double best = std::numeric_limits<double>::infinity();
  std::size_t k = 0;
  for (int round = 0; round < 5; ++round) {
    c.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f(k++);
    const double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
    std::vector<double> all(static_cast<std::size_t>(c.size()));
    c.all_gather(std::span<const double>(&mine, 1), std::span(all));
    best = std::min(best, *std::max_element(all.begin(), all.end()));
  }
  return best;
}

void measure(any_communicator& c, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(c.size());
  const std::size_t part = bytes / sizeof(float) / ranks, n = part * ranks;
  const std::size_t sets = std::clamp<std::size_t>((std::size_t{1} << 27) / bytes, 2, 8);
  buffers in(sets, std::vector<float>(n, 1.0F)), out(sets, std::vector<float>(n, 2.0F));
  const auto read = [&](std::size_t k, std::size_t count) { return std::span<const float>(in[k % sets]).first(count); };
  const auto write = [&](std::size_t k) { return std::span(out[k % sets]); };
  reduction_scratch<float> scratch;

  struct row {
    const char* name;
    double seconds;
  };
  std::vector<row> rows;
  const auto add = [&](const char* name, auto f) { rows.push_back({name, seconds_of(c, bytes, f)}); };
  add("memcpy by each rank", [&](std::size_t k) { std::memcpy(out[k % sets].data(), in[k % sets].data(), n * 4); });
  add("shift", [&](std::size_t k) { c.shift(read(k, n), write(k), 1); });
  add("broadcast", [&](std::size_t k) { c.broadcast(write(k), 0); });
  add("all_gather", [&](std::size_t k) { c.all_gather(read(k, part), write(k)); });
  add("all_to_all", [&](std::size_t k) { c.all_to_all(read(k, n), write(k)); });
  add("all_to_all + ordered sum", [&](std::size_t k) {
    const std::vector<std::size_t> counts(ranks, part);
    reduce_scatter_sum(tree{}, c, read(k, n), std::span<const std::size_t>(counts), write(k).first(part), scratch);
  });
  add("the same + all_gather", [&](std::size_t k) { all_reduce_sum(tree{}, c, write(k), scratch); });
#if RLCORE_HAS_MPI
  if (std::string(c.engine()) == "mpi") {
    add("MPI_Reduce_scatter_block", [&](std::size_t k) {
      MPI_Reduce_scatter_block(in[k % sets].data(), out[k % sets].data(), static_cast<int>(part), MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    });
    add("MPI_Allreduce", [&](std::size_t k) {
      MPI_Allreduce(MPI_IN_PLACE, out[k % sets].data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
  }
#endif
  if (c.rank() != 0) return;
  for (const row& r : rows)
    std::printf("%10zu  %-26s %10.1f us %8.2f GB/s\n", n * 4, r.name, r.seconds * 1e6,
                static_cast<double>(n * 4) / r.seconds * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  launch_settings s;
  s.fingerprint = false;
  if (argc > 1) s.thread_ranks = std::atoi(argv[1]);
  try {
    launch(s, [](any_communicator& c) {
      if (c.rank() == 0)
        std::printf("%s, %d ranks; GB/s: bytes of the whole buffer of a rank per second\n", c.engine(), c.size());
      const double empty = seconds_of(c, std::size_t{1} << 16, [&](std::size_t) { c.barrier(); });
      if (c.rank() == 0) std::printf("%10d  %-26s %10.1f us\n", 0, "barrier", empty * 1e6);
      for (const std::size_t bytes :
           {std::size_t{1} << 14, std::size_t{1} << 20, std::size_t{1} << 24, std::size_t{1} << 26})
        measure(c, bytes);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "parallel_bench: %s\n", e.what());
    return 1;
  }
}
