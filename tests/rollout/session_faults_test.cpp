// What goes wrong in a session, and for whom: a job, a pass, a listener, a caller who pauses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/session.hpp"
#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace session_scenario;
using rollout::finish;
using rollout::job;
using rollout::session;
using rollout::ticket;

struct all_notes : notes {
  std::map<ticket, std::string> problems;
  std::map<ticket, std::vector<float>> prompt;
  void on_failure(ticket number, const std::string& why) { problems[number] = why; }
  void on_prompt(const rollout::prompt_token& t) { prompt[t.of].push_back(t.logp); }
};

std::shared_ptr<const rollout::logit_rules> only(std::int32_t token) {
  rollout::logit_rules rules;
  rules.allowed_token_ids = {token};
  return std::make_shared<const rollout::logit_rules>(rules);
}

TEST(session_faults, a_row_without_a_token_to_draw_is_its_own_trouble) {
  fixture f;
  const float excluded = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(3 * 50, 0.5f);
  logits[50 + 3] = logits[3] = excluded;
  std::vector<rollout::sequence> sequences(3);
  std::vector<rollout::scheduled_draw> draws;
  for (std::int32_t i = 0; i < 3; ++i) {
    rollout::sequence& s = sequences[static_cast<std::size_t>(i)];
    s.number = static_cast<ticket>(i + 1);
    if (i != 0) s.asked.rules = only(3);
    draws.push_back({i, 0, &s, 0});
  }
  rollout::pass_results<cpu> results;
  results.read(f.model, logits.data(), draws, {});
  EXPECT_EQ(results.problem(0), "");
  EXPECT_THAT(results.problem(1), testing::HasSubstr("leave no token to draw"));
  EXPECT_EQ(results.problem(2), "");
  EXPECT_NE(results.tokens()[0], 3);
  EXPECT_EQ(results.tokens()[1], -1);
  EXPECT_EQ(results.tokens()[2], 3);
  EXPECT_NEAR(results.drawn(2, draws[2]).logp, -std::log(50.0f), 1e-5);
  const float logp = results.drawn(2, draws[2]).logp;
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    logits[60] = bad;
    results.read(f.model, logits.data(), draws, {});
    EXPECT_EQ(results.problem(0), "");
    EXPECT_THAT(results.problem(1), testing::HasSubstr("the logits before token 0 of the answer are not finite"));
    EXPECT_EQ(results.problem(2), "");
    EXPECT_EQ(results.tokens()[1], -1);
    EXPECT_EQ(results.drawn(2, draws[2]).logp, logp);
  }
}

TEST(session_faults, a_job_whose_logits_are_not_finite_ends_alone) {
  nn::config settings = tiny();
  settings.tie_word_embeddings = false;
  fixture f(1, settings);
  std::vector<job> good;
  for (std::uint32_t n = 0; n < 5; ++n) {
    good.push_back(job_of(words(n, 40), n));
    std::ranges::replace(good.back().prompt, 20, 21);
  }
  std::vector<heard_text> expected;
  for (const job& j : good) expected.push_back(closed(f, j));
  const auto embedding = std::ranges::find(f.model.parameters(), "model.embed_tokens.weight", &nn::parameter::name);
  f.model.weights().data()[embedding->offset + 20 * 32 + 3] = std::nanf("");
  job scored = job_of({1, 2, 3, 20, 4, 5}, 3), cut = job_of({20, 9, 9}, 4);
  scored.prompt_logprobs = 2;
  cut.processed_logprobs = true, cut.top_logprobs = 3;
  session<cpu> s(f.model, f.space, limits());
  all_notes heard;
  std::vector<ticket> bad;
  for (const job& j : {job_of({1, 20}, 3), scored, job_of({20, 1, 2}, 0), job_of({20, 5}, 3), cut})
    bad.push_back(s.submit(j));
  std::vector<ticket> tickets;
  for (const job& j : good) tickets.push_back(s.submit(j));
  finish_all(s, heard);
  for (std::size_t i = 0; i < good.size(); ++i) {
    // The answer may draw token 20 itself: whatever it drew before that is right.
    const auto& tokens = expected[i].tokens;
    const auto end = std::ranges::find(tokens, 20);
    if (end == tokens.end()) {
      EXPECT_EQ(heard.of[tickets[i]], expected[i]) << i;
    }
    const std::vector<std::int32_t> begin(tokens.begin(), end == tokens.end() ? end : end + 1);
    const auto& told = heard.of[tickets[i]].tokens;
    ASSERT_GE(told.size(), begin.size());
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), told.begin())) << i;
  }
  for (const ticket number : bad) {
    EXPECT_EQ(heard.of[number].ends, std::vector{finish::failed}) << number;
    EXPECT_TRUE(heard.of[number].tokens.empty());
    EXPECT_THAT(heard.problems[number], testing::HasSubstr("not finite")) << number;
  }
  EXPECT_THAT(heard.problems[bad[1]], testing::HasSubstr("the logits before token 4 of the prompt"));
  EXPECT_EQ(heard.prompt[bad[1]].size(), 3u);
  EXPECT_EQ(s.statistics().pages_used, 0);
  EXPECT_EQ(s.statistics().open, 0u);
}

