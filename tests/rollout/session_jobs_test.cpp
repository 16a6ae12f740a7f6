// What a job may ask of a session, what it is refused for, and what the session's numbers say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/session.hpp"
#include "rollout/session_scenario.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace session_scenario;
using rollout::finish;
using rollout::job;
using rollout::session;
using rollout::ticket;

/// The log-prob of every token v behind row[.. n) at `temperature`, as training computes it.
std::vector<float> all_log_probs(fixture& f, const std::vector<std::int32_t>& row, std::size_t n, float temperature) {
  ragged<std::int32_t> sequence;
  sequence.push_back(std::span(row).first(n));
  nn::targets targets;
  for (std::int32_t v = 0; v < 50; ++v)
    targets.row.push_back(static_cast<std::int32_t>(n - 1)), targets.token.push_back(v);
  std::vector<float> logp(50);
  nn::log_probs(f.model, f.space, sequence, targets, temperature, logp, {});
  return logp;
}

/// Compares what is reported of a token with the log-probs of all tokens.
template <class Token>
void expect_likely(const Token& t, const std::vector<float>& logp, std::size_t count) {
  EXPECT_EQ(t.logp, logp[static_cast<std::size_t>(t.token)]);
  EXPECT_EQ(t.rank, 1 + std::ranges::count_if(logp, [&](float p) { return p > t.logp; }));
  ASSERT_EQ(t.most_likely.size(), count);
  std::vector<float> sorted = logp;
  std::ranges::sort(sorted, std::greater<>());
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(t.most_likely[i].logp, sorted[i], 1e-6);
    EXPECT_NEAR(t.most_likely[i].logp, logp[static_cast<std::size_t>(t.most_likely[i].token)], 1e-6);
  }
}

/// Looks at every report at once: spans live no longer.
struct likely_listener : rollout::session_listener {
  fixture& f;
  std::map<ticket, job> asked = {};
  std::map<ticket, std::vector<std::int32_t>> row = {};
  std::size_t prompts = 0;

  void on_prompt(const rollout::prompt_token& t) {
    const job& j = asked[t.of];
    EXPECT_EQ(t.token, j.prompt[t.number]);
    expect_likely(t, all_log_probs(f, j.prompt, t.number, j.logprob_temperature.value_or(j.sampling.temperature)),
                  static_cast<std::size_t>(*j.prompt_logprobs));
    ++prompts;
  }
  void on_token(const rollout::drawn_token& t) {
    const job& j = asked[t.of];
    std::vector<std::int32_t>& r = row.try_emplace(t.of, j.prompt).first->second;
    const auto logp = all_log_probs(f, r, r.size(), j.logprob_temperature.value_or(j.sampling.temperature));
    if (j.top_logprobs > 0)
      expect_likely(t, logp, static_cast<std::size_t>(j.top_logprobs));
    else
      EXPECT_EQ(t.rank, 0);
    EXPECT_EQ(t.logp, logp[static_cast<std::size_t>(t.token)]);
    r.push_back(t.token);
  }
};

/// Compares what is reported of a draw with what its settings keep of the logits under its rules.
struct processed_listener : rollout::session_listener {
  fixture& f;
  std::map<ticket, job> asked = {};
  std::map<ticket, std::vector<std::int32_t>> row = {};

  void on_prompt(const rollout::prompt_token& t) {
    EXPECT_EQ(t.logp, all_log_probs(f, asked[t.of].prompt, t.number, 1)[static_cast<std::size_t>(t.token)]);
  }
  void on_token(const rollout::drawn_token& t) {
    const job& j = asked[t.of];
    std::vector<std::int32_t>& r = row.try_emplace(t.of, j.prompt).first->second;
    std::vector<float> logits = all_log_probs(f, r, r.size(), 1), scratch;
    r.push_back(t.token);
    if (j.rules) rollout::apply_rules({j.rules.get(), nullptr, {}}, logits, scratch);
    std::vector<rollout::token_logprob> kept;
    rollout::kept_tokens(j.sampling, logits, kept);
    const auto at = std::ranges::find(kept, t.token, &rollout::token_logprob::token);
    ASSERT_NE(at, kept.end());
    EXPECT_NEAR(t.logp, at->logp, 1e-5);
    EXPECT_EQ(t.rank, j.top_logprobs == 0 ? 0 : at - kept.begin() + 1);
    ASSERT_EQ(t.most_likely.size(), std::min(kept.size(), static_cast<std::size_t>(j.top_logprobs)));
    for (std::size_t i = 0; i < t.most_likely.size(); ++i) {
      EXPECT_EQ(t.most_likely[i].token, kept[i].token);
      EXPECT_NEAR(t.most_likely[i].logp, kept[i].logp, 1e-5);
    }
  }
};

