// The schedule alone: a cache of token ids stands for keys and values, so that it shows whether every token meets its
// whole past; no model is needed.
#include "rlcore/rollout/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/rollout/pass_results.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rollout::generation;
using rollout::page_copy;
using rollout::page_pool;
using rollout::request;
using rollout::response;

constexpr auto page_size = static_cast<std::size_t>(kv_page);

struct workload {
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<request> requests;

  /// Each prompt with `samples` requests; lengths around multiples of a page.
  static workload of(const std::vector<std::size_t>& lengths, std::uint32_t samples) {
    workload w;
    for (std::uint32_t i = 0; i < lengths.size(); ++i) {
      w.prompts.emplace_back();
      for (std::uint32_t t = 0; t < lengths[i]; ++t)
        w.prompts.back().push_back(static_cast<std::int32_t>(random_key{3}.below(1000000, i, t)));
    }
    for (std::uint32_t i = 0; i < lengths.size(); ++i)
      for (std::uint32_t k = 0; k < samples; ++k) w.requests.push_back({w.prompts[i], i, k});
    return w;
  }
};

const std::vector<std::size_t> lengths{1, 2, 31, 32, 33, 63, 64, 65, 100, 7};

/// The sequences of requests, in groups of neighbours with the same prompt, as a schedule takes them.
std::vector<std::unique_ptr<rollout::sequence>> sequences_of(const workload& w, const generation& how) {
  std::vector<std::unique_ptr<rollout::sequence>> all;
  for (std::size_t i = 0; i < w.requests.size(); ++i) {
    const request& r = w.requests[i];
    auto s = std::make_unique<rollout::sequence>();
    s->number = i;
    s->tokens.assign(r.prompt.begin(), r.prompt.end());
    s->prompt_length = std::ssize(r.prompt);
    s->asked.stop_ids = how.eos_ids, s->asked.prompt_number = r.prompt_number, s->asked.sample = r.sample;
    const bool shares = how.share_prompts && i > 0 && rollout::same_prompt(r, w.requests[i - 1]);
    s->group = shares ? all.back()->group : i;
    s->begin_turn(how.max_new_tokens);
    all.push_back(std::move(s));
  }
  return all;
}

rollout::schedule_limits limits_of(const workload& w, const generation& how, std::int64_t slots,
                                   bool prefixes = false) {
  std::int64_t longest = 0;
  for (const request& r : w.requests) longest = std::max(longest, std::ssize(r.prompt) + how.max_new_tokens);
  return {slots, how.max_batched_tokens, longest, 0, 0, how.share_prompts && prefixes, how.chunk_prompts};
}

/// Runs a schedule, checks what every pass promises, and returns the texts. A token is a function of the request
/// and of everything before it; responses have between 1 and max_new_tokens tokens.
struct simulation {
  rollout::schedule s;
  page_pool pool;
  bool share_prefixes = false;
  std::size_t most_in_pass = 0, most_running = 0, prompt_tokens_fed = 0;

  std::vector<response> run(const workload& w, const generation& how, std::int64_t slots, std::int32_t pages) {
    pool.reset(pages);
    const auto sequences = sequences_of(w, how);
    std::vector<std::int64_t> cache(static_cast<std::size_t>(pages) * page_size, -1);
    const auto copy = [&](std::span<const page_copy> copies) {
      for (const page_copy& c : copies)
        std::copy_n(cache.begin() + c.from * std::int64_t{kv_page}, page_size,
                    cache.begin() + c.to * std::int64_t{kv_page});
    };
    most_in_pass = most_running = prompt_tokens_fed = 0;
    s.start(limits_of(w, how, slots, share_prefixes), pool);
    for (const auto& each : sequences) s.add(*each);
    for (int pass = 0; !s.idle(); ++pass) {
      EXPECT_LT(pass, 100000);
      if (pass >= 100000) break;
      s.plan();
      copy(s.copies_before());
      std::size_t tokens = 0;
      for (std::size_t k = 0; k < s.chunks().size(); ++k) {
        const nn::decode_chunk& c = s.chunks()[k];
        tokens += c.ids.size();
        for (std::size_t i = 0; i < c.ids.size(); ++i) {
          const auto position = static_cast<std::size_t>(c.first_position) + i;
          cache[static_cast<std::size_t>(c.pages[position / page_size]) * page_size + position % page_size] = c.ids[i];
        }
        if (c.first_position < s.sequence_of(k).prompt_length) prompt_tokens_fed += c.ids.size();
      }
      most_in_pass = std::max(most_in_pass, tokens);
      most_running = std::max(most_running, s.chunks().size());
      std::vector<std::vector<std::int64_t>> row;  // of logits: the whole past that the cache holds
      for (const auto& c : s.chunks()) {
        std::vector<std::int64_t> past;
        for (std::size_t p = 0; p < static_cast<std::size_t>(c.first_position) + c.ids.size(); ++p)
          past.push_back(cache[static_cast<std::size_t>(c.pages[p / page_size]) * page_size + p % page_size]);
        if (c.wants_logits) row.push_back(past);
      }
      copy(s.copies_after());
      std::vector<std::int32_t> drawn;
      for (const auto& d : s.draws()) {
        EXPECT_EQ(d.number, d.of->response_length());
        EXPECT_EQ(row.at(static_cast<std::size_t>(d.row)),
                  std::vector<std::int64_t>(d.of->tokens.begin(), d.of->tokens.end()))
            << "request " << d.of->number;
        drawn.push_back(token(w.requests[d.of->number], d.number));
      }
      s.accept(drawn);
    }
    EXPECT_EQ(pool.available(), pages) << "pages that nobody uses are not free";
    std::vector<response> responses;
    for (const auto& each : sequences)
      responses.push_back({{each->tokens.begin() + each->prompt_length, each->tokens.end()}, {}, {}, each->reason});
    return responses;
  }

