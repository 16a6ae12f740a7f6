// Event files: checksums, the bytes of a record, and what TensorBoard itself reads back.
#include "rlcore/telemetry/tensorboard.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/scratch.hpp"
#include "rlcore/telemetry/logger.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
namespace fs = std::filesystem;
using curve = std::vector<std::pair<std::int64_t, double>>;
using curves = std::map<std::string, curve>;

/// RFC 3720, B.4.
TEST(crc32c, vectors) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i), down += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(crc32c(""), 0u);
  static_assert(crc32c("123456789") == 0xe3069283u);
  // Shifting bit by bit, without a table.
  const auto slow = [](std::string_view bytes) {
    std::uint32_t x = 0xffffffffu;
    for (const char c : bytes)
      for (unsigned bit = 0; bit < 8; ++bit) {
        const std::uint32_t out = (x ^ (static_cast<unsigned char>(c) >> bit)) & 1u;
        x = (x >> 1) ^ (out * 0x82f63b78u);
      }
    return ~x;
  };
  std::string random;
  for (unsigned i = 0; i < 1000; ++i) {
    random += static_cast<char>((i * 2654435761u) >> 24);
    ASSERT_EQ(crc32c(random), slow(random)) << i;
  }
}

/// The records of a file; stops at a torn one. A wrong checksum fails.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> out;
  const auto number = [&](std::size_t at, std::size_t count) {
    std::uint64_t x = 0;
    for (std::size_t i = count; i-- > 0;) x = x << 8 | static_cast<unsigned char>(bytes[at + i]);
    return x;
  };
  for (std::size_t at = 0; at + 12 <= bytes.size();) {
    const auto length = static_cast<std::size_t>(number(at, 8));
    if (at + 16 + length > bytes.size()) break;
    EXPECT_EQ(masked_crc32c(bytes.substr(at, 8)), number(at + 8, 4));
    EXPECT_EQ(masked_crc32c(bytes.substr(at + 12, length)), number(at + 12 + length, 4));
    out.push_back(bytes.substr(at + 12, length));
    at += 16 + length;
  }
  return out;
}

/// "a" at step 3 with the value 0.5, by hand from the definition of protocol buffers.
TEST(tensorboard, bytes_of_an_event) {
  metrics m;
  m.set("a", 0.5);
  const std::string value(
      "\x0a\x01"
      "a\x15\x00\x00\x00\x3f",
      8);
  const std::string expected = std::string("\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x10\x03\x2a\x0a\x0a\x08", 15) + value;
  EXPECT_EQ(scalars_event(1.5, 3, m), expected);
  EXPECT_EQ(start_event(1.5, 300), std::string("\x09\x00\x00\x00\x00\x00\x00\xf8\x3f\x10\xac\x02\x3a\x02\x08\x01", 16));
  const std::string record = event_record(expected);
  ASSERT_EQ(record.size(), expected.size() + 16);
  EXPECT_EQ(records(record), std::vector<std::string>{expected});
}

class tensorboard_reader : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TENSORBOARD_DIR");
    if (std::string(RLCORE_TENSORBOARD_PYTHON).empty()) GTEST_SKIP() << "no Python with tensorboard";
  }
  /// What TensorBoard shows of a folder, the same by its two loaders: tag -> (step, value), not a number as -999.
  static curves read(const fs::path& folder) {
    const scratch::folder place;
    scratch::write(place / "read.py",
                   "import json, sys\n"
                   "from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator\n"
                   "from tensorboard.util import tensor_util\n"
                   "def points(events, value):\n"
                   "  return [[e.step, value(e) if value(e) == value(e) else -999] for e in events]\n"
                   "a = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})\n"
                   "b = plugin_event_accumulator.EventAccumulator(sys.argv[1], size_guidance={'tensors': 0})\n"
                   "a.Reload(), b.Reload()\n"
                   "shown = {t: points(a.Scalars(t), lambda e: e.value) for t in a.Tags()['scalars']}\n"
                   "number = lambda e: tensor_util.make_ndarray(e.tensor_proto).item()\n"
                   "also = {t: points(b.Tensors(t), number) for t in b.Tags()['tensors']}\n"
                   "if {t: p for t, p in also.items() if p} != {t: p for t, p in shown.items() if p}:\n"
                   "  sys.exit('the loaders differ: %s and %s' % (shown, also))\n"
                   "json.dump(shown, open(sys.argv[2], 'w'))\n");
    const std::string command = std::string(RLCORE_TENSORBOARD_PYTHON) + " '" + (place / "read.py").string() + "' '" +
                                folder.string() + "' '" + (place / "out").string() + "' 2> '" +
                                (place / "err").string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << scratch::read(place / "err");
    curves out;
    const auto json = nlohmann::json::parse(scratch::read(place / "out"));
    for (const auto& [tag, points] : json.items())
      for (const auto& p : points) out[tag].emplace_back(p[0].get<std::int64_t>(), p[1].get<double>());
    return out;
  }
  static metrics row(double loss, bool with_validation = false) {
    metrics m;
    m.set("actor/pg_loss", loss);
    m.set("training/global_step", 7);
    if (with_validation) m.set("val-core/openai/gsm8k/reward/mean@1", 0.25);
    return m;
  }
  static std::vector<fs::path> files(const fs::path& folder) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
  }
  const scratch::folder place;
};