TEST(session_jobs, processed_log_probs_are_those_of_what_rules_and_cuts_leave) {
  fixture f, other;
  session<cpu> s(f.model, f.space, limits());
  processed_listener heard{{}, other};
  const auto rules = std::make_shared<rollout::logit_rules>();
  rules->logit_bias = {{3, 4.0f}, {9, -6.0f}};
  for (std::uint32_t n = 0; n < 20; ++n) {
    job j = job_of(words(n, 10), n);
    j.processed_logprobs = true, j.logprob_temperature = 1.0f;
    j.top_logprobs = static_cast<std::int32_t>(n % 4);
    if (n % 2 == 0) j.rules = rules;
    if (n % 5 == 0) j.prompt_logprobs = 0;
    heard.asked[s.submit(j)] = j;
  }
  finish_all(s, heard);
  EXPECT_EQ(heard.row.size(), 20u);
}

TEST(session_jobs, most_likely_tokens_and_log_probs_of_prompts_are_those_of_training) {
  fixture f, other;
  for (const auto& [sequences, tokens, pages] : {std::tuple{8, 64, 40u}, {3, 5, 40u}, {8, 64, 6u}}) {
    rollout::session_limits l = with_pages(limits(), pages);
    l.max_sequences = sequences, l.max_batched_tokens = tokens;
    session<cpu> s(f.model, f.space, l);
    likely_listener heard{{}, other};
    std::size_t prompts = 0;
    for (std::uint32_t n = 0; n < 12; ++n) {
      job j = job_of(words(n % 2, 20 + n), n);
      if (j.sampling.greedy()) j.sampling.temperature = 1;
      j.stop_ids = {}, j.max_new_tokens = n % 3 == 0 ? 5 : 70;
      j.top_logprobs = static_cast<std::int32_t>(n % 4);
      if (n % 3 == 0) j.prompt_logprobs = n % 5, prompts += j.prompt.size() - 1;
      if (n % 2 == 0) j.logprob_temperature = 1.0f;
      const ticket number = s.submit(j);
      heard.asked[number] = j;
    }
    finish_all(s, heard);
    EXPECT_EQ(heard.prompts, prompts);
    EXPECT_EQ(heard.row.size(), 12u);
    if (pages == 6) {
      EXPECT_GT(s.statistics().preemptions, 0u);
    }
  }
}

TEST(session_jobs, rules_hold_for_their_job_alone) {
  fixture f;
  rollout::logit_rules rules;
  rules.repetition_penalty = 1.3f, rules.frequency_penalty = 0.5f, rules.min_tokens = 3, rules.ending_ids = {1, 30};
  rules.logit_bias = {{7, 3.0f}};
  const auto shared = std::make_shared<const rollout::logit_rules>(rules);
  session<cpu> s(f.model, f.space, with_pages(limits(), 7));
  notes heard;
  std::vector<job> jobs;
  for (std::uint32_t n = 0; n < 20; ++n) {
    jobs.push_back(job_of(words(n % 3, 30 + n), n));
    jobs.back().stop_ids.clear(), jobs.back().max_new_tokens = 70;
    if (n % 4 < 2) jobs.back().stop_ids = {1, 30};
    if (n % 2 == 0) jobs.back().rules = shared;
  }
  const std::vector<ticket> tickets = s.submit(jobs);
  finish_all(s, heard);
  bool changed = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(heard.of[tickets[i]], closed(f, jobs[i])) << "job " << i;
    jobs[i].rules = nullptr;
    changed = changed || heard.of[tickets[i]].tokens != closed(f, jobs[i]).tokens;
  }
  EXPECT_TRUE(changed);
  EXPECT_GT(s.statistics().preemptions, 0u);
}

TEST(session_jobs, min_tokens_hold_back_the_ids_that_end_the_job) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  notes heard;
  rollout::logit_rules rules;
  rules.min_tokens = 9;
  std::size_t held = 0;
  for (std::uint32_t n = 0; n < 20; ++n) {
    job j = job_of(words(n, 10), n);
    j.max_new_tokens = 12;
    if (closed(f, j).tokens.size() >= 9) continue;
    j.rules = std::make_shared<const rollout::logit_rules>(rules);
    const ticket number = s.submit(j);
    finish_all(s, heard);
    EXPECT_GT(heard.of[number].tokens.size(), 9u);
    EXPECT_EQ(heard.of[number], closed(f, j));
    ++held;
  }
  EXPECT_GT(held, 3u);
}

