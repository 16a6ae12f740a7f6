// What a policy step scores while ranks have shards of policy, reference and critic: the numbers of one rank.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/policy/actor.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/trajectory/trajectory_bytes.hpp"

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::trajectory;

/// Answers of unequal lengths to prompts of three tokens.
std::vector<trajectory> sampled(std::uint32_t count) {
  std::vector<trajectory> all(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t n = 0; n < 5 + 9 * i % 13; ++n)
      all[i].tokens.push_back(static_cast<std::int32_t>(random_key{5}.below(300, i, n)));
    all[i].prompt_length = 3, all[i].row = i;
  }
  return all;
}

/// The stages of train::response_scorer one after the other, then an update of the critic, and its values again.
std::vector<trajectory> scored(int ranks, int zero, std::uint32_t count, const std::filesystem::path& folder) {
  std::vector<trajectory> first;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& everybody) {
    parallel::parallel_settings how;
    how.zero = zero;
    parallel::world world(everybody, how);
    cpu device(1);
    const nn::config config = checkpoint::read_config(folder);
    train::policy_settings settings;
    settings.logits_bytes = 1 << 20;
    train::actor<cpu> policy(device, config, settings, &world);
    train::load_weights(policy, folder);
    train::frozen_model<cpu> reference(device, config, &world);
    train::load_weights(reference, folder);
    train::critic_settings how_to_value;
    how_to_value.mini_trajectories = 4, how_to_value.forward_trajectories = 2;
    train::critic<cpu> critic(device, config, how_to_value, 1 << 20, 3, &world);
    train::load_weights(critic, folder);

    std::vector<trajectory> rows = sampled(count);
    const auto stage = [&](std::initializer_list<std::vector<float> trajectory::*> fields, auto&& compute) {
      const std::vector<std::vector<float> trajectory::*> list(fields);
      train::compute_own_rows(world.data(), rows, std::span(list), compute);
      const auto whole = [&](const auto& t) { return std::as_const(t.model).weights().size() > 0; };
      EXPECT_EQ(whole(policy) || whole(reference) || whole(critic), zero < 3 || ranks == 1);
    };
    stage({&trajectory::old_logp, &trajectory::entropy}, [&](std::span<trajectory> own) {
      train::score_trajectories(policy.model, policy.space, own, 0.8f, 2, 0, &trajectory::old_logp,
                                &trajectory::entropy);
    });
    stage({&trajectory::sum_squared_probs},
          [&](std::span<trajectory> own) { train::sum_squared_probs(policy.model, policy.space, own, 0.8f, 0, 16); });
    stage({&trajectory::ref_logp}, [&](std::span<trajectory> own) {
      train::score_trajectories(reference.model, policy.space, own, 0.8f, 1, 0, &trajectory::ref_logp);
    });
    for (int pass = 0; pass < 2; ++pass) {
      stage({&trajectory::value}, [&](std::span<trajectory> own) { critic.values(own); });
      for (trajectory& t : rows) t.token_return.assign(t.old_logp.size(), 0.5f);
      train::metrics m;
      if (pass == 0) critic.update(rows, std::array{0.01}, {}, m);
    }
    if (world.first()) first = rows;
  });
  return first;
}

TEST(policy_in_shards, scores_have_the_bits_of_one_rank) {
  const scratch::folder place;
  const auto folder = tiny_model::make(place.path()).model;
  for (const std::uint32_t count : {9u, 2u}) {  // 2: ranks without rows
    const std::vector<trajectory> one = scored(1, 3, count, folder);
    for (const trajectory& t : one) {
      EXPECT_EQ(t.ref_logp, t.old_logp);
      EXPECT_EQ(t.value.size(), t.old_logp.size());
      EXPECT_EQ(t.sum_squared_probs.size(), t.old_logp.size());
    }
    for (const int ranks : {2, 3, 4})
      for (const int zero : {2, 3})
        EXPECT_TRUE(train::to_bytes(scored(ranks, zero, count, folder)) == train::to_bytes(one)) << ranks << zero;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
