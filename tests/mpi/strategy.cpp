// A program that names its strategy, run as an MPI job and as threads: strategy [--ranks N].
#include <cstdio>

#include "rlcore/parallel/launch.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"

int main(int argc, char** argv) {
  return rlcore::launch<rlcore::strategy::data<>>(argc, argv, [](auto& ranks) {
    double sum = ranks.rank() + 1;
    ranks.sum(sum);
    if (ranks.first()) std::printf("done: %d ranks add up to %g\n", ranks.size(), sum);
  });
}
