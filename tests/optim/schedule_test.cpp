// Learning-rate factors against the schedulers of transformers, and the warm-up of verl in closed form.
#include "rlcore/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "optim/golden.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

optim::schedule_kind kind_of(const std::string& name) {
  const std::pair<const char*, optim::schedule_kind> names[] = {
      {"constant", optim::schedule_kind::constant},
      {"cosine", optim::schedule_kind::cosine},
      {"wsd", optim::schedule_kind::wsd},
      {"cosine_with_min_lr", optim::schedule_kind::cosine_with_min_lr},
      {"linear", optim::schedule_kind::linear}};
  for (const auto& [known, kind] : names)
    if (name == known) return kind;
  throw std::invalid_argument(name);
}

TEST(schedule, transformers) {
  for (const auto& golden : rlcore_test::optim_golden().at("schedules")) {
    optim::schedule s;
    s.kind = kind_of(golden.at("kind"));
    s.total_steps = golden.at("total");
    s.warmup_steps = golden.at("warmup");
    s.min_lr_ratio = golden.at("min");
    s.num_cycles = golden.at("cycles");
    const auto factors = golden.at("factors").get<std::vector<double>>();
    // With a minimum, transformers' wsd warms up from it and verl's from 0.
    const bool from_minimum = s.min_lr_ratio > 0 && s.kind == optim::schedule_kind::wsd;
    for (std::size_t i = from_minimum ? static_cast<std::size_t>(s.warmup_steps) : 0; i < factors.size(); ++i)
      EXPECT_NEAR(s.factor(static_cast<std::int64_t>(i)), factors[i], 1e-12) << golden.at("kind") << " step " << i;
  }
}

TEST(schedule, warmup_of_verl) {
  optim::schedule s{.kind = optim::schedule_kind::cosine, .total_steps = 100, .warmup_ratio = 0.1, .min_lr_ratio = 0.2};
  EXPECT_EQ(s.warmup(), 10);
  EXPECT_DOUBLE_EQ(s.factor(0), 0.2);  // cosine warms up from the minimum
  EXPECT_DOUBLE_EQ(s.factor(5), 0.2 + 0.8 * 0.5);
  EXPECT_DOUBLE_EQ(s.factor(10), 1);
  EXPECT_DOUBLE_EQ(s.factor(55), 0.6);
  EXPECT_DOUBLE_EQ(s.factor(100), 0.2);
  s.warmup_steps = 0;  // an explicit number wins over the ratio
  EXPECT_EQ(s.warmup(), 0);
  EXPECT_DOUBLE_EQ(s.factor(0), 1);
  s.kind = optim::schedule_kind::constant;
  s.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(s.factor(0), 0);
  EXPECT_DOUBLE_EQ(s.factor(1), 0.25);
  EXPECT_DOUBLE_EQ(s.factor(4), 1);
  s.kind = optim::schedule_kind::wsd;
  EXPECT_DOUBLE_EQ(s.factor(1), 0.25);
  EXPECT_DOUBLE_EQ(s.factor(1000), 0.2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
