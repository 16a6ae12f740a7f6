// Sessions: whatever comes, goes and runs beside it, a text and its log-probs have the bits of a call of its own.
#include "rlcore/rollout/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace session_scenario;
using rollout::finish;
using rollout::job;
using rollout::session;
using rollout::session_limits;
using rollout::session_statistics;
using rollout::ticket;

void expect_empty(const session_statistics& s) {
  EXPECT_EQ(s.running, 0u);
  EXPECT_EQ(s.waiting, 0u);
  EXPECT_EQ(s.open, 0u);
  EXPECT_EQ(s.pages_used, 0) << "pages leak";
}

/// Prompts of 1 to 90 tokens; some begin alike, some are equal.
std::vector<job> many_jobs() {
  std::vector<job> jobs;
  for (std::uint32_t n = 0; n < 48; ++n) {
    std::vector<std::int32_t> prompt = words(n % 4, n % 3 == 0 ? 0 : 17 * (1 + n % 4));
    const auto rest = words(100 + n / 3, 1 + 5 * (n % 5));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    jobs.push_back(job_of(prompt, n));
    if (n % 4 == 0) jobs.push_back(job_of(prompt, n, 1)), jobs.push_back(job_of(prompt, n, 2));
  }
  return jobs;
}

/// A random part of many jobs comes at random times, with random priorities, under random limits; some are cancelled.
struct arrivals {
  random_key random;
  std::uint32_t drawn = 0;
  std::uint32_t below(std::uint32_t n) { return random.below(n, drawn++); }

  session_limits limits() {
    session_limits l = with_pages({}, 5 + below(3) * below(20));  // the longest job needs four
    l.max_sequences = 1 + below(9), l.max_batched_tokens = 1 + below(80);
    l.share_prefixes = below(4) > 0, l.chunk_prompts = below(4) > 0;
    return l;
  }

  session_statistics run(fixture& f, const std::vector<job>& jobs, const std::vector<heard_text>& expected) {
    session<cpu> s(f.model, f.space, limits());
    std::vector<std::size_t> order;
    const std::uint32_t count = 1 + below(24);
    for (std::uint32_t first = 0; order.size() < count;) {
      if (first == 0 || below(2) == 0) first = 1 + below(static_cast<std::uint32_t>(jobs.size()));
      order.push_back(first++ % jobs.size());  // often neighbours
    }
    notes heard;
    std::map<ticket, std::size_t> asked;
    std::vector<ticket> cancelled;
    for (std::size_t next = 0; next < order.size() || s.step(heard);) {
      while (next < order.size() && below(3) > 0) {
        job j = jobs[order[next]];
        j.priority = below(8) == 0 ? -1 : 0, j.salt = below(3) == 0;
        asked[s.submit(std::move(j))] = order[next++];
      }
      if (!asked.empty() && below(40) == 0) {
        cancelled.push_back(1 + below(static_cast<std::uint32_t>(asked.size())));
        s.cancel(cancelled.back());
      }
      if (next < order.size()) s.step(heard);
    }
    for (const auto& [number, which] : asked) {
      const heard_text &is = heard.of[number], &wanted = expected[which];
      EXPECT_EQ(is.ends.size(), 1u);
      if (is.ends == std::vector{finish::cancelled}) {
        EXPECT_NE(std::ranges::find(cancelled, number), cancelled.end());
        EXPECT_LE(is.tokens.size(), wanted.tokens.size());
        EXPECT_TRUE(std::equal(is.logp.begin(), is.logp.end(), wanted.logp.begin()));
      } else {
        EXPECT_EQ(is, wanted) << "ticket " << number << ", job " << which;
      }
    }
    expect_empty(s.statistics());
    return s.statistics();
  }
};

TEST(session, every_text_has_the_bits_of_a_closed_call_whatever_arrives_when) {
  fixture f;
  const std::vector<job> jobs = many_jobs();
  std::vector<heard_text> expected;
  for (const job& j : jobs) {
    expected.push_back(closed(f, j));
    EXPECT_EQ(expected.back(), alone(f, j));
  }
  std::size_t preemptions = 0, hits = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const session_statistics done = arrivals{{seed}}.run(f, jobs, expected);
    preemptions += done.preemptions, hits += done.prefix_hits;
    if (HasFailure()) return;
  }
  EXPECT_GT(preemptions, 0u);
  EXPECT_GT(hits, 0u);
}

/// A conversation of up to four turns: what is appended to the first one's text, and how long the turns may be.
struct conversation {
  job first;
  std::vector<std::vector<std::int32_t>> replies;
  std::int64_t turn = 0;

  heard_text expected(fixture& f) const {
    heard_text out;
    std::vector<std::int32_t> row = first.prompt;
    std::uint32_t number = 0;
    for (std::size_t t = 0;; ++t) {
      const std::size_t before = out.tokens.size();
      continue_row(f, first, row, number, t == 0 ? first.max_new_tokens : turn, out);
      row.insert(row.end(), out.tokens.begin() + static_cast<std::ptrdiff_t>(before), out.tokens.end());
      number += static_cast<std::uint32_t>(out.tokens.size() - before);
      if (t == replies.size()) return out;
      row.insert(row.end(), replies[t].begin(), replies[t].end());
      number += static_cast<std::uint32_t>(replies[t].size());
    }
  }
};

