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

TEST(export_model, a_gguf_file_needs_its_folder_and_no_other_of_its_name) {
  const scratch::folder place;
  check_export("rlcore.export_path", place / "model.gguf");
  check_export("rlcore.export_path", place / "not" / "there" / "model.gguf");
  scratch::write(place / "old.gguf", "");
  check_export("rlcore.export_path", place / "old.gguf");  // is replaced
  std::filesystem::create_directories(place / "folder.gguf");
  scratch::error_of<config_error>([&] { check_export("rlcore.export_path", place / "folder.gguf"); },
                                  {"folder.gguf: is a folder; expected a file for the model"});
  const std::string file = (place / "old.gguf").string();
  scratch::error_of<config_error>([&] { check_export("rlcore.export_path", place / "old.gguf" / "model.gguf"); },
                                  {": " + file + " is no folder"});
}

TEST(export_model, a_model_that_no_gguf_file_holds_is_refused_before_it_is_trained) {
  nn::config scores;
  scores.model = nn::llama{}, scores.output = nn::model_output::score;
  train::check_export_of("--save_path", "model", scores, "base");
  scratch::error_of<format_error>([&] { train::check_export_of("--save_path", "model.gguf", scores, "base"); },
                                  {"--save_path model.gguf: base/config.json: no GGUF file: the model gives scores"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