  static std::int32_t token(const request& r, std::uint32_t position) {  // the end is token 0
    const auto at = random_key{9}.below(60, r.prompt_number, r.sample, position);
    return at == 0 ? 0 : static_cast<std::int32_t>(1000000 + at);
  }
};

void expect_texts(const workload& w, const std::vector<response>& responses, const generation& how) {
  for (std::size_t i = 0; i < responses.size(); ++i) {
    std::vector<std::int32_t> expected;
    const auto ended = [&] { return !how.eos_ids.empty() && expected.back() == how.eos_ids.front(); };
    while (expected.empty() || (!ended() && std::ssize(expected) < how.max_new_tokens))
      expected.push_back(simulation::token(w.requests[i], static_cast<std::uint32_t>(expected.size())));
    EXPECT_EQ(responses[i].tokens, expected);
    EXPECT_EQ(responses[i].reason, ended() ? rollout::finish::eos : rollout::finish::length);
  }
}

generation settings() { return {.sampling = {}, .max_new_tokens = 50, .eos_ids = {0}}; }

TEST(schedule, every_token_meets_its_past_whatever_the_limits) {
  const workload w = workload::of(lengths, 5);
  simulation sim;
  for (const bool share : {true, false})
    for (const bool chunks : {true, false})
      for (const std::int64_t slots : {1, 3, 7, 64})
        for (const std::int64_t tokens : {1, 5, 33, 2048})
          for (const std::int32_t pages : {5, 6, 9, 20, 60, 400}) {  // 5: the longest, 100 + 49 tokens, just fits
            SCOPED_TRACE(testing::Message() << "share " << share << ", chunks " << chunks << ", slots " << slots
                                            << ", tokens " << tokens << ", pages " << pages);
            generation how = settings();
            how.share_prompts = share, how.chunk_prompts = chunks, how.max_batched_tokens = tokens;
            expect_texts(w, sim.run(w, how, slots, pages), how);
            EXPECT_LE(sim.most_running, static_cast<std::size_t>(slots));
            EXPECT_LE(sim.most_in_pass,
                      static_cast<std::size_t>(chunks ? tokens : std::max<std::int64_t>(tokens, 149)));
            if (testing::Test::HasFailure()) return;
          }
}

TEST(schedule, a_prompt_is_read_once_for_all_its_samples) {
  simulation sim;
  std::size_t all = 0;
  for (const std::size_t n : lengths) all += n;
  const workload w = workload::of(lengths, 8);
  sim.run(w, settings(), 80, 1000);
  EXPECT_EQ(sim.prompt_tokens_fed, all);
  EXPECT_EQ(sim.s.preemptions(), 0u);
  // Samples for which there was no slot feed the prompt's last token for its logits.
  sim.run(w, settings(), 1, 1000);
  EXPECT_EQ(sim.prompt_tokens_fed, all + 7 * lengths.size());
  sim.run(w, settings(), 5, 1000);
  EXPECT_LE(sim.prompt_tokens_fed, all + 7 * lengths.size());
  generation alone = settings();
  alone.share_prompts = false;
  sim.run(w, alone, 80, 1000);
  EXPECT_EQ(sim.prompt_tokens_fed, 8 * all);
}

TEST(schedule, equal_prompts_are_found_by_content) {
  workload w = workload::of({40, 40}, 2);
  w.prompts[1] = w.prompts[0];
  w.requests[2].prompt = w.requests[3].prompt = w.prompts[1];
  simulation sim;
  expect_texts(w, sim.run(w, settings(), 4, 100), settings());
  EXPECT_EQ(sim.prompt_tokens_fed, 40u);
  std::swap(w.requests[1], w.requests[2]);
  w.requests[1].prompt = w.requests[1].prompt.first(39);  // neighbours that differ share nothing
  sim.run(w, settings(), 4, 100);
  EXPECT_EQ(sim.prompt_tokens_fed, 40u + 39 + 40);
}

