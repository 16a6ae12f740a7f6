// ranks [THREADS]: the sum of one number per leaf over all ranks, by the tree: one hash for 1, 2 and 4 ranks, be they
// threads or processes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <rlcore/parallel/launch.hpp>
#include <rlcore/parallel/reduction/reduction.hpp>
#include <span>
#include <vector>

int main(int argc, char** argv) {
  using namespace rlcore;
  const parallel::launch_settings how{.thread_ranks = argc > 1 ? std::atoi(argv[1]) : 1};
  try {
    parallel::launch(how, [](parallel::any_communicator& all) {
      constexpr std::size_t n = 1000;
      const int leaves = 8 / all.size();
      std::vector<float> rows(static_cast<std::size_t>(leaves) * n);
      for (int leaf = 0; leaf < leaves; ++leaf)
        for (std::size_t i = 0; i < n; ++i)
          rows[static_cast<std::size_t>(leaf) * n + i] =
              std::sin(static_cast<float>(all.rank() * leaves + leaf) + 0.1F * static_cast<float>(i));
      parallel::sum_rows(parallel::tree{}, rows.data(), static_cast<std::size_t>(leaves), n);
      const std::span sum(rows.data(), n);
      parallel::all_reduce_sum(parallel::tree{}, all, sum);
      if (all.rank() != 0) return;
      double check = 0;
      for (const float x : sum) check = 31 * check + static_cast<double>(x), check -= 1e6 * std::floor(check / 1e6);
      std::printf("%d ranks (%s): %.17g\n", all.size(), all.engine(), check);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ranks: %s\n", e.what());
    return 1;
  }
}
