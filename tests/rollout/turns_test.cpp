// Responses of several turns: the log-probs are training's, and no token depends on when or in what company it is
// drawn.
#include "rlcore/rollout/request.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rollout/session_scenario.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using session_scenario::fixture, session_scenario::requests, session_scenario::words;

constexpr std::int64_t longest = 48;

/// After each turn up to three replies, whose tokens depend on the prompt, sample and turn; none if the response is
/// long. They arrive at once, when nothing else is to do, or in an order of its own. `turns` have ended before, of each
/// request.
class replies final : public rollout::turn_source {
 public:
  enum class order { at_once, late, last_first };
  explicit replies(order o, std::vector<std::uint32_t> turns = {}) : order_(o), turns_(std::move(turns)) {}

  void begin(std::span<const rollout::request> requests) override {
    requests_.assign(requests.begin(), requests.end());
    turns_.resize(requests.size());
  }
  void end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) override {
    EXPECT_LT(turn, so_far.tokens.size());
    EXPECT_TRUE(so_far.context.empty() ||
                so_far.context.back().begin + so_far.context.back().count == static_cast<std::int32_t>(turn));
    const std::uint32_t number = ++turns_[request];
    const rollout::request& asked = requests_[request];
    const std::uint32_t row = 4 * asked.prompt_number + asked.sample;
    std::vector<std::int32_t> reply = words(100 * row + number, 1 + row % 9);
    if (number > 3 || std::ssize(asked.written) + std::ssize(so_far.tokens) + std::ssize(reply) >= longest)
      reply.clear();
    waiting_.push_back({request, std::move(reply)});
  }
  std::optional<continuation> next(bool wait) override {
    if (waiting_.empty() || (order_ != order::at_once && !wait)) return {};
    const auto at = order_ == order::last_first ? waiting_.end() - 1 : waiting_.begin();
    continuation c = std::move(*at);
    waiting_.erase(at);
    return c;
  }

 private:
  order order_;
  std::vector<rollout::request> requests_;
  std::vector<std::uint32_t> turns_;
  std::vector<continuation> waiting_;
};

rollout::generation settings() {
  return {.sampling = {.temperature = 0.8f}, .max_new_tokens = longest, .eos_ids = {4, 9, 30}};
}

bool is_context(const rollout::response& r, std::size_t token) {
  const auto t = static_cast<std::int32_t>(token);
  return std::ranges::any_of(r.context, [&](const auto& run) { return run.begin <= t && t < run.begin + run.count; });
}

/// Log-probs of the drawn tokens by one forward pass over whole rows.
std::vector<float> trained(fixture& f, std::span<const rollout::request> asked,
                           std::span<const rollout::response> answers) {
  ragged<std::int32_t> rows;
  nn::targets targets;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<std::int32_t> row(asked[i].prompt.begin(), asked[i].prompt.end());
    const auto start = static_cast<std::int32_t>(rows.size());
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t) {
      if (!is_context(answers[i], t)) {
        targets.row.push_back(start + static_cast<std::int32_t>(row.size()) - 1);
        targets.token.push_back(answers[i].tokens[t]);
      }
      row.push_back(answers[i].tokens[t]);
    }
    rows.push_back(row);
  }
  std::vector<float> logp(targets.row.size()), entropy;
  nn::log_probs(f.model, f.space, rows, targets, 0.8f, logp, entropy);
  return logp;
}

void expect_same(std::span<const rollout::response> a, std::span<const rollout::response> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << i;
    EXPECT_EQ(a[i].logp, b[i].logp) << i;
    EXPECT_EQ(a[i].context, b[i].context) << i;
  }
}

TEST(turns, log_probs_of_all_turns_are_the_bits_that_training_computes) {
  fixture f;
  const std::vector<std::vector<std::int32_t>> prompts{words(1, 3), words(2, 17), words(3, 40)};
  const auto asked = requests(prompts, 4);
  replies source(replies::order::at_once);
  const auto answers = rollout::engine<cpu>().generate(f.model, f.space, asked, settings(), random_key{5},
                                                       rollout::no_progress(), &source);
  std::vector<float> recorded;
  std::size_t turns = 0;
  for (const rollout::response& r : answers) {
    recorded.insert(recorded.end(), r.logp.begin(), r.logp.end());
    turns += r.context.size();
    EXPECT_LE(std::ssize(r.tokens), longest);
    EXPECT_FALSE(is_context(r, r.tokens.size() - 1));
  }
  EXPECT_GT(turns, asked.size());
  EXPECT_EQ(recorded, trained(f, asked, answers));
}

TEST(turns, no_token_depends_on_the_order_of_replies_on_limits_or_on_the_batch) {
  fixture f;
  const std::vector<std::vector<std::int32_t>> prompts{words(1, 3), words(2, 17), words(3, 40), words(4, 9)};
  const auto asked = requests(prompts, 3);
  const auto generate = [&](std::span<const rollout::request> some, replies::order order, const auto& how) {
    replies source(order);
    return rollout::engine<cpu>().generate(f.model, f.space, some, how, random_key{5}, rollout::no_progress(), &source);
  };
  const auto whole = generate(asked, replies::order::at_once, settings());
  const std::size_t page = nn::kv_cache<cpu>::page_bytes(cpu(1), session_scenario::tiny());
  for (const replies::order order : {replies::order::at_once, replies::order::late, replies::order::last_first})
    for (const std::int64_t sequences : {1, 3, 64})
      for (const bool share : {true, false}) {
        rollout::generation how = settings();
        how.max_sequences = sequences, how.share_prompts = share;
        how.max_cache_bytes = static_cast<std::size_t>(kv_pages(40 + longest) + 2) * page;  // too few for all
        expect_same(generate(asked, order, how), whole);
      }
}

