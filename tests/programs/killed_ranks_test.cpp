// kill -9 of a rank, twice, under examples/cluster/supervise.sh: the job goes on with fewer ranks, to the bits of one.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "grpo_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;
using testing::ContainsRegex;

class killed_ranks : public trainer_test {
 protected:
  /// The processes of build/bin/grpo_trainer that write to `folder`.
  static std::vector<pid_t> processes(const fs::path& folder) {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code ignored;  // it may end meanwhile
      if (fs::read_symlink(entry.path() / "exe", ignored).filename() != "grpo_trainer") continue;
      if (scratch::read(entry.path() / "cmdline").find(folder.string()) == std::string::npos) continue;
      found.push_back(std::atoi(entry.path().filename().c_str()));
    }
    return found;
  }
  /// Kills one of the processes that are not in `before`, of which it makes a list there, as soon as there is a
  /// checkpoint of `step`; false if it does not come to that until all is over.
  static bool kill_at(const fs::path& folder, int step, std::vector<pid_t>& before, const std::atomic<bool>& over) {
    while (!over) {
      if (fs::exists(folder / ("global_step_" + std::to_string(step)))) {
        auto victims = processes(folder);
        std::erase_if(victims, [&](pid_t p) { return std::find(before.begin(), before.end(), p) != before.end(); });
        if (!victims.empty() && ::kill(victims.back(), SIGKILL) == 0) {
          before = std::move(victims);
          return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
};

TEST_F(killed_ranks, go_on_as_fewer_to_the_same_bits) {
  const std::string mpirun = program::mpirun(2);
  if (mpirun.empty()) GTEST_SKIP() << "no MPI";
  const auto command = mpirun.rfind("mpirun");
  const std::string supervised =
      mpirun.substr(0, command) + RLCORE_SOURCE_DIR "/examples/cluster/supervise.sh -n 3,2,1 mpirun -np {ranks}";
  const arguments longer{"trainer.total_training_steps=30", "trainer.total_epochs=100", "trainer.test_freq=-1"};
  train("whole", longer);

  bool twice = false;
  program::result r;
  for (int attempt = 0; attempt < 10 && !twice; ++attempt) {  // where this process is too slow to kill, begin anew
    fs::remove_all(root("killed"));
    std::atomic<bool> over{false};
    std::thread killer([&] {
      std::vector<pid_t> before;
      twice = kill_at(root("killed"), 6, before, over) && kill_at(root("killed"), 16, before, over);
    });
    r = program::run("grpo_trainer", settings(files, root("killed")) + longer, supervised);
    over = true;
    killer.join();
  }
  EXPECT_TRUE(twice);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err,
              ContainsRegex("rlcore: rank [012]: rank [012] .process [0-9]+. is gone; stopped .* collective [0-9]+"));
  EXPECT_THAT(r.err, testing::HasSubstr("supervise.sh: exit code 137: restart 2 of 10"));
  EXPECT_FALSE(weights(root("whole"), 30).empty());
  EXPECT_TRUE(weights(root("whole"), 30) == weights(root("killed"), 30)) << "other weights";
  EXPECT_TRUE(moments(root("whole"), 30) == moments(root("killed"), 30)) << "other moments";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
