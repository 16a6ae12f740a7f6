// A session of ranks that have a model together, beside the session of one rank and the engines of a sampling group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/rollout/session_memory.hpp"
#include "rollout/failing_group.hpp"
#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace session_scenario;
using rollout::session;
using rollout::ticket;

nn::config with_heads(std::int64_t row_chunks) {
  nn::config c = tiny();
  c.vocab_size = 301;  // parts of it are not equally large
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 4;
  c.tp_reduce_chunks = row_chunks;
  return c;
}

/// Ranks with their parts of a model.
struct ranks_of {
  explicit ranks_of(const nn::config& c, int size) : ranks(size, std::chrono::seconds(20)) {
    for (int r = 0; r < size; ++r) {
      devices.push_back(std::make_unique<cpu>(1));
      ends.push_back(std::make_unique<nn::tensor_group_of<parallel::thread_rank>>(ranks[r]));
      groups.push_back(std::make_unique<failing_group>(*ends.back()));
      spaces.push_back(std::make_unique<nn::workspace<cpu>>(*devices.back()));
      models.push_back(std::make_unique<nn::causal_lm<cpu>>(*devices.back(), c, nn::partition{r, size}));
      models.back()->initialize(11);
      models.back()->set_tensor_group(groups.back().get());
      if (r > 0) group.others.push_back({*models.back(), *spaces.back()});
    }
    group.run = [this](const std::function<void(int)>& f) { ranks.run(f); };
  }
  session<cpu> open(const rollout::session_limits& l) { return {*models[0], *spaces[0], l, &group}; }

  parallel::standing_ranks ranks;
  std::vector<std::unique_ptr<cpu>> devices;
  std::vector<std::unique_ptr<nn::tensor_group>> ends;
  std::vector<std::unique_ptr<failing_group>> groups;
  std::vector<std::unique_ptr<nn::workspace<cpu>>> spaces;
  std::vector<std::unique_ptr<nn::causal_lm<cpu>>> models;
  rollout::rank_group<cpu> group;
};

struct everything : notes {
  std::map<ticket, std::vector<float>> prompts;
  void on_prompt(const rollout::prompt_token& t) {
    prompts[t.of].push_back(t.logp);
    for (const rollout::token_logprob& other : t.most_likely) prompts[t.of].push_back(other.logp);
  }
};

/// Jobs of all kinds that come and go while others run, with too few pages for all and a pause between.
everything worked(session<cpu>& s) {
  everything heard;
  const auto submit = [&](std::uint32_t first, std::uint32_t count) {
    std::vector<rollout::job> jobs;
    for (std::uint32_t i = first; i < first + count; ++i) {
      rollout::job j = job_of(words(i / 3, 3 + 11 * (i % 5)), i, i % 2);
      if (i % 3 == 0) j.stop_ids.clear(), j.max_new_tokens = 70;
      if (i % 4 == 0) j.prompt_logprobs = 2;
      if (i % 4 == 1) {
        auto rules = std::make_shared<rollout::logit_rules>();
        rules->frequency_penalty = 0.7f, rules->logit_bias = {{7, 2.0f}};
        j.rules = rules;
      }
      jobs.push_back(std::move(j));
    }
    return s.submit(std::move(jobs));
  };
  const auto steps = [&](int n) {
    for (int i = 0; i < n && s.step(heard); ++i) continue;
  };
  const std::vector<ticket> early = submit(0, 12);
  steps(3);
  s.cancel(early[2]);
  submit(12, 6);
  steps(2);
  s.pause(), s.resume();
  submit(0, 3);  // prompts whose keys and values may still be there
  finish_all(s, heard);
  return heard;
}

rollout::session_limits few_pages(const nn::config& c, int ranks) {
  rollout::session_limits l = limits();
  l.max_cache_bytes = 6 * nn::kv_cache<cpu>::page_bytes(cpu(1), c, {0, ranks});
  return l;
}

