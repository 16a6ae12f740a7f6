// A monitor more: what it sums, and that nothing else of the piece changes.
#include "rlcore/objective/piece/combine/sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

/// Two packed rows of 37 and 4 tokens.
struct rows_of_tokens {
  std::vector<std::int32_t> offsets{0, 37, 41};
  floats logp, old_logp, ref_logp, selected, advantage{1.5f, -0.5f}, slope = floats(41);
  global_counts counts;

  rows_of_tokens() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 41; ++i) {
      logp.push_back(-std::abs(normal(random)));
      old_logp.push_back(logp.back() + 0.3f * normal(random));
      ref_logp.push_back(logp.back() + 0.3f * normal(random));
      selected.push_back(i % 7 == 0);
    }
    counts.add_row(37), counts.add_row(4);
  }

  template <class Objective>
  auto operator()(const Objective& objective) {
    const auto flat = [](auto& v) {
      return vector_view<const typename std::remove_reference_t<decltype(v)>::value_type>(
          v.data(), {static_cast<extent_t>(v.size())});
    };
    token_batch<float> batch{.logp = flat(logp), .old_logp = flat(old_logp), .ref_logp = flat(ref_logp)};
    batch.advantage = per_row(flat(advantage)), batch.selected = flat(selected), batch.offsets = flat(offsets);
    token_gradients<float> gradients{.logp = vector_view<float>(slope.data(), {static_cast<extent_t>(slope.size())})};
    return evaluate(serial{}, objective, token_mean{}, batch, counts, gradients);
  }
};

template <class Report>
double total(const Report& r, std::size_t monitor) {
  return r.monitor[monitor].total.value();
}

}  // namespace

TEST(also_measures, sums_the_measure_and_changes_nothing_else) {
  rows_of_tokens here;
  const auto alone = here(ppo_clip{});
  const floats slope = here.slope;
  const auto both = here(also_measures{ppo_clip{}, ppo_kl{}});
  EXPECT_EQ(alone.loss(), both.loss());
  EXPECT_EQ(slope, here.slope);
  ASSERT_EQ(both.monitor.size(), alone.monitor.size() + 1);
  EXPECT_EQ(both.monitor[0].name, "clipfrac");
  EXPECT_EQ(total(both, 0), total(alone, 0));
  EXPECT_EQ(both.monitor[1].name, "ppo_kl");
  double kl = 0, magnitude = 0;
  for (std::size_t i = 0; i < 41; ++i)
    kl += here.old_logp[i] - here.logp[i], magnitude += std::abs(here.old_logp[i] - here.logp[i]);
  EXPECT_NEAR(total(both, 1), kl, 1e-7 * magnitude);
  EXPECT_NEAR(total(here(also_measures{policy_gradient{}, abs_ppo_kl{}}), 0), magnitude, 1e-7 * magnitude);
  EXPECT_EQ(total(here(also_measures{policy_gradient{}, selected_fraction{}}), 0), 6);
}

TEST(also_measures, a_limit_holds_infinities_and_passes_nan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  rows_of_tokens here;
  here.logp = here.old_logp;
  here.logp[3] = -infinity, here.logp[5] = here.old_logp[5] + 50;
  EXPECT_EQ(total(here(also_measures{policy_gradient{}, ppo_kl{.limit = 20}}), 0), 0);
  here.logp[5] = here.old_logp[5];
  EXPECT_EQ(total(here(also_measures{policy_gradient{}, ppo_kl{.limit = 20}}), 0), 20);
  EXPECT_EQ(total(here(also_measures{policy_gradient{}, ppo_kl{}}), 0), infinity);
  here.old_logp[3] = -infinity;
  EXPECT_TRUE(std::isnan(total(here(also_measures{policy_gradient{}, ppo_kl{.limit = 20}}), 0)));
}

TEST(also_measures, finds_the_first_piece_of_what_is_composed) {
  rows_of_tokens here;
  const sum plain{scaled{2.0, ppo_clip{}}, k3{}, scaled{0.5, k3{}}};
  const auto alone = here(plain);
  const floats slope = here.slope;
  const auto both = here(measure_at_first(plain, ppo_kl{}));
  EXPECT_EQ(alone.loss(), both.loss());
  EXPECT_EQ(slope, here.slope);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(both.piece[i].name, alone.piece[i].name);
    EXPECT_EQ(both.piece[i].coefficient, alone.piece[i].coefficient);
    EXPECT_EQ(both.piece[i].aggregated.value(), alone.piece[i].aggregated.value());
  }
  EXPECT_EQ(both.monitor[1].name, "ppo_kl");
  EXPECT_EQ(here(measure_at_first(sum{ppo_clip{}}, ppo_kl{})).monitor[1].name, "ppo_kl");
}

}  // namespace RLCORE_TEST_ID
