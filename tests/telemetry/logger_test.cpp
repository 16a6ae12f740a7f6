// metrics.jsonl: one row per step, whole after a crash, cut back on resume.
#include "rlcore/telemetry/logger.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <variant>

#include "rlcore/telemetry/progress.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
namespace fs = std::filesystem;

struct folder {
  fs::path path = fs::temp_directory_path() / ("rlcore_logger_" + std::to_string(::getpid()) + "_" +
                                               ::testing::UnitTest::GetInstance()->current_test_info()->name());
  folder() { fs::remove_all(path); }
  ~folder() { fs::remove_all(path); }
};

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

metrics row(double reward) {
  metrics m;
  m.set("critic/rewards/mean", reward);
  m.set("training/epoch", 0);
  return m;
}

TEST(logger, prints_and_writes) {
  const folder dir;
  testing::internal::CaptureStdout();
  {
    logger log({"console", "file"}, dir.path / "run");
    log.write(1, row(0.5));
    log.write(2, row(std::nan("")));
    EXPECT_EQ(log.rows().size(), 2u);
    EXPECT_EQ(content(log.path()).size(), content(dir.path / "run/metrics.jsonl").size());
  }
  EXPECT_EQ(
      testing::internal::GetCapturedStdout(),
      "step:1 - critic/rewards/mean:0.5 - training/epoch:0\nstep:2 - critic/rewards/mean:nan - training/epoch:0\n");
  EXPECT_EQ(content(dir.path / "run/metrics.jsonl"),
            "{\"step\":1,\"critic/rewards/mean\":0.5,\"training/epoch\":0}\n{\"step\":2,\"critic/rewards/"
            "mean\":null,\"training/epoch\":0}\n");
}

TEST(logger, resume_moves_later_rows_and_drops_a_torn_line) {
  const folder dir;
  fs::create_directories(dir.path);
  std::ofstream(dir.path / "metrics.jsonl")
      << "{\"step\":1,\"a\":0.25}\n{\"step\":2,\"a\":3}\n{\"step\":3,\"a\":1.0}\n{\"step\":4,\"a\":";
  testing::internal::CaptureStdout();
  {
    logger log({"file"}, dir.path, 2);
    ASSERT_EQ(log.rows().size(), 2u);
    EXPECT_EQ(log.rows()[0].values.get("a"), 0.25);
    log.write(3, row(1));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(
      content(dir.path / "metrics.jsonl"),
      "{\"step\":1,\"a\":0.25}\n{\"step\":2,\"a\":3}\n{\"step\":3,\"critic/rewards/mean\":1.0,\"training/epoch\":0}\n");
  EXPECT_EQ(read_metric_rows(dir.path / "metrics.jsonl").size(), 3u);
  EXPECT_EQ(content(dir.path / "metrics.1.jsonl"), "{\"step\":3,\"a\":1.0}\n");
  EXPECT_FALSE(fs::exists(dir.path / "metrics.jsonl.new"));
}

TEST(logger, reads_integers_beyond_64_bits_as_real_numbers) {
  const folder dir;
  fs::create_directories(dir.path);
  std::ofstream(dir.path / "a") << R"({"step":1,"a":18446744073709551615,"b":9223372036854775807})"
                                   "\n";
  const metrics read = read_metric_rows(dir.path / "a").at(0).values;
  EXPECT_EQ(std::get<double>(*read.find("a")), 18446744073709551616.0);
  EXPECT_EQ(std::get<std::int64_t>(*read.find("b")), std::numeric_limits<std::int64_t>::max());
  std::ofstream(dir.path / "b") << R"({"step":18446744073709551615})"
                                   "\n";
  EXPECT_THROW((void)read_metric_rows(dir.path / "b"), rlcore::format_error);
}

TEST(logger, files_of_very_many_metrics_are_refused) {
  const folder dir;
  fs::create_directories(dir.path);
  std::string line = "{\"step\":1";
  for (int i = 0; i < 1 << 14; ++i) line += ",\"m" + std::to_string(i) + "\":1";
  std::ofstream(dir.path / "a") << line << "}\n";
  const metrics read = read_metric_rows(dir.path / "a").at(0).values;
  EXPECT_EQ(read.size(), std::size_t{1} << 14);
  EXPECT_EQ(read.get("m16383"), 1);
  EXPECT_FALSE(read.contains("m16384"));
  std::ofstream(dir.path / "b") << line << "}\n{\"step\":2,\"one more\":1}\n";
  EXPECT_EQ(thrown_by([&] { read_metric_rows(dir.path / "b"); }),
            (dir.path / "b").string() + ": line 2: more than 16384 different metrics");
}

TEST(logger, a_fresh_run_starts_an_empty_file) {
  const folder dir;
  fs::create_directories(dir.path);
  std::ofstream(dir.path / "metrics.jsonl") << "{\"step\":1}\n";
  const logger log({"file"}, dir.path);
  EXPECT_TRUE(log.rows().empty());
  EXPECT_EQ(content(dir.path / "metrics.jsonl"), "");
}

TEST(logger, a_fresh_run_keeps_the_rows_of_earlier_ones) {
  const folder dir;
  const auto run = [&](double number) {
    logger log({"file"}, dir.path);
    log.write(1, row(number));
    return log.earlier();
  };
  EXPECT_EQ(run(0.5), "");
  const std::string first = content(dir.path / "metrics.jsonl");
  EXPECT_EQ(run(0.25), dir.path / "metrics.1.jsonl");
  EXPECT_EQ(content(dir.path / "metrics.1.jsonl"), first);
  EXPECT_EQ(run(0.125), dir.path / "metrics.2.jsonl");
  EXPECT_EQ(content(dir.path / "metrics.1.jsonl"), first);
  EXPECT_EQ(read_metric_rows(dir.path / "metrics.2.jsonl").at(0).values.get("critic/rewards/mean"), 0.25);
  EXPECT_EQ(read_metric_rows(dir.path / "metrics.jsonl").size(), 1u);
  EXPECT_EQ(logger({"file"}, dir.path, 1).earlier(), "");  // a run that goes on
}

TEST(logger, the_event_files_of_earlier_runs_stay_too) {
  const folder dir;
  const auto run = [&] {
    const logger log({"tensorboard"}, dir.path);
    return log.earlier_events();
  };
  EXPECT_EQ(run(), "");
  EXPECT_EQ(run(), dir.path / "tensorboard" / "earlier.1");
  EXPECT_EQ(run(), dir.path / "tensorboard" / "earlier.2");
  EXPECT_FALSE(fs::is_empty(dir.path / "tensorboard" / "earlier.1"));
  EXPECT_EQ(logger({"tensorboard"}, dir.path, 0).earlier_events(), "");  // a run that goes on
}

TEST(logger, names_a_damaged_line_and_a_full_disk) {
  const folder dir;
  fs::create_directories(dir.path);
  std::ofstream(dir.path / "metrics.jsonl") << "{\"step\":1}\nnonsense\n{\"step\":2}\n";
  try {
    read_metric_rows(dir.path / "metrics.jsonl");
    ADD_FAILURE() << "accepted";
  } catch (const rlcore::format_error& e) {
    EXPECT_NE(std::string(e.what()).find("line 2"), std::string::npos);
  }
  EXPECT_TRUE(read_metric_rows(dir.path / "nosuch").empty());
  std::ofstream(dir.path / "file") << "x";
  EXPECT_THROW(logger({"file"}, dir.path / "file" / "sub"), rlcore::file_error);
}

TEST(logger, an_unknown_tracker_leaves_the_console) {
  testing::internal::CaptureStdout();
  logger({"wandb"}, "").write(1, {});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "step:1\n");
}