TEST(session_jobs, a_prompt_that_waits_to_be_scored_holds_up_nobody) {
  fixture f;
  rollout::session_limits l = limits();
  l.max_batched_tokens = 100;  // and 32 tokens of prompts are scored
  session<cpu> s(f.model, f.space, l);
  notes heard;
  for (std::uint32_t n = 0; n < 2; ++n) {
    job j = job_of(words(n, 90), 3);
    j.prompt_logprobs = 0;
    s.submit(j);
  }
  const job j = job_of(words(5, 10), 3);
  const ticket number = s.submit(j);
  s.step(heard);
  EXPECT_EQ(heard.of[number].tokens.size(), 1u);
  finish_all(s, heard);
  EXPECT_EQ(heard.of[number], closed(f, j));
}

TEST(session_jobs, neighbours_read_a_prompt_once_and_later_ones_find_its_full_pages) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  notes heard;
  const std::vector<std::int32_t> prompt = words(1, 40);
  std::vector<job> jobs;
  for (std::uint32_t k = 0; k < 4; ++k) jobs.push_back(job_of(prompt, 3, k)), jobs.back().max_new_tokens = 1;
  s.submit(jobs);
  finish_all(s, heard);
  EXPECT_EQ(s.statistics().tokens_fed, 40u);
  EXPECT_EQ(s.statistics().tokens_drawn, 4u);
  EXPECT_EQ(s.statistics().prefix_hits, 0u);
  s.submit(jobs[0]);
  finish_all(s, heard);
  EXPECT_EQ(s.statistics().prefix_hits, 32u);
  EXPECT_EQ(s.statistics().tokens_fed, 40u + 8);
  jobs[0].salt = 1;  // shares with nobody
  s.submit(jobs[0]);
  finish_all(s, heard);
  EXPECT_EQ(s.statistics().prefix_hits, 32u);
  EXPECT_EQ(s.statistics().tokens_fed, 40u + 8 + 40);
  s.pause();
  EXPECT_FALSE(s.step(heard));
  s.submit(jobs[1]);
  EXPECT_FALSE(s.step(heard));
  s.resume();  // weights may have changed
  finish_all(s, heard);
  EXPECT_EQ(s.statistics().prefix_hits, 32u);
  EXPECT_EQ(s.statistics().pages_used, 0);
  EXPECT_EQ(s.statistics().passes, 4u);
}

TEST(session_jobs, log_probs_are_those_of_the_weights_that_a_token_was_drawn_with) {
  fixture f, before, after;
  after.model.initialize(12);
  session<cpu> s(f.model, f.space, limits());
  likely_listener heard{{}, before};
  for (std::uint32_t n = 0; n < 5; ++n) {
    job j = job_of(words(n % 2, 40), 17 + n);
    j.sampling.temperature = 0.9f, j.stop_ids = {}, j.max_new_tokens = 12;
    heard.asked[s.submit(j)] = j;
  }
  for (int pass = 0; pass < 5; ++pass) s.step(heard);
  s.pause();
  f.model.initialize(12);
  s.resume();
  likely_listener then{{}, after, heard.asked, heard.row};
  finish_all(s, then);
  for (const auto& [number, row] : then.row) EXPECT_EQ(row.size(), 52u);
}

TEST(session_jobs, the_first_by_priority_and_arrival_starts_first) {
  fixture f;
  rollout::session_limits l = limits();
  l.max_sequences = 1;
  session<cpu> s(f.model, f.space, l);
  struct : rollout::session_listener {
    std::vector<ticket> ended;
    void on_end(ticket number, finish) { ended.push_back(number); }
  } heard;
  std::vector<ticket> tickets;
  for (const std::int64_t priority : {0, 3, 0, -2, 3, -2}) {
    job j = job_of(words(1, 10), 3);
    j.priority = priority;
    tickets.push_back(s.submit(j));
  }
  finish_all(s, heard);
  EXPECT_EQ(heard.ended, (std::vector<ticket>{tickets[3], tickets[5], tickets[0], tickets[2], tickets[1], tickets[4]}));
}

