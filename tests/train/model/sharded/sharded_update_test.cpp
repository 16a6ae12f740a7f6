// The norm of a gradient in shards, and shards back to a whole vector, also where the host cannot read the memory.
#include "rlcore/train/model/sharded/sharded_update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

struct hidden_cpu : cpu {
  static constexpr bool host_readable = false;
  hidden_cpu() : cpu(1) {}
};
struct plain_cpu : cpu {
  plain_cpu() : cpu(1) {}
};

const std::vector<std::size_t> ends{3000, 3001, 9000, 20000};

floats values() {
  floats x(ends.back());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i)) * std::exp(-1e-4f * static_cast<float>(i));
  return x;
}

/// The sum of squares that all ranks agree on; checks that a gather brings back what was cut.
template <class Device>
double cut_and_gather(int ranks, int shard_ranks) {
  double sum = 0;
  const floats x = values();
  parallel::run_ranks(ranks, [&](parallel::thread_rank& rank) {
    parallel::any_communicator_of<parallel::thread_rank&> all(rank);
    parallel::parallel_settings s;
    s.zero = 1, s.shard_ranks = shard_ranks;
    parallel::world w(all, s);
    Device device;
    train::sharded_update<Device> update(device, w, ends);
    floats shard(update.shard_size()), whole(x.size(), -1.0f), found(x.size());
    for (const optim::adamw_piece& p : update.pieces())
      for (std::size_t i = p.first; i < p.last; ++i)
        shard[i] = whole[p.weights + i - p.first] = x[p.weights + i - p.first];
    buffer<float, Device> own(device, shard.size()), weights(device, x.size());
    own.upload(shard), weights.upload(whole);
    const double squares = update.sum_of_squares(own.data());
    update.gather(weights.data());
    weights.download(found);
    EXPECT_EQ(found, x) << ranks;
    std::vector<double> each(static_cast<std::size_t>(ranks));
    all.all_gather(std::span<const double>(&squares, 1), std::span<double>(each));
    for (const double e : each) EXPECT_EQ(e, squares);
    if (w.first()) sum = squares;
  });
  return sum;
}

TEST(sharded_update, the_norm_does_not_show_who_owns_what) {
  double exact = 0;
  for (const float x : values()) exact += static_cast<double>(x) * static_cast<double>(x);
  const double one = cut_and_gather<plain_cpu>(1, 0), one_hidden = cut_and_gather<hidden_cpu>(1, 0);
  EXPECT_NEAR(one, exact, 1e-12 * exact);
  EXPECT_NEAR(one_hidden, exact, 1e-12 * exact);
  for (const int ranks : {2, 3, 5, 8, 30}) {  // some own nothing
    EXPECT_EQ(cut_and_gather<plain_cpu>(ranks, 0), one) << ranks;
    EXPECT_EQ(cut_and_gather<hidden_cpu>(ranks, 0), one_hidden) << ranks;
  }
  EXPECT_EQ(cut_and_gather<plain_cpu>(6, 3), one);
}

TEST(block_sums_of_squares, are_those_of_the_blocks) {
  const floats x = values();
  cpu device(1);
  std::vector<double> sums(3);
  device.run(op::block_sums_of_squares{.x = x.data(), .n = 2500, .block = 1024, .sums = sums.data()});
  for (std::size_t k = 0; k < 3; ++k) {
    double exact = 0;
    for (std::size_t i = k * 1024; i < std::min<std::size_t>(2500, (k + 1) * 1024); ++i)
      exact += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    EXPECT_NEAR(sums[k], exact, 1e-13 * exact);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
