// Generation in windows, and responses that a later call continues.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using session_scenario::fixture, session_scenario::requests, session_scenario::words;

constexpr random_key key{5};

/// Windows of these lengths, then the end of the call.
class windows final : public rollout::pause_points {
 public:
  explicit windows(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}
  std::int64_t next(std::span<const rollout::response> so_far) override {
    for (const rollout::response& r : so_far) {
      EXPECT_LE(std::ssize(r.tokens), allowed_);
      if (allowed_ > 0 && std::ssize(r.tokens) < allowed_) {
        EXPECT_NE(r.reason, rollout::finish::paused);
      }
    }
    if (at_ == lengths_.size()) return 0;
    allowed_ += lengths_[at_];
    return lengths_[at_++];
  }

 private:
  std::vector<std::int64_t> lengths_;
  std::size_t at_ = 0;
  std::int64_t allowed_ = 0;
};

std::vector<std::vector<std::int32_t>> prompts() { return {words(1, 3), words(2, 17), words(3, 40), words(4, 31)}; }

rollout::generation settings() { return {.sampling = {.temperature = 0.8f}, .max_new_tokens = 48, .eos_ids = {4, 30}}; }
rollout::generation with_rules() {
  rollout::generation s = settings();
  s.rules.min_tokens = 20, s.rules.repetition_penalty = 1.3f, s.rules.frequency_penalty = 0.4f;
  return s;
}

std::vector<rollout::response> generate(fixture& f, std::span<const rollout::request> asked,
                                        const rollout::generation& how, rollout::pause_points* pauses = nullptr) {
  return rollout::engine<cpu>().generate(f.model, f.space, asked, how, key, rollout::no_progress(), nullptr, pauses);
}

void expect_same(std::span<const rollout::response> a, std::span<const rollout::response> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << i;
    EXPECT_EQ(a[i].logp, b[i].logp) << i;
    EXPECT_EQ(a[i].entropy, b[i].entropy) << i;
    EXPECT_EQ(a[i].sampling_mask.values, b[i].sampling_mask.values) << i;
    EXPECT_EQ(a[i].reason, b[i].reason) << i;
  }
}

/// The responses of two calls, one after the other.
std::vector<rollout::response> joined(std::vector<rollout::response> first, std::span<const std::size_t> rows,
                                      std::span<const rollout::response> second) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rollout::response& r = first[rows[i]];
    const rollout::response& more = second[i];
    r.tokens.insert(r.tokens.end(), more.tokens.begin(), more.tokens.end());
    r.logp.insert(r.logp.end(), more.logp.begin(), more.logp.end());
    r.entropy.insert(r.entropy.end(), more.entropy.begin(), more.entropy.end());
    for (std::size_t t = 0; t < more.sampling_mask.rows(); ++t) r.sampling_mask.push_back(more.sampling_mask.row(t));
    r.reason = more.reason;
  }
  return first;
}

/// Those of `first` that have paused, as requests that continue them.
std::pair<std::vector<std::size_t>, std::vector<rollout::request>> rest(std::span<const rollout::request> asked,
                                                                        std::span<const rollout::response> first) {
  std::vector<std::size_t> rows;
  std::vector<rollout::request> more;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (first[i].reason != rollout::finish::paused) continue;
    rows.push_back(i);
    more.push_back(asked[i]);
    more.back().written = first[i].tokens;
  }
  return {rows, more};
}

TEST(pauses, no_token_depends_on_the_windows) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  for (rollout::generation how : {settings(), with_rules()}) {
    const auto whole = generate(f, asked, how);
    for (const std::int64_t length : {1, 5, 16, 48}) {
      windows every(std::vector<std::int64_t>(static_cast<std::size_t>(48 / length + 1), length));
      expect_same(whole, generate(f, asked, how, &every));
    }
    how.max_sequences = 4, how.share_prompts = false, how.max_batched_tokens = 24;
    windows some({7, 1, 30, 40});
    expect_same(whole, generate(f, asked, how, &some));
  }
}

TEST(pauses, a_later_call_continues_a_response_as_if_it_had_drawn_all) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  for (rollout::generation how : {settings(), with_rules()}) {
    how.sampling.top_k = 7, how.keep_sampling_mask = true;
    const auto whole = generate(f, asked, how);
    windows some({4, 7});
    const auto first = generate(f, asked, how, &some);
    const auto [rows, more] = rest(asked, first);
    ASSERT_GT(rows.size(), 2u);
    ASSERT_LE(rows.size(), asked.size());
    for (const std::size_t i : rows) EXPECT_EQ(first[i].tokens.size(), 11u);
    expect_same(whole, joined(first, rows, generate(f, more, how)));
    windows few({2, 3});
    const auto second = generate(f, more, how, &few);
    const auto both = joined(first, rows, second);
    const auto [last_rows, last] = rest(asked, both);
    expect_same(whole, joined(both, last_rows, generate(f, last, how)));
  }
}