std::string refusal(session<cpu>& s, job j) {
  try {
    s.submit(std::move(j));
  } catch (const config_error& e) {
    return e.what();
  }
  return "";
}

TEST(session_jobs, what_is_no_job_is_refused_with_a_sentence) {
  fixture f;
  session<cpu> s(f.model, f.space, with_pages(limits(), 3));
  EXPECT_EQ(s.max_length(), 97);  // the last token is never fed
  const job good = job_of(words(1, 10), 3);
  const auto with = [&](auto change) {
    job j = good;
    change(j);
    return refusal(s, j);
  };
  using testing::HasSubstr;
  EXPECT_THAT(with([](job& j) { j.prompt = {}; }), HasSubstr("no token"));
  EXPECT_THAT(with([](job& j) { j.prompt[1] = 50; }), HasSubstr("50 is not in the vocabulary of 50"));
  EXPECT_THAT(with([](job& j) { j.prompt[1] = -1; }), HasSubstr("-1 is not in the vocabulary"));
  EXPECT_THAT(with([](job& j) { j.max_new_tokens = 0; }), HasSubstr("max_new_tokens=0"));
  EXPECT_THAT(with([](job& j) { j.max_new_tokens = 88; }), HasSubstr("10 tokens and up to 88 new ones"));
  EXPECT_EQ(with([](job& j) { j.max_new_tokens = 87; }), "");
  EXPECT_THAT(with([](job& j) { j.max_new_tokens = std::int64_t{1} << 62; }), HasSubstr("exceed the longest"));
  EXPECT_THAT(with([](job& j) { j.sampling.top_p = 0; }), HasSubstr("top_p"));
  EXPECT_THAT(with([](job& j) { j.sampling.temperature = 1e-38f; }), HasSubstr("temperature=1e-38"));
  EXPECT_THAT(with([](job& j) { j.logprob_temperature = 0.0f; }), HasSubstr("logprob_temperature=0"));
  EXPECT_THAT(with([](job& j) { j.top_logprobs = -1; }), HasSubstr("top_logprobs"));
  EXPECT_THAT(with([](job& j) { j.images.resize(1); }), HasSubstr("the model reads none"));
  rollout::logit_rules rules;
  rules.repetition_penalty = 0;
  EXPECT_THAT(with([&](job& j) { j.rules = std::make_shared<rollout::logit_rules>(rules); }), HasSubstr("repetition"));
  notes heard;
  finish_all(s, heard);
  EXPECT_EQ(s.statistics().open, 0u);
  EXPECT_THROW(s.extend(1, {}, 3), config_error);  // has ended
  EXPECT_THROW(s.fork(99, 1), config_error);
  job kept = good;
  kept.keep_open = true;
  const ticket number = s.submit(kept);
  EXPECT_THROW(s.extend(number, {}, 3), config_error);  // draws
  finish_all(s, heard);
  EXPECT_THROW(s.extend(number, words(1, 90), 3), config_error);
  EXPECT_THROW(s.extend(number, std::vector<std::int32_t>{77}, 3), config_error);
  s.cancel(number);
  EXPECT_THROW(s.extend(number, {}, 3), config_error);
}

TEST(session_jobs, limits_that_leave_no_room_are_refused) {
  fixture f;
  const auto refused = [&](rollout::session_limits l) {
    EXPECT_THROW(session<cpu>(f.model, f.space, l), config_error);
  };
  refused(with_pages(limits(), 0));
  rollout::session_limits l = limits();
  l.max_sequences = 0;
  refused(l);
  l = with_pages(limits(), 2);
  l.max_length = 66;
  refused(l);
  l.max_length = 65;
  EXPECT_EQ(session<cpu>(f.model, f.space, l).max_length(), 65);
  l = limits();
  l.max_length = 161;
  refused(l);
}

TEST(session_jobs, a_load_like_an_earlier_one_allocates_nothing_on_the_device) {
  counted_device counted;
  any_device& device = counted.device;
  nn::causal_lm<any_device> model(device, tiny());
  model.initialize(11);
  nn::workspace<any_device> space(device);
  session<any_device> s(model, space, with_pages(limits(), 9));
  notes heard;
  std::size_t before = 0;
  for (int round = 0; round < 5; ++round) {
    if (round == 2) before = counted.memory.allocations;
    for (std::uint32_t n = 0; n < 20; ++n) s.submit(job_of(words(n % 5, 30), n));
    finish_all(s, heard);
  }
  EXPECT_EQ(counted.memory.allocations, before);
  EXPECT_GT(before, 0u);
}