/// A reply's tokens are fed where the pages of the turn before end, not the whole row once more.
TEST(turns, a_next_turn_reads_the_pages_of_the_last) {
  fixture f;
  const std::vector<std::vector<std::int32_t>> prompts{words(3, 100)};
  const auto asked = requests(prompts, 1);
  const auto fed = [&](bool share) {
    rollout::engine<cpu> engine;
    rollout::generation how = settings();
    how.share_prompts = share;
    replies source(replies::order::at_once);
    const auto answers = engine.generate(f.model, f.space, asked, how, random_key{5}, rollout::no_progress(), &source);
    EXPECT_GE(answers[0].context.size(), 2u);
    return engine.usage().tokens_fed;
  };
  EXPECT_LT(fed(true), 100 + longest + 3 * kv_page);
  EXPECT_GT(fed(false), 300u);
}

/// `count` windows of one length.
class windows final : public rollout::pause_points {
 public:
  windows(std::int64_t length, int count) : length_(length), count_(count) {}
  std::int64_t next(std::span<const rollout::response> so_far) override {
    for (const rollout::response& r : so_far) {
      if (!r.tokens.empty()) {
        EXPECT_FALSE(is_context(r, r.tokens.size() - 1));
      }
    }
    return count_-- > 0 ? length_ : 0;
  }

 private:
  std::int64_t length_;
  int count_;
};

TEST(turns, no_token_depends_on_windows_or_on_calls_that_end_within_a_turn) {
  fixture f;
  const std::vector<std::vector<std::int32_t>> prompts{words(1, 3), words(2, 17), words(3, 40), words(4, 9)};
  const auto asked = requests(prompts, 3);
  rollout::generation with_rules = settings();
  with_rules.rules.min_tokens = 2, with_rules.rules.repetition_penalty = 1.3f;
  for (const rollout::generation& how : {settings(), with_rules}) {
    const auto generate = [&](std::span<const rollout::request> some, replies&& source, rollout::pause_points* pauses) {
      return rollout::engine<cpu>().generate(f.model, f.space, some, how, random_key{5}, rollout::no_progress(),
                                             &source, pauses);
    };
    const auto whole = generate(asked, replies(replies::order::at_once), nullptr);
    for (const std::int64_t length : {1, 5, 16}) {
      windows all(length, 1000);
      expect_same(generate(asked, replies(replies::order::late), &all), whole);
      // A call for every second window.
      std::vector<rollout::response> parts(asked.size());
      std::size_t calls = 0, in_later_turns = 0;
      for (std::vector<std::size_t> rows; calls == 0 || !rows.empty(); ++calls) {
        std::vector<rollout::request> rest;
        std::vector<std::uint32_t> turns;
        rows.clear();
        for (std::size_t i = 0; i < asked.size(); ++i) {
          if (calls > 0 && parts[i].reason != rollout::finish::paused) continue;
          rows.push_back(i);
          rest.push_back(asked[i]);
          rest.back().written = parts[i].tokens;
          turns.push_back(static_cast<std::uint32_t>(parts[i].context.size()));
          in_later_turns += !parts[i].context.empty();
          if (!parts[i].context.empty())
            rest.back().turn = static_cast<std::size_t>(parts[i].context.back().begin + parts[i].context.back().count);
        }
        windows two(length, 2);
        const auto more = generate(rest, replies(replies::order::last_first, turns), &two);
        for (std::size_t k = 0; k < rows.size(); ++k) {
          rollout::response& r = parts[rows[k]];
          for (const rollout::context_run& run : more[k].context)
            r.context.push_back({run.begin + static_cast<std::int32_t>(r.tokens.size()), run.count});
          r.tokens.insert(r.tokens.end(), more[k].tokens.begin(), more[k].tokens.end());
          r.logp.insert(r.logp.end(), more[k].logp.begin(), more[k].logp.end());
          r.reason = more[k].reason;
        }
      }
      EXPECT_GT(calls, 1u);
      EXPECT_GT(in_later_turns, 0u);
      expect_same(parts, whole);
    }
  }
}

TEST(turns, a_source_that_ends_every_response_changes_nothing) {
  struct none final : rollout::turn_source {
    std::vector<std::size_t> ended;
    void begin(std::span<const rollout::request>) override {}
    void end_turn(std::size_t request, const rollout::response&, std::size_t) override { ended.push_back(request); }
    std::optional<continuation> next(bool) override {
      if (ended.empty()) return {};
      const std::size_t i = ended.back();
      ended.pop_back();
      return continuation{i, {}};
    }
  } source;
  fixture f;
  const std::vector<std::vector<std::int32_t>> prompts{words(1, 3), words(2, 17)};
  const auto asked = requests(prompts, 4);
  const auto plain = rollout::engine<cpu>().generate(f.model, f.space, asked, settings(), random_key{5});
  std::vector<std::size_t> progress;
  expect_same(rollout::engine<cpu>().generate(
                  f.model, f.space, asked, settings(), random_key{5},
                  [&](std::size_t done) { progress.push_back(done); }, &source),
              plain);
  EXPECT_EQ(progress.size(), asked.size());
  EXPECT_EQ(progress.back(), asked.size());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
