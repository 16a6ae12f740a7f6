// Which groups are trained on, which wait, and how they survive a checkpoint.
#include "rlcore/train/policy/dynamic_sampling.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "data/scratch.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;

trajectory scored(std::uint32_t row, double score, std::optional<double> accuracy = {}, double penalty = 0) {
  trajectory t;
  t.row = row, t.tokens = {1, 2, 3}, t.prompt_length = 1;
  t.verdict.score = score, t.accuracy = accuracy, t.length_penalty = penalty;
  t.reward = static_cast<float>(t.score());
  return t;
}
std::vector<std::uint32_t> rows(const std::vector<trajectory>& batch) {
  std::vector<std::uint32_t> all;
  for (const trajectory& t : batch) all.push_back(t.row);
  return all;
}

TEST(dynamic_sampling, keeps_groups_that_differ_in_their_order) {
  std::vector<trajectory> ready{scored(9, 1)};
  const group_counts counts = keep_differing_groups(
      {scored(0, 1), scored(0, 1), scored(1, 1), scored(1, 0), scored(2, 0), scored(2, 0), scored(3, -1), scored(3, 1)},
      2, group_metric::acc, ready);
  EXPECT_EQ(rows(ready), (std::vector<std::uint32_t>{9, 1, 1, 3, 3}));
  EXPECT_EQ(counts.groups, 4);
  EXPECT_EQ(counts.kept, 2);
  EXPECT_EQ(counts.all_right, 1);
  EXPECT_EQ(counts.all_wrong, 1);
  metrics m;
  counts.write(m);
  EXPECT_EQ(m.get("train/groups_all_right"), 0.25);
  for (const auto& [name, x] : m) EXPECT_TRUE(is_defined_metric(name)) << name;
}

TEST(dynamic_sampling, the_metric_decides) {
  // Same accuracy and score, another penalty; then the KL in the reward as well.
  const auto kept = [](group_metric metric) {
    std::vector<trajectory> ready, round{scored(0, 1, 1), scored(0, 1, 1, -0.5), scored(1, 1, 1),
                                         scored(1, 1, 1), scored(2, 0.5, 1),     scored(2, 0.25, 1)};
    round[3].reward = 0.75f;
    keep_differing_groups(std::move(round), 2, metric, ready);
    return rows(ready);
  };
  using r = std::vector<std::uint32_t>;
  EXPECT_EQ(kept(group_metric::acc), r{});
  EXPECT_EQ(kept(group_metric::score), (r{2, 2}));
  EXPECT_EQ(kept(group_metric::seq_reward), (r{0, 0, 2, 2}));
  EXPECT_EQ(kept(group_metric::seq_final_reward), (r{0, 0, 1, 1, 2, 2}));
}

