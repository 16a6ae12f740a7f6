// The time line of a run: valid JSON of what was recorded, by rank and thread, and nothing where it is off.
#include "rlcore/core/timeline.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

TEST(timeline, has_the_spans_of_every_thread) {
  const scratch::folder place;
  const std::filesystem::path file = place / "trace.json";
  for (int run = 0; run < 2; ++run) {  // the second replaces the file of the first
    {
      const timeline::span before("before");
    }
    timeline::create(file);
    timeline::record_to(file);
    EXPECT_TRUE(timeline::on());
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.emplace_back([rank] {
        timeline::name_thread(rank, "main");
        const timeline::span outer("outer", "rank", rank);
        const timeline::span inner("inner");
        EXPECT_EQ(timeline::rank_here(), rank);
      });
    for (std::thread& t : ranks) t.join();
    EXPECT_TRUE(timeline::flush());
    {
      const timeline::span not_flushed("not flushed");
    }
    timeline::stop();
    {
      const timeline::span after("after");
    }
    EXPECT_TRUE(timeline::end(file));
    const auto events = nlohmann::json::parse(scratch::read(file));
    std::set<int> ranks_seen, threads;
    int outer = 0, inner = 0;
    for (const auto& e : events) {
      ASSERT_TRUE(e.at("ph") == "X" || e.at("ph") == "M") << e;
      if (e.at("ph") == "M") continue;
      outer += e.at("name") == "outer", inner += e.at("name") == "inner";
      ranks_seen.insert(e.at("pid").get<int>()), threads.insert(e.at("tid").get<int>());
      EXPECT_GE(e.at("dur").get<double>(), 0);
      if (e.at("name") == "outer") {
        EXPECT_EQ(e.at("args").at("rank"), e.at("pid"));
      }
    }
    EXPECT_EQ(outer, 3);
    EXPECT_EQ(inner, 3);
    EXPECT_EQ(ranks_seen, (std::set{0, 1, 2}));
    EXPECT_EQ(threads, (std::set{0, 1, 2}));
    EXPECT_EQ(events[1].at("args").at("name"), "main");
    EXPECT_EQ(scratch::read(file).find("before"), std::string::npos);
    EXPECT_EQ(scratch::read(file).find("not flushed"), std::string::npos);
  }
}

TEST(timeline, a_file_that_cannot_be_written) {
  EXPECT_THROW(timeline::create("/nosuch/folder/trace.json"), file_error);
  EXPECT_FALSE(timeline::on());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
