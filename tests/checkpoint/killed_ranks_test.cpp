// Ranks are killed while they save: what was saved before stays, and whatever has a step's name is complete.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "support/process_ranks.hpp"
#include "support/shard_layouts.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::checkpoint;
using process_ranks::communicator;
using rlcore::parallel::whole_tensor;
using shard_layouts::values;

static_assert(rlcore::parallel::communicator<communicator>);

/// Saves step `step`, whose values are those of the layouts times the step.
void save(communicator& c, const std::filesystem::path& root, std::int64_t step) {
  const auto layout = shard_layouts::cut(static_cast<std::size_t>(c.size()), 1, 1, true);
  const auto& own = layout[static_cast<std::size_t>(c.rank())];
  save_step(c, root, step, 2, [&](const std::filesystem::path& folder) {
    write_shards(c, folder / "shards", own, {"weights", "exp_avg"},
                 [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> out) {
                   const std::vector<float> all = values(own[piece], static_cast<float>(step));
                   std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
                 });
  });
}

void expect_complete(const std::filesystem::path& folder, std::int64_t step) {
  for (const char* kind : {"weights", "exp_avg"}) {
    shard_reader reader(folder / "shards", kind);
    for (const auto& [name, shape] : shard_layouts::tensors()) {
      const shard_piece whole = whole_tensor(name, shape);
      std::vector<float> found(whole.size());
      reader.read(whole, found);
      ASSERT_EQ(found, values(whole, static_cast<float>(step))) << folder << " " << name;
    }
  }
}

TEST(killed_ranks, leave_the_older_checkpoint) {
  const scratch::folder place;
  std::mt19937 random(7);
  std::int64_t last = 1, rounds_that_saved = 0;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(process_ranks::job(3, [&](communicator& c) { save(c, place.path(), 1); }).wait());
  auto patience = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start) * 4;
  for (int round = 0; round < 30 || (round < 100 && rounds_that_saved == 0); ++round) {
    const int ranks = 1 + static_cast<int>(random() % 4);
    process_ranks::job job(ranks, [&](communicator& c) {
      for (std::int64_t step = last + 1; step < last + 1000; ++step) save(c, place.path(), step);
    });
    std::this_thread::sleep_for(patience * (random() % 1000) / 1000);
    job.kill_one(static_cast<int>(random() % static_cast<unsigned>(ranks)));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));  // the others are still at work
    job.end();
    const resume_point latest = find_latest(place.path());
    EXPECT_EQ(latest.notice, "");
    ASSERT_GE(latest.step, last);
    rounds_that_saved += latest.step > last ? 1 : 0;
    if (rounds_that_saved == 0) patience += patience / 4;  // the machine has become slower
    last = latest.step;
    for (const auto& entry : std::filesystem::directory_iterator(place.path()))
      if (const auto step = step_of(entry.path())) expect_complete(entry.path(), *step);
  }
  EXPECT_GT(rounds_that_saved, 0);
  process_ranks::job job(2, [&](communicator& c) { save(c, place.path(), last + 1); });
  EXPECT_TRUE(job.wait());
  EXPECT_EQ(find_latest(place.path()).step, last + 1);
  // Two steps, perhaps one more that the tracker never named, and the tracker: of the killed nothing is left.
  for (const auto& entry : std::filesystem::directory_iterator(place.path()))
    EXPECT_TRUE(step_of(entry.path()) || entry.path().filename() == tracker_name) << entry.path();
}

}  // namespace
}  // namespace RLCORE_TEST_ID