TEST_F(tensorboard_reader, shows_every_number_once) {
  {
    logger log({"file", "tensorboard"}, place.path());
    log.write(0, row(1, true));
    log.write(1, row(-0.1));
    log.announce(2, row(0.375));
    metrics whole = row(0.375);
    whole.set("timing_s/step", 1e-30);
    log.write(2, whole);
    log.write(3, row(std::nan("")));
    log.write(123456789012, row(1e30));
    // Readable while the run goes on.
    EXPECT_EQ(read(place / "tensorboard")["actor/pg_loss"].size(), 5u);
  }
  const curves shown = read(place / "tensorboard");
  const auto f = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  EXPECT_EQ(shown.at("actor/pg_loss"), (curve{{0, 1}, {1, f(-0.1)}, {2, 0.375}, {3, -999}, {123456789012, f(1e30)}}));
  EXPECT_EQ(shown.at("timing_s/step"), (curve{{2, f(1e-30)}}));
  EXPECT_EQ(shown.at("val-core/openai/gsm8k/reward/mean@1"), (curve{{0, 0.25}}));
  EXPECT_EQ(shown.at("training/global_step").size(), 5u);
}

/// Killed after step 5, continued after step 3: steps 4 and 5 are those of the second run.
TEST_F(tensorboard_reader, a_continued_run_takes_back_what_came_after) {
  {
    logger log({"file", "tensorboard"}, place.path());
    for (int step = 1; step <= 5; ++step) log.write(step, row(step, step == 5));
  }
  const fs::path first = files(place / "tensorboard").at(0);
  const std::string bytes = scratch::read(first);
  for (const std::size_t torn : {std::size_t{0}, std::size_t{3}, std::size_t{20}}) {
    SCOPED_TRACE(torn);
    scratch::write(first, bytes.substr(0, bytes.size() - torn));
    for (const fs::path& file : files(place / "tensorboard"))
      if (file != first) fs::remove(file);
    {
      logger log({"file", "tensorboard"}, place.path(), 3);
      for (int step = 4; step <= 6; ++step) log.write(step, row(10 * step));
    }
    const curves shown = read(place / "tensorboard");
    EXPECT_EQ(shown.at("actor/pg_loss"), (curve{{1, 1}, {2, 2}, {3, 3}, {4, 40}, {5, 50}, {6, 60}}));
    // A second time, within the same second.
    {
      logger(std::vector<std::string>{"tensorboard"}, place.path(), 5).write(6, row(7));
    }
    EXPECT_EQ(read(place / "tensorboard").at("actor/pg_loss"),
              (curve{{1, 1}, {2, 2}, {3, 3}, {4, 40}, {5, 50}, {6, 7}}));
    EXPECT_EQ(files(place / "tensorboard").size(), 3u);
  }
}

TEST_F(tensorboard_reader, a_fresh_run_shows_nothing_of_the_last) {
  {
    logger(std::vector<std::string>{"tensorboard"}, place.path()).write(9, row(1, true));
  }
  {
    logger(std::vector<std::string>{"tensorboard"}, place.path()).write(1, row(2));
  }
  const curves shown = read(place / "tensorboard");
  EXPECT_EQ(shown.at("actor/pg_loss"), (curve{{1, 2}}));
  EXPECT_FALSE(shown.contains("val-core/openai/gsm8k/reward/mean@1"));
  EXPECT_EQ(files(place / "tensorboard").size(), 2u);  // one of them a folder
  EXPECT_EQ(read(place / "tensorboard" / "earlier.1").at("actor/pg_loss"), (curve{{9, 1}}));
}