TEST(pauses, a_request_of_another_call_keeps_its_random_numbers) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  const auto whole = generate(f, asked, settings());
  auto keyed = asked;
  for (rollout::request& r : keyed) r.call = key;
  expect_same(whole, rollout::engine<cpu>().generate(f.model, f.space, keyed, settings(), random_key{77}));
}

TEST(pauses, each_token_has_the_log_prob_of_the_weights_that_drew_it) {
  fixture f, other;
  other.model.initialize(12);
  const auto p = prompts();
  const auto asked = requests(p, 3);
  windows some({9});
  const auto first = generate(f, asked, settings(), &some);
  const auto [rows, more] = rest(asked, first);
  ASSERT_FALSE(rows.empty());
  const auto second = generate(other, more, settings());
  const auto all = joined(first, rows, second);
  std::size_t differ = 0;
  for (fixture* by : {&f, &other}) {
    ragged<std::int32_t> sequences;
    nn::targets targets;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      std::vector<std::int32_t> row(asked[i].prompt.begin(), asked[i].prompt.end());
      row.insert(row.end(), all[i].tokens.begin(), all[i].tokens.end());
      for (std::size_t t = 0; t < all[i].tokens.size(); ++t) {
        targets.row.push_back(static_cast<std::int32_t>(sequences.size() + asked[i].prompt.size() + t) - 1);
        targets.token.push_back(all[i].tokens[t]);
      }
      sequences.push_back(row);
    }
    std::vector<float> logp(targets.row.size()), entropy;
    nn::log_probs(by->model, by->space, sequences, targets, 0.8f, logp, entropy);
    for (std::size_t i = 0, at = 0; i < all.size(); ++i)
      for (std::size_t t = 0; t < all[i].tokens.size(); ++t, ++at) {
        const bool drew = by == (t < first[i].tokens.size() ? &f : &other);
        if (drew) {
          EXPECT_EQ(all[i].logp[t], logp[at]) << i << ' ' << t;
        }
        differ += !drew && all[i].logp[t] != logp[at];
      }
  }
  EXPECT_GT(differ, 100u) << "the weights are others";
}

TEST(pauses, a_session_goes_on_with_a_paused_job_and_its_fork) {
  fixture f;
  session_scenario::notes heard;
  rollout::session<cpu> s(f.model, f.space, session_scenario::limits());
  rollout::job j = session_scenario::job_of(words(3, 20), 1);
  j.stop_ids = {}, j.max_new_tokens = 20, j.keep_open = true;
  const session_scenario::heard_text whole = session_scenario::alone(f, j);
  j.pause_after = 6;
  const rollout::ticket job = s.submit(j);
  session_scenario::finish_all(s, heard);
  EXPECT_EQ(heard.of[job].ends, std::vector{rollout::finish::paused});
  EXPECT_EQ(heard.of[job].tokens.size(), 6u);
  EXPECT_THROW(s.extend(job, words(4, 2), 5), config_error);
  const rollout::ticket copy = s.fork(job, j.sample);
  s.go_on(job, 9);
  EXPECT_THROW(s.go_on(job, 9), config_error) << "it runs";
  session_scenario::finish_all(s, heard);
  s.go_on(job, 0), s.go_on(copy, 0);
  session_scenario::finish_all(s, heard);
  EXPECT_EQ(heard.of[job].tokens, whole.tokens);
  EXPECT_EQ(heard.of[job].logp, whole.logp);
  EXPECT_EQ(heard.of[job].ends,
            (std::vector{rollout::finish::paused, rollout::finish::paused, rollout::finish::length}));
  EXPECT_TRUE(std::ranges::equal(heard.of[copy].tokens, std::span(whole.tokens).subspan(6)));
  s.extend(job, words(4, 2), 5);
  session_scenario::finish_all(s, heard);
  EXPECT_EQ(heard.of[job].ends.back(), rollout::finish::length) << "its next turn does not pause";
  EXPECT_THROW(s.go_on(job, 1), config_error) << "it has not paused";
  j.keep_open = false;
  EXPECT_THROW(s.submit(j), config_error) << "only a job that is kept open can go on";
}

TEST(pauses, what_cannot_be_continued_is_refused) {
  fixture f;
  const auto p = prompts();
  auto asked = requests(p, 3);
  const std::vector<std::int32_t> all(48, 7), unknown{7, 5000};
  const auto refusal = [&](std::span<const std::int32_t> written) -> std::string {
    asked[1].written = written;
    try {
      generate(f, asked, settings());
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal(all).find("48 tokens of at most 48 are written: nothing is left to draw (generate: request 1)"),
            std::string::npos);
  EXPECT_NE(refusal(unknown).find("the response's token 5000 is not in the vocabulary"), std::string::npos);
  asked[1].turn = 2;
  EXPECT_NE(refusal(std::span(all).first(1)).find("the turn begins at token 2 of 1 that are written"),
            std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
