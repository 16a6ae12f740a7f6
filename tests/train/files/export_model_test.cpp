// Where a trained model is to go is looked at before anything is trained.
#include "rlcore/train/files/export_model.hpp"

#include <gtest/gtest.h>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::check_export;

TEST(export_model, a_folder_that_can_be_made_is_accepted_and_not_made) {
  const scratch::folder place;
  check_export("--save_path", place.path());
  check_export("--save_path", place / "a" / "b");
  check_export("--save_path", "not/there");
  EXPECT_FALSE(std::filesystem::exists(place / "a"));
}

TEST(export_model, a_file_in_the_way_is_refused) {
  const scratch::folder place;
  scratch::write(place / "file", "");
  const std::string file = (place / "file").string();
  for (const auto& to : {place / "file", place / "file" / "model"})
    scratch::error_of<config_error>([&] { check_export("--save_path", to); },
                                    {"--save_path " + to.string() + ": " + file + " is no folder; expected a folder"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