/// Event files asked for only when the run goes on; a folder of the user's own.
TEST_F(tensorboard_reader, tells_the_steps_before_it_was_asked) {
  {
    logger log({"file"}, place.path());
    for (int step = 1; step <= 3; ++step) log.write(step, row(step));
  }
  const std::string mine = (place / "mine").string();
  {
    logger({"file"}, place.path(), 2, mine).write(3, row(30));
  }
  EXPECT_EQ(read(mine).at("actor/pg_loss"), (curve{{1, 1}, {2, 2}, {3, 30}}));
  EXPECT_FALSE(fs::exists(place / "tensorboard"));
  setenv("TENSORBOARD_DIR", (place / "from_environment").c_str(), 1);
  {
    logger(std::vector<std::string>{"tensorboard"}, place.path()).write(1, row(5));
  }
  {
    logger(std::vector<std::string>{"tensorboard"}, place.path()).write(1, row(6));
  }  // a fresh run removes nothing there
  unsetenv("TENSORBOARD_DIR");
  EXPECT_EQ(read(place / "from_environment").at("actor/pg_loss"), (curve{{1, 6}}));
  // Beside a file that another program has written.
  fs::create_directories(place / "other");
  scratch::write(place / "other" / "events.out.tfevents.1.host.1.0",
                 event_record(version_event(1)) + event_record(scalars_event(1, 7, row(7))));
  {
    logger({"file"}, place.path(), 3, (place / "other").string()).write(4, row(4));
  }
  EXPECT_EQ(read(place / "other").at("actor/pg_loss"), (curve{{4, 4}}));
  EXPECT_EQ(files(place / "from_environment").size(), 2u);
}

/// A step that is logged again adds to its row: a validation of a finished run.
TEST_F(tensorboard_reader, a_step_logged_again_stays_one) {
  {
    logger(std::vector<std::string>{"file", "tensorboard"}, place.path()).write(1, row(0.5));
  }
  {
    logger log({"file", "tensorboard"}, place.path(), 1);
    metrics m;
    m.set("val-core/openai/gsm8k/reward/mean@1", 0.75);
    m.set("actor/pg_loss", 0.5);
    log.write(1, m);
    EXPECT_EQ(log.rows().size(), 1u);
    log.write(2, row(2));
  }
  const auto kept = read_metric_rows(place / "metrics.jsonl");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].values.get("val-core/openai/gsm8k/reward/mean@1"), 0.75);
  EXPECT_EQ(kept[0].values.get("actor/pg_loss"), 0.5);
  const curves shown = read(place / "tensorboard");
  EXPECT_EQ(shown.at("actor/pg_loss"), (curve{{1, 0.5}, {2, 2}}));
  EXPECT_EQ(shown.at("val-core/openai/gsm8k/reward/mean@1"), (curve{{1, 0.75}}));
}

/// A full disk leaves whole records.
TEST(tensorboard, a_step_is_written_whole_or_not_at_all) {
  const scratch::folder place;
  metrics m;
  for (int i = 0; i < 20; ++i) m.set("metric/" + std::to_string(i), i);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit few{1500, old.rlim_max};
  std::size_t steps = 0;
  tensorboard events(place / "events", -1, true);
  setrlimit(RLIMIT_FSIZE, &few);
  try {
    for (; steps < 100; ++steps) events.write(static_cast<std::int64_t>(steps), m);
  } catch (const rlcore::file_error& e) {
    EXPECT_NE(std::string(e.what()).find("File too large"), std::string::npos);
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  const std::string bytes = scratch::read(events.path());
  const auto all = records(bytes);
  EXPECT_EQ(all.size(), steps + 1);  // and the version
  EXPECT_LT(steps, 100u);
  EXPECT_GT(steps, 0u);
  std::size_t size = 0;
  for (const std::string& r : all) size += r.size() + 16;
  EXPECT_EQ(size, bytes.size());
}

TEST(tensorboard, says_what_it_cannot_write) {
  const scratch::folder place;
  scratch::write(place / "file", "x");
  EXPECT_THROW(tensorboard(place / "file" / "sub", -1, true), rlcore::file_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