/// Makes a token's weights so large that its logit behind the prompt is -infinity. Returns what puts them right.
auto break_token(fixture& f, std::int32_t token, const std::vector<std::int32_t>& prompt) {
  const std::string name = f.model.settings().tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const auto found = std::ranges::find(f.model.parameters(), name, &nn::parameter::name);
  const auto row = [&f, at = found->offset + static_cast<std::size_t>(token) * 32] {
    return std::span(f.model.weights().data() + at, 32);  // asked for at each change: packed copies are forgotten
  };
  const std::vector<float> whole(row().begin(), row().end());
  std::vector<float> logits(50), state(32);  // what the token's weights are multiplied by
  nn::kv_cache<cpu> cache(f.device, f.model.settings(), 1);
  const std::vector<std::int32_t> page{0};
  for (std::size_t i = 0; i < 32; ++i) {
    std::ranges::fill(row(), 0.0f);
    row()[i] = 1;
    const std::vector<nn::decode_chunk> all{{prompt, 0, page, true}};
    nn::decode(f.model, f.space, cache, all, logits.data());
    state[i] = logits[static_cast<std::size_t>(token)];
  }
  for (std::size_t i = 0; i < 32; ++i) row()[i] = state[i] > 0 ? -3e38f : 3e38f;
  return [row, whole] { std::ranges::copy(whole, row().begin()); };
}

TEST(session_faults, a_job_that_cannot_go_on_ends_alone) {
  fixture f;
  const std::vector<std::int32_t> prompt{5, 6, 8};
  job good = job_of(prompt, 3), other = job_of({1, 2, 3}, 4);
  const heard_text expected = closed(f, other);
  session<cpu> s(f.model, f.space, limits());
  all_notes heard;
  const auto repair = break_token(f, 20, prompt);
  good.max_new_tokens = 1;
  job bad = job_of(prompt, 3, 1);
  bad.rules = only(20);
  std::vector<ticket> tickets = s.submit(std::vector<job>{good, bad, good});
  s.step(heard);
  s.pause(), repair(), s.resume();
  tickets.push_back(s.submit(other));
  finish_all(s, heard);
  EXPECT_EQ(heard.of[tickets[0]].ends.size(), 1u);
  EXPECT_EQ(heard.of[tickets[0]].tokens.size(), 1u);
  EXPECT_EQ(heard.of[tickets[2]].tokens, heard.of[tickets[0]].tokens);
  EXPECT_EQ(heard.of[tickets[1]].ends, std::vector{finish::failed});
  EXPECT_TRUE(heard.of[tickets[1]].tokens.empty());
  EXPECT_THAT(heard.problems[tickets[1]], testing::HasSubstr("leave no token to draw"));
  EXPECT_EQ(heard.problems.size(), 1u);
  EXPECT_EQ(heard.of[tickets[3]], expected);
  EXPECT_EQ(s.statistics().pages_used, 0);
  EXPECT_EQ(s.statistics().open, 0u);
}

/// A device that cannot draw while it is told so.
class failing_cpu : public cpu {
 public:
  explicit failing_cpu(const bool& fails) : cpu(1), fails_(fails) {}
  using cpu::run;
  void run(const op::sample& o) {
    if (fails_) throw error("the card is gone");
    cpu::run(o);
  }

 private:
  const bool& fails_;
};

TEST(session_faults, a_pass_that_throws_takes_nobodys_end_away) {
  fixture f;
  bool fails = false;
  any_device_of<failing_cpu> device(fails);
  nn::causal_lm<any_device> model(device, tiny());
  model.initialize(11);
  nn::workspace<any_device> space(device);
  session<any_device> s(model, space, limits());
  notes heard;
  const job j = job_of(words(1, 40), 3);
  const ticket number = s.submit(j), victim = s.submit(job_of(words(2, 10), 4));
  s.step(heard);
  const std::size_t drawn = heard.of[victim].tokens.size();
  s.cancel(victim);
  fails = true;
  EXPECT_THROW(s.step(heard), error);
  EXPECT_TRUE(s.step(heard));
  EXPECT_EQ(heard.of[victim].ends, std::vector{finish::cancelled});
  EXPECT_EQ(heard.of[victim].tokens.size(), drawn);
  EXPECT_TRUE(s.step(heard));  // feeds the prompt again, and draws nothing
  EXPECT_THROW(s.step(heard), error);
  fails = false;
  finish_all(s, heard);
  EXPECT_EQ(heard.of[number], closed(f, j));
}

