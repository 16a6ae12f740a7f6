// Several data sets in one order, and where their files are found.
#include "rlcore/data/blend.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using data::row_place;

TEST(blend, one_set_after_the_other) {
  const std::size_t sizes[] = {2, 0, 1};
  EXPECT_EQ(data::concatenated(sizes), (std::vector<row_place>{{0, 0}, {0, 1}, {2, 0}}));
}

TEST(blend, mixes_by_probability_until_every_set_was_seen) {
  const std::size_t sizes[] = {300, 1000};
  const double probabilities[] = {1, 3};
  const auto order = data::interleaved(sizes, probabilities, 7);
  std::size_t count[2] = {0, 0};
  for (const row_place& p : order) {
    EXPECT_EQ(p.row, count[p.set] % sizes[p.set]);  // each set in its own order, from the start again at its end
    ++count[p.set];
  }
  EXPECT_TRUE(count[0] >= 300 && count[1] >= 1000);
  EXPECT_TRUE(count[0] == 300 || count[1] == 1000) << "it stops when the last one is through";
  const double share = static_cast<double>(count[0]) / static_cast<double>(order.size());
  EXPECT_NEAR(share, 0.25, 4 * std::sqrt(0.25 * 0.75 / static_cast<double>(order.size())));
  EXPECT_EQ(data::interleaved(sizes, probabilities, 7), order);
  EXPECT_NE(data::interleaved(sizes, probabilities, 8), order);
  EXPECT_THROW(data::interleaved(sizes, std::vector<double>{1, 0}, 7), std::invalid_argument);
  EXPECT_THROW(data::interleaved(sizes, std::vector<double>{1}, 7), std::invalid_argument);
}

class open_blend : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, int first, int count) const {
    const std::filesystem::path path = place / name;
    std::filesystem::create_directories(path.parent_path());
    std::string text;
    for (int i = 0; i < count; ++i) text += "{\"x\": " + std::to_string(first + i) + "}\n";
    scratch::write(path, text);
    return path;
  }
  static std::vector<int> values(const data::blend& b) {
    std::vector<int> x;
    for (std::size_t i = 0; i < b.size(); ++i) x.push_back(b[i]["x"]);
    return x;
  }
  std::string refusal(const data::blend_settings& s) const {
    try {
      data::open_blend(s);
    } catch (const error& e) {
      return e.what();
    }
    return "opened";
  }
  const scratch::folder place;
};

TEST_F(open_blend, reads_files_folders_and_splits) {
  const std::string a = file("a.jsonl", 0, 3), b = file("b.jsonl", 10, 2);
  EXPECT_EQ(values(data::open_blend({.datasets = a + ", " + b})), (std::vector<int>{0, 1, 2, 10, 11}));
  EXPECT_EQ(data::open_blend({.datasets = a + "," + b}).where(4), b + ": row 1");
  EXPECT_EQ(values(data::open_blend({.datasets = a + "," + b, .max_samples = 2})), (std::vector<int>{0, 1}));
  file("set/train-00001-of-2.jsonl", 2, 2), file("set/train-00000-of-2.jsonl", 0, 2), file("set/test.jsonl", 7, 1);
  file("set/sub/data.jsonl", 30, 1);
  const std::string set = (place / "set").string();
  EXPECT_EQ(values(data::open_blend({.datasets = set})), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(values(data::open_blend({.datasets = set, .split = "test"})), (std::vector<int>{7}));
  EXPECT_EQ(values(data::open_blend({.datasets = set + "@sub"})), (std::vector<int>{30}));
  EXPECT_EQ(data::open_blend({.datasets = a + "," + b, .probabilities = "0.5,0.5"}).sets.size(), 2u);
}

TEST_F(open_blend, says_what_is_wrong) {
  const std::string a = file("a.jsonl", 0, 3);
  EXPECT_NE(refusal({.datasets = a + ",missing.jsonl"}).find("no file or folder missing.jsonl"), std::string::npos);
  EXPECT_NE(refusal({.datasets = "Org/name"}).find("nothing is downloaded"), std::string::npos);
  EXPECT_NE(refusal({.datasets = a, .probabilities = "0.5,0.5"}).find("2 numbers for 1 data sets"), std::string::npos);
  EXPECT_NE(refusal({.datasets = a, .probabilities = "half"}).find("'half' is not a number above 0"),
            std::string::npos);
  file("set/train.jsonl", 0, 1);
  EXPECT_NE(refusal({.datasets = (place / "set").string(), .split = "test"}).find("of the split 'test'"),
            std::string::npos);
  EXPECT_NE(refusal({.datasets = file("empty.jsonl", 0, 0).string()}).find("no rows"), std::string::npos);
}

TEST(blend, looks_for_every_file_before_it_reads_one) {
  const scratch::folder place;
  scratch::write(place / "broken.jsonl", "no JSON");
  const std::string broken = (place / "broken.jsonl").string(), missing = (place / "missing.jsonl").string();
  scratch::error_of<data_error>([&] { data::open_blend({.datasets = broken + "," + missing}); },
                                {"no file or folder " + missing + "; expected"});
  scratch::error_of<data_error>([&] { data::find_sets((place / "brokne.jsonl").string(), "train"); },
                                {"brokne.jsonl (did you mean 'broken.jsonl'?); expected"});
  scratch::error_of<data_error>([&] { data::open_blend({.datasets = broken}); }, {"broken.jsonl: line 1"});
  EXPECT_EQ(data::find_sets(broken + "," + broken, "train").size(), 2u);  // their rows are not read yet
}

}  // namespace
}  // namespace RLCORE_TEST_ID