TEST(dynamic_sampling, a_group_of_one_is_kept_and_rounding_is_no_difference) {
  std::vector<trajectory> ready;
  group_counts counts = keep_differing_groups({scored(0, 1), scored(1, 0)}, 1, group_metric::acc, ready);
  EXPECT_EQ(rows(ready), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(counts.all_right + counts.all_wrong, 0);
  ready.clear();
  keep_differing_groups({scored(0, 0.1), scored(0, 0.1), scored(0, 0.1)}, 3, group_metric::acc, ready);
  EXPECT_TRUE(ready.empty());
}

TEST(dynamic_sampling, surplus_waits_in_order) {
  std::vector<trajectory> ready{scored(0, 1), scored(1, 1), scored(2, 1)};
  EXPECT_EQ(rows(take_first(ready, 2)), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(rows(ready), (std::vector<std::uint32_t>{2}));
}

TEST(dynamic_sampling, limits) {
  batch_plan plan;
  plan.prompts_per_round = 8, plan.steps_per_epoch = 5;
  const dynamic_sampling_settings three{.enabled = true, .max_rounds = 3}, none{.enabled = true, .max_rounds = 0};
  EXPECT_EQ(limit_of_rounds(three, plan, 2, 0), "");
  EXPECT_NE(limit_of_rounds(three, plan, 3, 7).find("3 rounds of 8 prompts are the limit"), std::string::npos);
  EXPECT_EQ(limit_of_rounds(none, plan, 1000, 1), "");
  EXPECT_EQ(limit_of_rounds(none, plan, 4, 0), "");
  EXPECT_NE(limit_of_rounds(none, plan, 5, 0).find("a whole pass over the data"), std::string::npos);
}

TEST(surplus_file, keeps_every_bit) {
  const scratch::folder place;
  write_surplus(place.path(), {});
  EXPECT_FALSE(std::filesystem::exists(place / surplus_file_name));
  EXPECT_TRUE(read_surplus(place.path()).empty());

  trajectory t = scored(7, -1.0 / 3, 0.1, -1e-300);
  t.sample = 4, t.sampled_step = 12;
  t.old_logp = {-0.1f, std::numeric_limits<float>::denorm_min()};
  t.entropy = {1.0f / 3, 0};
  t.rollout_logp = {-0.2f, -0.0f};
  t.sampling_mask.push_back(std::vector{t.tokens[1], t.tokens[1] + 3}), t.sampling_mask.push_back({});
  t.reason = rollout::finish::eos;
  t.verdict.acc = false, t.verdict.pred = "\xff\n", t.verdict.why = verify::reason::undecided;
  trajectory plain = scored(8, 1);
  plain.old_logp = {0, -1};
  write_surplus(place.path(), std::vector{t, plain});
  const auto back = read_surplus(place.path());
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].tokens, t.tokens);
  EXPECT_EQ(back[0].prompt_length, 1);
  EXPECT_EQ(back[0].row, 7u);
  EXPECT_EQ(back[0].sample, 4u);
  EXPECT_EQ(back[0].sampled_step, 12);
  EXPECT_EQ(back[0].old_logp, t.old_logp);
  EXPECT_EQ(back[0].entropy, t.entropy);
  EXPECT_TRUE(back[0].rollout_logp == t.rollout_logp && std::signbit(back[0].rollout_logp[1]));
  EXPECT_EQ(back[0].sampling_mask.values, t.sampling_mask.values);
  EXPECT_EQ(back[0].sampling_mask.offsets, t.sampling_mask.offsets);
  EXPECT_EQ(back[0].reason, t.reason);
  EXPECT_EQ(back[0].verdict.score, t.verdict.score);
  EXPECT_EQ(back[0].verdict.acc, false);
  EXPECT_EQ(back[0].verdict.pred, "\xff\n");
  EXPECT_EQ(back[0].verdict.why, verify::reason::undecided);
  EXPECT_EQ(back[0].accuracy, 0.1);
  EXPECT_EQ(back[0].length_penalty, -1e-300);
  EXPECT_EQ(back[0].reward, t.reward);
  EXPECT_FALSE(back[1].accuracy || back[1].verdict.acc || back[1].verdict.pred);

  const auto unfit = [&](auto&& change) {
    trajectory other = t;
    change(other.sampling_mask);
    write_surplus(place.path(), std::vector{other});
    EXPECT_THROW(read_surplus(place.path()), format_error);
  };
  unfit([](auto& mask) { mask.offsets.back() = 3; });
  unfit([](auto& mask) { mask.offsets[1] = 0, mask.offsets[2] = 2; });
  unfit([](auto& mask) { mask.values[0] = mask.values[1]; });
  unfit([](auto& mask) { mask.values[0] -= 1; });
  unfit([](auto& mask) { mask.offsets.pop_back(); });
  for (const char* damaged : {"", "x", "\xff\xff", "{}", "[1]"}) {
    scratch::write(place / surplus_file_name, damaged);
    EXPECT_THROW(read_surplus(place.path()), format_error) << damaged;
  }
  const std::string whole = [&] {
    write_surplus(place.path(), std::vector{t});
    return scratch::read(place / surplus_file_name);
  }();
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    scratch::write(place / surplus_file_name, whole.substr(0, n));
    EXPECT_THROW(read_surplus(place.path()), format_error) << n;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