std::vector<conversation> many_conversations() {
  std::vector<conversation> all;
  for (std::uint32_t n = 0; n < 12; ++n) {
    conversation c{job_of(words(n % 3, 20 + n), n), {}, 3 + n % 5};
    c.first.keep_open = true;
    for (std::uint32_t t = 0; t < n % 4; ++t) c.replies.push_back(words(50 + t, (n * 5 + t * 7) % 19));
    all.push_back(std::move(c));
  }
  return all;
}

TEST(session, a_job_may_be_extended_turn_after_turn) {
  fixture f;
  const std::vector<conversation> all = many_conversations();
  std::vector<heard_text> expected;
  for (const conversation& c : all) expected.push_back(c.expected(f));
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    arrivals random{{seed}};
    session<cpu> s(f.model, f.space, random.limits());
    notes heard;
    std::map<ticket, std::size_t> asked, turns;
    for (std::size_t i = 0; i < all.size(); ++i) asked[s.submit(all[i].first)] = i;
    for (std::size_t open = all.size(); open > 0;) {
      s.step(heard);
      for (const auto& [number, which] : asked) {
        const conversation& c = all[which];
        const std::size_t turn = turns[number];
        if (heard.of[number].ends.size() != turn + 1 || random.below(3) == 0) continue;
        ++turns[number];
        if (turn < c.replies.size()) {
          s.extend(number, c.replies[turn], c.turn);
        } else {
          EXPECT_EQ(heard.of[number], expected[which]) << "conversation " << which;
          s.cancel(number), --open, ++turns[number];  // its end says nothing
        }
      }
      if (HasFailure()) return;
    }
    s.step(heard);
    expect_empty(s.statistics());
  }
}

TEST(session, a_fork_draws_what_its_sample_number_says_from_where_it_was_made) {
  fixture f;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    arrivals random{{seed}};
    session<cpu> s(f.model, f.space, random.limits());
    notes heard;
    job first = job_of(words(1, 30 + random.below(40)), 21);
    first.stop_ids = {}, first.keep_open = random.below(2) == 0;
    const ticket root = s.submit(first);
    std::map<ticket, std::pair<std::uint32_t, std::vector<std::int32_t>>> forks;  // sample and tokens before it
    for (int pass = 0; heard.of[root].ends.empty(); ++pass) {
      if (random.below(4) == 0) {
        const std::uint32_t sample = random.below(3);
        forks[s.fork(root, sample)] = {sample, heard.of[root].tokens};
      }
      s.step(heard);
    }
    finish_all(s, heard);
    for (const auto& [number, made] : forks) {
      job j = first;
      j.sample = made.first;
      std::vector<std::int32_t> row = j.prompt;
      row.insert(row.end(), made.second.begin(), made.second.end());
      heard_text wanted;
      const std::size_t drawn = made.second.size();
      continue_row(f, j, row, static_cast<std::uint32_t>(drawn), first.max_new_tokens - std::ssize(made.second),
                   wanted);
      EXPECT_EQ(heard.of[number], wanted);
      s.cancel(number);
    }
    s.cancel(root);
    s.step(heard);
    expect_empty(s.statistics());
    if (HasFailure()) return;
  }
}

TEST(session, a_fork_between_turns_waits_for_its_own_extension) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  notes heard;
  job first = job_of(words(1, 40), 3);
  first.keep_open = true;
  const ticket root = s.submit(first);
  finish_all(s, heard);
  const ticket other = s.fork(root, 7);
  EXPECT_FALSE(s.step(heard));
  const std::vector<std::int32_t> reply = words(9, 5);
  s.extend(other, reply, 6);
  finish_all(s, heard);
  std::vector<std::int32_t> row = first.prompt;
  row.insert(row.end(), heard.of[root].tokens.begin(), heard.of[root].tokens.end());
  row.insert(row.end(), reply.begin(), reply.end());
  first.sample = 7;
  heard_text wanted;
  continue_row(f, first, row, static_cast<std::uint32_t>(row.size() - 40), 6, wanted);
  EXPECT_EQ(heard.of[other], wanted);
  EXPECT_EQ(s.statistics().open, 2u);
}

TEST(session, threads_may_submit_and_cancel_while_it_runs) {
  fixture f(2);
  const std::vector<job> jobs = many_jobs();
  std::vector<heard_text> expected;
  for (const job& j : jobs) expected.push_back(closed(f, j));
  session<cpu> s(f.model, f.space, with_pages(limits(), 12));
  std::mutex mutex;
  std::map<ticket, std::size_t> asked;
  std::atomic<int> left = 3;
  std::vector<std::thread> clients;
  for (std::uint32_t c = 0; c < 3; ++c)
    clients.emplace_back([&, c] {
      for (std::uint32_t n = 0; n < 40; ++n) {
        const std::size_t which = random_key{c}.below(static_cast<std::uint32_t>(jobs.size()), n);
        const ticket number = s.submit(jobs[which]);
        {
          const std::lock_guard lock(mutex);
          asked[number] = which;
        }
        if (random_key{c}.below(5, n, 1) == 0) s.cancel(number);
        if (random_key{c}.below(5, n, 2) == 0) std::this_thread::yield();
        EXPECT_LE(s.statistics().running, 8u);
      }
      --left;
    });
  notes heard;
  while (left > 0 || s.step(heard))
    if (!s.step(heard)) s.wait(std::chrono::milliseconds(1));
  for (std::thread& t : clients) t.join();
  finish_all(s, heard);
  EXPECT_EQ(asked.size(), 120u);
  for (const auto& [number, which] : asked)
    if (heard.of[number].ends != std::vector{finish::cancelled}) {
      EXPECT_EQ(heard.of[number], expected[which]);
    }
  expect_empty(s.statistics());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
