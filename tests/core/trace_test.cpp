// The time line of a run: valid JSON of what was recorded, by rank and thread, and nothing where it is off.
#include "rlcore/core/trace.hpp"

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

TEST(trace, has_the_spans_of_every_thread) {
  const scratch::folder place;
  const std::filesystem::path file = place / "trace.json";
  for (int run = 0; run < 2; ++run) {  // the second replaces the file of the first
    {
      const trace::span before("before");
    }
    trace::create(file);
    trace::record_to(file);
    EXPECT_TRUE(trace::on());
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.emplace_back([rank] {
        trace::name_thread(rank, "main");
        const trace::span outer("outer", "rank", rank);
        const trace::span inner("inner");
        EXPECT_EQ(trace::rank_here(), rank);
      });
    for (std::thread& t : ranks) t.join();
    EXPECT_TRUE(trace::flush());
    {
      const trace::span not_flushed("not flushed");
    }
    trace::stop();
    {
      const trace::span after("after");
    }
    EXPECT_TRUE(trace::end(file));
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

TEST(trace, a_file_that_cannot_be_written) {
  EXPECT_THROW(trace::create("/nosuch/folder/trace.json"), file_error);
  EXPECT_FALSE(trace::on());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