TEST(session_faults, a_listener_that_throws_hears_the_rest_later) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  struct : notes {
    int calls = 0;
    void on_token(const rollout::drawn_token& d) {
      notes::on_token(d);
      if (++calls % 3 == 0) throw std::runtime_error("no");
    }
    void on_end(ticket number, finish why) {
      notes::on_end(number, why);
      if (++calls % 3 == 0) throw std::runtime_error("no");
    }
  } heard;
  std::map<ticket, job> asked;
  for (std::uint32_t n = 0; n < 6; ++n) {
    const job j = job_of(words(n, 10), n);
    asked[s.submit(j)] = j;
  }
  int thrown = 0;
  for (bool more = true; more;) {
    try {
      more = s.step(heard);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_GT(thrown, 10);
  for (const auto& [number, j] : asked) EXPECT_EQ(heard.of[number], closed(f, j));
}

TEST(session_faults, pauses_are_counted) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  notes heard;
  s.resume();  // nobody has paused
  const job j = job_of(words(1, 10), 3);
  s.submit(j);
  s.pause(), s.pause();
  s.resume();
  EXPECT_FALSE(s.step(heard));
  s.resume();
  s.resume();
  s.pause();
  EXPECT_FALSE(s.step(heard));
  s.resume();
  finish_all(s, heard);
  EXPECT_EQ(heard.of[1], closed(f, j));
}