TEST(session_jobs, images_are_part_of_what_is_shared) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, tiny_vision::config());
  model.initialize(11);
  nn::workspace<cpu> space(device);
  const auto prompts = std::make_shared<std::vector<tiny_vision::prompt>>(tiny_vision::prompts(6));
  prompts->emplace_back(1, std::initializer_list<nn::patch_grid>{{10, 14}}, 9u);   // other floats, equal tokens
  for (tiny_vision::prompt& p : *prompts) p.tokens.insert(p.tokens.end(), 30, 7);  // a full page behind each image
  std::vector<rollout::request> requests;
  for (std::uint32_t i = 0; i < 24; ++i) {
    const tiny_vision::prompt& p = (*prompts)[i % prompts->size()];
    requests.push_back({p.tokens, i, i % 2, p.images});
  }
  rollout::generation how{.sampling = {.temperature = 1.2f}, .max_new_tokens = 14, .eos_ids = {4, 9}};
  const auto expected = rollout::generate(model, space, requests, how, random_key{5}, [](std::size_t) {});
  for (const std::size_t pages : {5u, 40u})
    for (const std::int64_t tokens : {5, 33, 100}) {
      rollout::session_limits l;
      l.max_sequences = 6, l.max_batched_tokens = tokens, l.max_image_tokens = 35;
      l.max_cache_bytes = pages * nn::kv_cache<cpu>::page_bytes(model.device(), model.settings()) +
                          static_cast<std::size_t>(tokens + 3 * 35) * 32 * sizeof(float);
      session<cpu> s(model, space, l);
      notes heard;
      for (const rollout::request& r : requests) {
        job j;
        j.prompt.assign(r.prompt.begin(), r.prompt.end()), j.images.assign(r.images.begin(), r.images.end());
        j.pixels = prompts;
        j.sampling = how.sampling, j.max_new_tokens = 14, j.stop_ids = how.eos_ids;
        j.key = {5}, j.prompt_number = r.prompt_number, j.sample = r.sample;
        s.submit(std::move(j));
        s.step(heard);
      }
      finish_all(s, heard);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const heard_text& is = heard.of[i + 1];
        EXPECT_EQ(is.tokens, expected[i].tokens) << i;
        EXPECT_EQ(is.logp, expected[i].logp) << i;
      }
      EXPECT_LE(s.cache_bytes(), l.max_cache_bytes);
      if (pages == 40) {
        EXPECT_GT(s.statistics().prefix_hits, 0u);
      }
      EXPECT_EQ(s.statistics().pages_used, 0);
      EXPECT_LT(s.statistics().images_read, 24u * 2);
      if (HasFailure()) return;
    }
  rollout::session_limits l = limits();
  l.max_image_tokens = 34;
  session<cpu> few(model, space, l), s(model, space, limits());
  job j;
  j.prompt = (*prompts)[1].tokens, j.max_new_tokens = 3;
  EXPECT_THROW(s.submit(j), config_error);  // no images
  j.images = (*prompts)[1].images;
  EXPECT_THROW(s.submit(j), config_error);  // not owned
  j.pixels = prompts;
  EXPECT_THAT(refusal(few, j), testing::HasSubstr("35 tokens, expected at most max_image_tokens = 34"));
  j.keep_open = true;
  const ticket number = s.submit(j);
  notes heard;
  finish_all(s, heard);
  EXPECT_THROW(s.extend(number, std::vector<std::int32_t>{tiny_vision::image}, 3), config_error);
}

TEST(session_jobs, prompts_are_read_one_after_the_other_while_texts_go_on) {
  for (const std::int64_t of_prompts : {0, 32}) {
    fixture f;
    rollout::session_limits l = limits();
    l.max_batched_tokens = 256, l.max_prompt_tokens = of_prompts;
    session<cpu> s(f.model, f.space, l);
    for (std::uint32_t n = 0; n < 8; ++n) {
      job j = job_of(words(n, 32), n);
      j.max_new_tokens = 20, j.stop_ids = {};
      s.submit(j);
    }
    std::size_t drawn = 0;
    for (std::size_t pass = 1; pass <= 8; ++pass) {
      s.step(rollout::session_listener{});
      drawn += of_prompts == 0 ? 8 : pass;
      EXPECT_EQ(s.statistics().tokens_drawn, drawn) << "pass " << pass;
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
