#include "rlcore/train/evaluation/problems.hpp"

#include <gtest/gtest.h>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::train::problems_of;

rlcore::data::prompt_dataset rows(const std::vector<std::pair<std::string, std::int32_t>>& all) {
  rlcore::data::prompt_dataset set;
  for (const auto& [source, id] : all) {
    rlcore::data::prompt p;
    p.data_source = source, p.ids = {1, id};
    set.prompts.push_back(p);
  }
  return set;
}

TEST(problems, rows_of_one_prompt_are_one_problem_if_all_prompts_have_as_many) {
  EXPECT_EQ(problems_of(rows({{"aime", 7}, {"aime", 8}, {"aime", 8}, {"aime", 7}})),
            (std::vector<std::uint32_t>{0, 1, 1, 0}));
}

TEST(problems, a_stray_duplicate_stays_a_problem_of_its_own) {
  EXPECT_EQ(problems_of(rows({{"gsm8k", 7}, {"gsm8k", 8}, {"gsm8k", 7}})), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(problems, sources_are_counted_apart) {
  EXPECT_EQ(problems_of(rows({{"gsm8k", 7}, {"aime", 7}, {"aime", 7}, {"gsm8k", 8}})),
            (std::vector<std::uint32_t>{0, 1, 1, 3}));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
