// The first optimizer steps of every built trainer against the same steps by PyTorch: tests/reference/first_steps.py.
#include "first_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace RLCORE_TEST_ID {
namespace {

using first_steps::ordered_json;

/// Relative distance that is allowed, and the size below which numbers are compared as if they had it.
constexpr double tolerance = 1e-4, floor_of_size = 0.01;

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& [name, content] : first_steps::cases().items()) list.push_back(name);
  return list;
}

class first_steps_of : public testing::TestWithParam<std::string> {};

TEST_P(first_steps_of, equal_pytorch) {
  const ordered_json& expected = first_steps::cases().at(GetParam());
  const auto name = expected["program"].get<std::string>();
  if (!std::filesystem::exists(program::path_of(name))) GTEST_SKIP() << "no " << program::path_of(name);
  const scratch::folder place;
  const program::result r = program::run(name, first_steps::arguments(GetParam(), place.path()));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");

  std::vector<ordered_json> rows;
  std::istringstream file(scratch::read(place / "out" / "metrics.jsonl"));
  for (std::string line; std::getline(file, line);) rows.push_back(ordered_json::parse(line));
  std::erase_if(rows, [](const ordered_json& row) { return row["step"] == 0; });
  ASSERT_EQ(rows.size(), expected["rows"].size());
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [metric, number] : expected["rows"][i].items()) {
      ASSERT_TRUE(rows[i].contains(metric)) << "step " << i + 1 << " has no " << metric << ": " << rows[i].dump();
      const auto ours = rows[i][metric].get<double>(), theirs = number.get<double>();
      const double distance = std::abs(ours - theirs) / std::max(std::abs(theirs), floor_of_size);
      EXPECT_LE(distance, tolerance) << "step " << i + 1 << ", " << metric << ": " << ours << ", by PyTorch " << theirs;
      worst = std::max(worst, distance);
    }
  }
  std::printf("largest distance of %s from PyTorch: %.1e\n", GetParam().c_str(), worst);
}

INSTANTIATE_TEST_SUITE_P(trainers, first_steps_of, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace RLCORE_TEST_ID
