// Learning-rate factors against the schedulers of transformers, and the warm-up of verl in closed form.
#include "rlcore/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "optim/golden.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

optim::schedule_kind kind_of(const std::string& name) {
  const std::pair<const char*, optim::schedule_kind> names[] = {{"constant", optim::schedule_kind::constant},
                                                                {"cosine", optim::schedule_kind::cosine},
                                                                {"wsd", optim::schedule_kind::wsd},
                                                                {"cosine_with_min_lr", optim::schedule_kind::cosine},
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

TEST(schedule, verl_in_all_its_versions) {
  std::ifstream in(RLCORE_REFERENCE_DIR "/verl_schedules.json");
  const nlohmann::json versions = nlohmann::json::parse(in);
  EXPECT_EQ(versions.at("0.9.1"), "0.6.1");
  for (const char* version : {"0.5.0", "0.6.1"})
    for (const nlohmann::json& golden : versions.at(version)) {
      optim::schedule s{.kind = kind_of(golden.at("kind")),
                        .total_steps = golden.at("total"),
                        .warmup_steps = golden.at("warmup"),
                        .min_lr_ratio = golden.at("min"),
                        .num_cycles = golden.at("cycles")};
      if (version == std::string("0.5.0")) s.init_lr_ratio = s.min_lr_ratio;
      const auto factors = golden.at("factors").get<std::vector<double>>();
      for (std::size_t i = 0; i < factors.size(); ++i)
        EXPECT_NEAR(s.factor(static_cast<std::int64_t>(i)), factors[i], 1e-12) << version << golden << " step " << i;
    }
}

TEST(schedule, a_share_of_the_steps_is_rounded_down) {
  optim::schedule s{.total_steps = 105, .warmup_ratio = 0.1};
  EXPECT_EQ(s.warmup(), 10);
  s.warmup_steps = 0;  // an explicit number wins over the ratio
  EXPECT_EQ(s.warmup(), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
