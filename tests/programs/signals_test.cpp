// SIGINT and SIGTERM: a run stops where it can go on to the same bits, says how, and leaves a report.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "grpo_trainer.hpp"

namespace {

using namespace grpo;
using testing::HasSubstr;

class signals : public trainer_test {
 protected:
  /// Runs grpo_trainer and sends it `numbers` as soon as it has logged `steps` steps.
  program::result stopped(const fs::path& folder, const arguments& more, std::initializer_list<int> numbers,
                          int steps) const {
    std::atomic<bool> over{false};
    std::thread sender([&] {
      while (!over) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const std::string logged = scratch::read(folder / "metrics.jsonl");
        if (std::count(logged.begin(), logged.end(), '\n') < steps) continue;
        for (const int number : numbers) send(folder, number);
        return;
      }
    });
    const program::result r = program::run("grpo_trainer", settings(files, folder) + more);
    over = true;
    sender.join();
    return r;
  }

 private:
  static void send(const fs::path& folder, int number) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code ignored;  // it may end meanwhile
      if (fs::read_symlink(entry.path() / "exe", ignored).filename() != "grpo_trainer") continue;
      if (scratch::read(entry.path() / "cmdline").find(folder.string()) == std::string::npos) continue;
      ::kill(std::atoi(entry.path().filename().c_str()), number);
    }
  }
};

const arguments longer{"trainer.total_training_steps=40", "trainer.total_epochs=100", "trainer.test_freq=-1"};

TEST_F(signals, stop_a_run_where_it_goes_on_to_the_same_bits) {
  const arguments saved = longer + arguments{"trainer.save_freq=100"};  // the last step alone
  train("whole", saved);
  for (const auto& [number, code, name] : {std::tuple{SIGINT, 130, "SIGINT"}, {SIGTERM, 143, "SIGTERM"}}) {
    SCOPED_TRACE(name);
    const fs::path folder = root(name);
    const program::result r = stopped(folder, longer + arguments{"trainer.save_freq=-1"}, {number}, 2);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_THAT(r.out, HasSubstr(name));
    EXPECT_THAT(r.out, HasSubstr("run the same command again to go on to the same bits"));
    EXPECT_THAT(r.err, HasSubstr("once more ends at once"));
    EXPECT_TRUE(fs::exists(folder / "report.html"));
    EXPECT_TRUE(fs::exists(folder / "latest_checkpointed_iteration.txt"));
    train(name, saved);
    EXPECT_FALSE(weights(root("whole"), 40).empty());
    EXPECT_TRUE(weights(root("whole"), 40) == weights(folder, 40)) << "other weights";
    EXPECT_EQ(rows(folder), rows(root("whole")));
  }
}

TEST_F(signals, a_second_one_ends_at_once) {
  const arguments endless{"trainer.total_training_steps=1000000", "trainer.total_epochs=1000000",
                          "trainer.test_freq=-1", "trainer.save_freq=-1"};
  const program::result r = stopped(root("twice"), endless, {SIGINT, SIGTERM}, 1);
  EXPECT_TRUE(r.code == 130 || r.code == 143) << r.code << r.err;
}

}  // namespace