TEST(session_faults, owners_of_pauses_do_not_meet_a_pass) {
  fixture f;
  session<cpu> s(f.model, f.space, with_pages(limits(), 12));
  std::map<ticket, job> asked;
  for (std::uint32_t n = 0; n < 40; ++n) {
    const job j = job_of(words(n % 4, 20 + n % 30), n);
    asked[s.submit(j)] = j;
  }
  std::atomic<bool> done = false, bad = false;
  std::vector<std::thread> owners;
  for (int i = 0; i < 2; ++i)
    owners.emplace_back([&] {
      while (!done) {
        s.pause();
        const std::size_t passes = s.statistics().passes;
        std::this_thread::yield();
        bad = bad || s.statistics().passes != passes;
        s.resume();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  notes heard;
  while (std::ranges::any_of(asked, [&](const auto& a) { return heard.of[a.first].ends.empty(); })) s.step(heard);
  done = true;
  for (std::thread& t : owners) t.join();
  EXPECT_FALSE(bad);
  for (const auto& [number, j] : asked) EXPECT_EQ(heard.of[number], closed(f, j));
}

TEST(session_faults, a_resume_of_nothing_does_nothing_to_a_pass) {
  fixture f;
  session<cpu> s(f.model, f.space, limits());
  std::map<ticket, job> asked;
  for (std::uint32_t n = 0; n < 60; ++n) {
    const job j = job_of(words(n % 4, 20 + n % 30), n);
    asked[s.submit(j)] = j;
  }
  std::atomic<bool> done = false;
  std::thread stranger([&] {
    while (!done) s.resume(), std::this_thread::yield();
  });
  notes heard;
  finish_all(s, heard);
  done = true;
  stranger.join();
  for (const auto& [number, j] : asked) EXPECT_EQ(heard.of[number], closed(f, j));
}

TEST(session_faults, a_fork_of_a_prompt_that_is_being_scored_scores_the_rest) {
  fixture f;
  for (const int passes : {1, 2, 3, 4}) {
    rollout::session_limits l = limits();
    l.max_batched_tokens = 30;
    session<cpu> s(f.model, f.space, l);
    all_notes heard;
    job j = job_of(words(3, 90), 2);
    j.prompt_logprobs = 0;
    const ticket root = s.submit(j);
    for (int i = 0; i < passes; ++i) s.step(heard);
    const std::size_t scored = heard.prompt[root].size();
    const std::vector<std::int32_t> before = heard.of[root].tokens;
    const ticket fork = s.fork(root, 9);
    finish_all(s, heard);
    EXPECT_EQ(heard.prompt[root].size(), 89u);
    EXPECT_TRUE(std::ranges::equal(heard.prompt[fork], std::span(heard.prompt[root]).subspan(scored)));
    j.sample = 9;
    if (passes < 3) {
      EXPECT_LT(scored, 89u);
      EXPECT_EQ(heard.of[fork], closed(f, j));
    }
    EXPECT_EQ(s.statistics().pages_used, 0);
  }
}

/// A model that reads images, and jobs that show them.
struct image_fixture {
  cpu device{1};
  nn::causal_lm<cpu> model{device, tiny_vision::config()};
  nn::workspace<cpu> space{device};
  std::shared_ptr<std::vector<tiny_vision::prompt>> prompts =
      std::make_shared<std::vector<tiny_vision::prompt>>(tiny_vision::prompts(6));
  image_fixture() { model.initialize(11); }

  job job_for(std::size_t i) const {
    const tiny_vision::prompt& p = (*prompts)[i];
    job j;
    j.prompt = p.tokens, j.images = p.images, j.pixels = prompts, j.max_new_tokens = 4;
    return j;
  }
};

TEST(session_faults, image_tokens_of_a_scored_prompt_are_impossible_and_nothing_else) {
  image_fixture f;
  session<cpu> s(f.model, f.space, {.max_sequences = 4});
  all_notes heard;
  const ticket words = s.submit(f.job_for(0));
  job j = f.job_for(1);
  j.prompt_logprobs = 2;
  const ticket number = s.submit(j);
  finish_all(s, heard);
  EXPECT_EQ(heard.of[words].tokens.size(), 4u);
  EXPECT_EQ(heard.of[number].tokens.size(), 4u);
  ASSERT_EQ(heard.prompt[number].size(), j.prompt.size() - 1);
  for (std::size_t i = 1; i < j.prompt.size(); ++i)
    EXPECT_EQ(std::isinf(heard.prompt[number][i - 1]), j.prompt[i] == tiny_vision::image) << i;
}

TEST(session_faults, the_tower_reads_once_for_each_time_that_a_prompt_is_fed) {
  image_fixture f;
  session<cpu> s(f.model, f.space, {.max_sequences = 4, .max_batched_tokens = 9, .max_image_tokens = 40});
  notes heard;
  job j = f.job_for(1);
  j.keep_open = true;
  const ticket number = s.submit(j);
  finish_all(s, heard);
  const std::size_t once = s.statistics().images_read;
  EXPECT_EQ(once, 1u);
  s.cancel(s.fork(number, 3));  // it never read a row
  s.step(heard);
  for (std::size_t turn = 1; turn < 4; ++turn) {
    s.pause();
    s.resume();
    s.extend(number, std::vector<std::int32_t>{7}, 3);
    s.step(heard);
    if (turn == 3) s.pause(), s.resume();  // in the middle of the prompt
    finish_all(s, heard);
    EXPECT_EQ(s.statistics().images_read, (1 + turn + (turn == 3)) * once);
  }
}

TEST(session_faults, keys_and_values_of_half_an_image_keep_none_of_its_floats) {
  image_fixture f;
  session<cpu> s(f.model, f.space, {.max_sequences = 4, .max_batched_tokens = 34, .max_image_tokens = 40});
  notes heard;
  for (const bool whole : {false, true}) {
    job j = f.job_for(1);
    j.prompt.insert(j.prompt.end(), 30, 7);
    const auto floats = std::make_shared<int>();  // stands for the owner of the images
    j.pixels = floats;
    const ticket number = s.submit(std::move(j));
    s.step(heard);  // a full page, in which the image begins
    if (!whole) s.cancel(number);
    s.submit(f.job_for(0));
    finish_all(s, heard);
    EXPECT_EQ(floats.use_count(), whole ? 2 : 1);
  }
}

TEST(session_faults, threads_may_show_images_while_it_runs) {
  image_fixture f;
  session<cpu> s(f.model, f.space,
                 {.max_sequences = 4, .max_batched_tokens = 9, .max_image_tokens = 40, .share_prefixes = false});
  std::atomic<bool> done = false;
  std::thread client([&] {
    for (std::size_t n = 0; n < 60; ++n) {
      s.submit(f.job_for(n % 3 == 0 ? 2 : 1));
      for (int k = 0; k < 20; ++k) EXPECT_LE(s.statistics().images_read, 60u * 3 * 2);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    done = true;
  });
  notes heard;
  while (!done || s.step(heard)) s.step(heard);
  client.join();
  finish_all(s, heard);
  for (ticket n = 1; n <= 60; ++n) {
    EXPECT_EQ(heard.of[n].ends.size(), 1u);
    EXPECT_EQ(heard.of[n].tokens, heard.of[(n - 1) % 3 == 0 ? 1 : 2].tokens);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