TEST(rank_group, has_the_bits_of_one_rank_with_row_chunks) {
  const nn::config c = with_heads(4);
  cpu device(1);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(11);
  nn::workspace<cpu> space(device);
  session<cpu> whole(model, space, few_pages(c, 1));
  const everything expected = worked(whole);
  ASSERT_EQ(expected.of.size(), 21u);
  EXPECT_FALSE(expected.prompts.empty());
  EXPECT_GT(whole.statistics().preemptions, 0u);
  EXPECT_GT(whole.statistics().prefix_hits, 0u);
  for (const int size : {2, 4}) {
    ranks_of r(c, size);
    session<cpu> s = r.open(few_pages(c, size));
    const everything heard = worked(s);
    EXPECT_EQ(heard.of, expected.of) << size;
    EXPECT_EQ(heard.prompts, expected.prompts) << size;
    EXPECT_EQ(s.statistics().passes, whole.statistics().passes);
    EXPECT_EQ(s.statistics().prefix_hits, whole.statistics().prefix_hits);
    EXPECT_EQ(s.cache_bytes(), whole.cache_bytes() / static_cast<std::size_t>(size)) << "of each rank";
  }
}

/// Without row chunks the texts are those of a trainer's sampling group of as many ranks, each of which draws itself.
TEST(rank_group, has_the_bits_of_a_sampling_group) {
  const nn::config c = with_heads(0);
  const auto job = [](std::uint32_t i) {
    rollout::job j = job_of(words(i, 9), i);
    j.sampling = {.temperature = 0.8f}, j.key = {5}, j.stop_ids = {4}, j.max_new_tokens = 20;
    return j;
  };
  for (const int size : {2, 4}) {
    std::vector<rollout::response> expected;
    {
      ranks_of r(c, size);
      std::vector<std::vector<rollout::response>> all(static_cast<std::size_t>(size));
      r.ranks.run([&](int rank) {
        std::vector<rollout::job> jobs;
        std::vector<rollout::request> asked;
        for (std::uint32_t i = 0; i < 6; ++i) jobs.push_back(job(i));
        for (std::uint32_t i = 0; i < 6; ++i) asked.push_back({jobs[i].prompt, i, 0});
        rollout::generation how;
        how.sampling = jobs[0].sampling, how.max_new_tokens = 20, how.eos_ids = {4};
        const auto at = static_cast<std::size_t>(rank);
        all[at] = rollout::generate(*r.models[at], *r.spaces[at], asked, how, random_key{5}, [](std::size_t) {});
      });
      expected = all[0];
    }
    ranks_of r(c, size);
    session<cpu> s = r.open(limits());
    everything heard;
    std::vector<ticket> tickets;
    for (std::uint32_t i = 0; i < 6; ++i) tickets.push_back(s.submit(job(i)));
    finish_all(s, heard);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(heard.of[tickets[i]].tokens, expected[i].tokens) << i;
      EXPECT_EQ(heard.of[tickets[i]].logp, expected[i].logp) << i;
    }
  }
}

TEST(rank_group, reads_images) {
  nn::config c = tiny_vision::config();
  c.tp_reduce_chunks = 2;
  const std::vector<tiny_vision::prompt> prompts = tiny_vision::prompts(5);
  const auto heard = [&](session<cpu>& s) {
    everything all;
    for (std::uint32_t i = 0; i < 10; ++i) {
      const tiny_vision::prompt& p = prompts[i / 2];
      rollout::job j = job_of(p.tokens, i);
      j.images = p.images, j.pixels = std::shared_ptr<const void>(&p, [](const void*) {});
      s.submit(std::move(j));
    }
    finish_all(s, all);
    EXPECT_EQ(s.statistics().images_read, 5u);
    return all.of;
  };
  cpu device(1);
  nn::causal_lm<cpu> model(device, c);
  model.initialize(11);
  nn::workspace<cpu> space(device);
  session<cpu> whole(model, space, limits());
  const auto expected = heard(whole);
  ranks_of r(c, 2);
  session<cpu> s = r.open(limits());
  EXPECT_EQ(heard(s), expected);
}

TEST(rank_group, a_rank_that_fails_fails_the_pass_and_nobody_waits) {
  for (const int bad : {0, 1}) {
    ranks_of r(with_heads(0), 2);
    session<cpu> s = r.open(limits());
    everything heard;
    s.submit(job_of(words(1, 5), 1));
    s.step(heard);
    failing_group& group = *r.groups[static_cast<std::size_t>(bad)];
    group.fails_at = group.sums + 2;
    const std::string expected = "card " + std::to_string(bad) + " is gone";
    EXPECT_THAT([&] { s.step(heard); }, testing::ThrowsMessage<std::runtime_error>(expected));
    finish_all(s, heard);  // the session stays as it was
    ranks_of other(with_heads(0), 2);
    session<cpu> well = other.open(limits());
    everything all;
    well.submit(job_of(words(1, 5), 1));
    finish_all(well, all);
    EXPECT_EQ(heard.of, all.of);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