TEST(progress, line) {
  EXPECT_EQ(progress_line(12, 58, "rollout", 34, 640, 75.2), "step 12/58  rollout 34/640  1:15 left");
  EXPECT_EQ(progress_line(0, 0, "validation", 3, 9, -1), "validation 3/9");
  EXPECT_EQ(progress_line(1, 2, "update", 0, 0, -1), "step 1/2  update");
  EXPECT_EQ(duration_text(3675), "1:01:15");
  EXPECT_EQ(duration_text(-3), "0:00");
  EXPECT_EQ(duration_text(1e300), "277777777777:46:40");
}

TEST(progress, pace) {
  progress bar(nullptr, false);
  bar.start(3, 5);
  EXPECT_EQ(bar.pace().total_steps, 5);
  EXPECT_LT(bar.pace().seconds_left, 0);
  bar.step_done(4);
  EXPECT_GE(bar.pace().seconds_left, 0);
  bar.step_done(5);
  EXPECT_EQ(bar.pace().seconds_left, 0);
}

TEST(progress, is_silent_without_a_terminal) {
  const auto drawn = [](bool live) {
    std::FILE* file = std::tmpfile();
    {
      progress bar(file, live);
      bar.phase("validation", 1, 2);
      bar.start(0, 2);
      bar.phase("rollout", 1, 2);
      bar.phase("rollout", 2, 2);
      bar.step_done(1);
      bar.phase("update", 0, 0);
    }
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
  };
  EXPECT_EQ(drawn(false), "");
  const std::string text = drawn(true);
  EXPECT_NE(text.find("step 1/2  rollout 2/2"), std::string::npos);
  EXPECT_NE(text.find("step 2/2  update  0:00 left"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\033[2K"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
