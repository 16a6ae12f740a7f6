// A program of headers alone, under mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "rlcore/parallel/launch.hpp"

namespace RLCORE_TEST_ID {
namespace {

TEST(launch_of_headers_alone, says_what_to_link) {
  ASSERT_EQ(setenv("OMPI_COMM_WORLD_SIZE", "2", 1), 0);
  EXPECT_THAT([] { rlcore::parallel::launch({}, [](rlcore::parallel::any_communicator&) {}); },
              testing::ThrowsMessage<rlcore::communication_error>(testing::HasSubstr("link rlcore::mpi")));
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
