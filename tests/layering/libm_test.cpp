#include "layering/libm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace RLCORE_TEST_ID {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(libm, is_called_only_where_no_bits_are_made) {
  for (const std::string& line :
       layering::calls_of_libm(RLCORE_SOURCE_DIR "/include/rlcore", layering::headers_that_make_no_bits()))
    ADD_FAILURE() << "include/rlcore/" << line << ": core/elementary.hpp has it with the same bits everywhere";
}

TEST(libm, every_way_to_call_it_is_found) {
  const std::filesystem::path top =
      std::filesystem::temp_directory_path() / ("rlcore_libm_" + std::to_string(getpid()));
  std::filesystem::create_directories(top / "core");
  std::ofstream(top / "core/a.hpp")
      << "// std::exp\nelementary::exp(1.0); a.log(2); std::sqrt(3); exponent(4); \"expf\"";
  EXPECT_THAT(layering::calls_of_libm(top, {}), IsEmpty());
  EXPECT_THAT(layering::calls_of_libm(top, {{"core/", "tests"}}), ElementsAre("core/: needs no exception any more"));
  std::ofstream(top / "core/a.hpp") << "std::pow(1, 2); using std::log1p; __builtin_exp2f(1); powf(1, 2); std::cosf(3)";
  EXPECT_THAT(layering::calls_of_libm(top, {}),
              ElementsAre("core/a.hpp: __builtin_exp2f", "core/a.hpp: cosf", "core/a.hpp: powf",
                          "core/a.hpp: std::cosf", "core/a.hpp: std::log1p", "core/a.hpp: std::pow"));
  EXPECT_THAT(layering::calls_of_libm(top, {{"core/", "tests"}}), IsEmpty());
  std::filesystem::remove_all(top);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
