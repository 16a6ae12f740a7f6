// A row that is in the file before its step is over.
#include <gtest/gtest.h>

#include "data/scratch.hpp"
#include "rlcore/telemetry/logger.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

TEST(logger_announce, the_row_is_in_the_file_at_once_and_write_replaces_it) {
  const scratch::folder place;
  const auto file = place / "metrics.jsonl";
  metrics early, late;
  early.set("a", 1);
  late.set("a", 1);
  late.set("longer", 2.5);
  {
    logger log({"file"}, place.path());
    log.write(1, early);
    log.announce(2, late);
    EXPECT_EQ(scratch::read(file), "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":1,\"longer\":2.5}\n");
    EXPECT_EQ(log.rows().size(), 1u);
    log.write(2, early);  // a shorter one
    EXPECT_EQ(scratch::read(file), "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":1}             \n");
    EXPECT_EQ(log.rows().size(), 2u);
    log.announce(3, early);  // and then killed
  }
  EXPECT_EQ(read_metric_rows(file).size(), 3u);
  EXPECT_EQ(logger({"file"}, place.path(), 3).rows().size(), 3u);
  EXPECT_EQ(logger({"file"}, place.path(), 2).rows().size(), 2u);
  logger nowhere({"file"}, "");
  nowhere.announce(1, early);
  nowhere.write(1, early);
  EXPECT_EQ(nowhere.rows().size(), 1u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