/// Prompts alone and in groups; two that follow each other begin alike.
workload beginnings(std::uint32_t seed, std::uint32_t count) {
  const random_key random{seed};
  workload w;
  const auto append = [&](std::uint32_t i, std::uint32_t kind, std::uint32_t n) {
    for (std::uint32_t t = 0; t < n; ++t)
      w.prompts.back().push_back(static_cast<std::int32_t>(random.below(1000000, i, kind, t)));
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    w.prompts.emplace_back();
    append(i / 2, 1, 32 + random.below(8, i / 2));
    append(i, 2, i % 2 == 0 ? random.below(20, i) : 40 + random.below(60, i));
  }
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t k = 0; k < (i % 2 == 0 ? 1 : 2 + random.below(6, i, 9)); ++k)
      w.requests.push_back({w.prompts[i], i, k});
  return w;
}

TEST(schedule, every_token_meets_its_past_where_beginnings_are_found_again) {
  simulation sim;
  sim.share_prefixes = true;
  generation how = settings();
  how.eos_ids = {};
  std::size_t hits = 0, preemptions = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const workload w = beginnings(seed, 40);
    how.max_new_tokens = 1 + seed % 7 * 20, how.max_batched_tokens = seed % 3 == 0 ? 50 : 256;
    expect_texts(w, sim.run(w, how, 6, static_cast<std::int32_t>(12 + seed)), how);
    hits += sim.s.prefix_hits(), preemptions += sim.s.preemptions();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(hits, 0u);
  EXPECT_GT(preemptions, 0u);
}

TEST(schedule, full_pages_are_shared_and_the_last_one_is_copied) {
  const workload w = workload::of({80}, 3);
  generation how = settings();
  how.max_new_tokens = 2;
  page_pool pool(20);
  const auto sequences = sequences_of(w, how);
  rollout::schedule s;
  s.start(limits_of(w, how, 3), pool);
  for (const auto& each : sequences) s.add(*each);
  s.plan();
  ASSERT_EQ(s.chunks().size(), 1u);
  EXPECT_EQ(s.draws().size(), 3u);  // from the one row
  EXPECT_EQ(s.copies_after().size(), 2u);
  EXPECT_EQ(20 - pool.available(), 2 + 3);
  const auto pages = s.chunks()[0].pages;
  EXPECT_EQ(pool.users(pages[0]), 3);
  EXPECT_EQ(pool.users(pages[1]), 3);
  EXPECT_EQ(pool.users(pages[2]), 1);
  const std::vector<std::int32_t> tokens{5, 6, 7};
  s.accept(tokens);
  s.plan();
  EXPECT_EQ(s.chunks().size(), 3u);
  for (const auto& c : s.chunks()) EXPECT_EQ(pool.users(c.pages[2]), 1);  // each writes into its own
  s.accept(tokens);
  EXPECT_TRUE(s.idle());
  EXPECT_EQ(pool.available(), 20);
}

/// A sequence with an old number may come back with much to feed.
TEST(schedule, those_that_draw_go_on_beside_an_older_one_that_reads) {
  const workload w = workload::of({150, 30}, 1);
  generation how = settings();
  how.eos_ids = {};
  page_pool pool(20);
  const auto sequences = sequences_of(w, how);
  rollout::schedule_limits limits = limits_of(w, how, 3);
  limits.max_batched_tokens = 40;
  rollout::schedule s;
  s.start(limits, pool);
  s.add(*sequences[1]);
  EXPECT_LT(sequences[0]->tokens.capacity(), 200u);  // it has not started
  const std::vector<std::int32_t> token{5};
  for (int pass = 0; pass < 4; ++pass) {
    if (pass == 1) s.add(*sequences[0]);
    s.plan();
    ASSERT_EQ(s.draws().size(), 1u) << pass;
    EXPECT_EQ(s.draws()[0].of, sequences[1].get());
    s.accept(token);
  }
  EXPECT_GE(sequences[0]->tokens.capacity(), 200u);
  EXPECT_EQ(sequences[0]->plan.fed, 39 * 3);
  EXPECT_EQ(s.tokens_fed(), 30u + 3 * 40);
}

TEST(schedule, the_youngest_goes_back_when_pages_run_out) {
  const workload w = workload::of({30, 30, 30, 30}, 1);
  generation how = settings();
  how.eos_ids = {};
  how.max_new_tokens = 100;  // 129 tokens: five pages each
  simulation sim;
  expect_texts(w, sim.run(w, how, 4, 8), how);
  EXPECT_GT(sim.s.preemptions(), 0u);
  EXPECT_EQ(sim.pool.most_used(), 8);
  expect_texts(w, sim.run(w, how, 4, 20), how);
  EXPECT_EQ(sim.s.preemptions(), 0u);
  EXPECT_EQ(sim.s.tokens_fed(), 4u * 129);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
