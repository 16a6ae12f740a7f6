// Signals: a run stops where it can go on to the same bits, says how, and leaves a report, whoever reads what it prints
// and however many ranks it has.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "grpo_trainer.hpp"
#include "support/mpirun.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;
using std::chrono::milliseconds;
using testing::HasSubstr;

class signals : public trainer_test {
 protected:
  /// What is sent, to the processes of which program, when, and with which pause between one signal and the next.
  struct sending {
    std::vector<int> numbers;
    std::function<bool(const fs::path& folder)> ready = [](const fs::path& folder) { return logged(folder) >= 2; };
    milliseconds pause{0};
    std::string_view to = "grpo_trainer";
  };
  /// The steps that a run has logged.
  static long logged(const fs::path& folder) {
    const std::string rows = scratch::read(folder / "metrics.jsonl");
    return std::count(rows.begin(), rows.end(), '\n');
  }
  /// Runs grpo_trainer, with the shell's text `before` in front, and sends it signals.
  program::result stopped(const fs::path& folder, const arguments& more, const sending& s,
                          const std::string& before = "") const {
    std::atomic<bool> over{false};
    std::thread sender([&] {
      while (!over && !s.ready(folder)) std::this_thread::sleep_for(milliseconds(2));
      for (std::size_t i = 0; i < s.numbers.size() && !over; ++i) {
        if (i > 0) std::this_thread::sleep_for(s.pause);
        send(folder, s.to, s.numbers[i]);
      }
    });
    const program::result r = program::run("grpo_trainer", settings(files, folder) + more, before);
    over = true;
    sender.join();
    return r;
  }
  /// The folder holds a run that can go on, and does so to the bits of the run `whole`.
  void expect_goes_on(const std::string& name, const program::result& r) {
    EXPECT_TRUE(fs::exists(root(name) / "report.html"));
    EXPECT_TRUE(fs::exists(root(name) / "latest_checkpointed_iteration.txt"));
    EXPECT_FALSE(fs::exists(actor(root(name), 40))) << "it was over before the signal";
    EXPECT_THAT(r.err, HasSubstr("once more ends at once"));
    train(name, saved);
    EXPECT_FALSE(weights(root("whole"), 40).empty());
    EXPECT_TRUE(weights(root("whole"), 40) == weights(root(name), 40)) << "other weights";
    EXPECT_EQ(rows(root(name)), rows(root("whole")));
  }

  const arguments longer{"trainer.total_training_steps=40", "trainer.total_epochs=100", "trainer.test_freq=-1"};
  const arguments unsaved = longer + arguments{"trainer.save_freq=-1"};
  const arguments saved = longer + arguments{"trainer.save_freq=100"};  // the last step alone

 private:
  static void send(const fs::path& folder, std::string_view program, int number) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code ignored;  // it may end meanwhile
      if (!fs::read_symlink(entry.path() / "exe", ignored).filename().string().starts_with(program)) continue;
      if (scratch::read(entry.path() / "cmdline").find(folder.string()) == std::string::npos) continue;
      ::kill(std::atoi(entry.path().filename().c_str()), number);
    }
  }
};

TEST_F(signals, stop_a_run_where_it_goes_on_to_the_same_bits) {
  train("whole", saved);
  for (const auto& [number, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
    SCOPED_TRACE(name);
    const program::result r = stopped(root(name), unsaved, {{number}});
    EXPECT_EQ(r.code, 128 + number) << r.err;
    EXPECT_THAT(r.out, HasSubstr(name));
    EXPECT_THAT(r.out, HasSubstr("run the same command again to go on to the same bits"));
    expect_goes_on(name, r);
  }
}

// `timeout` and an interactive shell that ends send a signal to the process, and to its group.
TEST_F(signals, a_copy_of_the_first_is_no_second) {
  train("whole", saved);
  const sending both[] = {{.numbers = {SIGTERM, SIGTERM}, .pause = milliseconds(5)},
                          {.numbers = {SIGHUP, SIGHUP, SIGHUP}, .pause = milliseconds(150)}};
  for (const sending& s : both) {
    const std::string name = std::to_string(s.numbers.size());
    SCOPED_TRACE(name);
    const program::result r = stopped(root(name), unsaved, s);
    EXPECT_EQ(r.code, 128 + s.numbers[0]) << r.err;
    expect_goes_on(name, r);
  }
}

// Ctrl-C ends a `tee` behind the run as well, `head` ends when it has enough: the run writes to nobody then.
TEST_F(signals, whoever_reads_may_go_away) {
  const std::string read_a_line = "bash -c 'set -o pipefail; \"$@\" | head -n 1' bash";
  train("whole", saved);
  const program::result r = stopped(root("left"), unsaved, {{SIGINT}}, read_a_line);
  EXPECT_EQ(r.code, 130) << r.err;
  expect_goes_on("left", r);
  const program::result to_the_end = program::run("grpo_trainer", settings(files, root("alone")) + saved, read_a_line);
  EXPECT_EQ(to_the_end.code, 128 + SIGPIPE) << to_the_end.err;
  EXPECT_EQ(to_the_end.err, "");
  EXPECT_TRUE(weights(root("whole"), 40) == weights(root("alone"), 40)) << "other weights";
}

TEST_F(signals, stop_all_ranks) {
  train("whole", saved);
  const arguments two{"trainer.n_gpus_per_node=2"};
  const program::result threads = stopped(root("threads"), unsaved + two, {{SIGINT}});
  EXPECT_EQ(threads.code, 130) << threads.err;
  expect_goes_on("threads", threads);
  const std::string mpirun = program::mpirun(2);
  if (mpirun.empty()) GTEST_SKIP() << "no MPI";
  // Each rank by itself, as a scheduler does; mpirun passes signals on in its own way.
  const program::result processes = stopped(root("processes"), unsaved, {{SIGTERM}}, mpirun);
  EXPECT_EQ(processes.code, 143) << processes.err;
  expect_goes_on("processes", processes);
}

TEST_F(signals, a_second_one_ends_at_once) {
  const fs::path scoring = place / "scoring", score = place / "score";
  scratch::write(score, "#!/bin/sh\nread -r line\ntouch " + scoring.string() + "\nexec sleep 30\n");
  fs::permissions(score, fs::perms::owner_all);
  const auto begin = std::chrono::steady_clock::now();
  const program::result r = stopped(root("twice"), {"rlcore.reward_command=" + score.string()},
                                    {.numbers = {SIGINT, SIGTERM},
                                     .ready = [&](const fs::path&) { return fs::exists(scoring); },
                                     .pause = milliseconds(600)});
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
  EXPECT_FALSE(fs::exists(root("twice") / "latest_checkpointed_iteration.txt"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
