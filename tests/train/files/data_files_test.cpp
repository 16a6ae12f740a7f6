// The files of rows that a command line names are looked for before the first one is read.
#include "rlcore/train/files/model_files.hpp"

#include <gtest/gtest.h>

#include "data/scratch.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/data/table.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

void check(const std::string& files) {
  const train::options opt = train::options::parse({"data.train_files=" + files}, train::sft_registry());
  train::check_data_files(opt, "data.train_files", data::check_table);
}

TEST(data_files, every_file_of_the_list) {
  const scratch::folder place;
  scratch::write(place / "a.jsonl", "not read");
  scratch::write(place / "b.csv", "");
  const std::string a = (place / "a.jsonl").string();
  check(a), check("[" + a + "," + a + "]"), check("[]");
  scratch::error_of<file_error>(
      [&] { check("[" + a + "," + (place / "b.jsonl").string() + "]"); },
      {"data.train_files: ", "b.jsonl: cannot open: No such file or directory (did you mean"});
  scratch::error_of<file_error>([&] { check(place.path().string() + "/no.json"); }, {"data.train_files: ", "no.json"});
  scratch::error_of<data_error>([&] { check((place / "b.csv").string()); }, {"data.train_files: ", "'.csv'"});
  scratch::error_of<config_error>([&] { check("''"); }, {"data.train_files names an empty path"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
