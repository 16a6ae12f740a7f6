// DPO, KTO, reward and process reward models on rows with images: losses by hand, and bits whatever is packed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/dpo_task.hpp"
#include "rlcore/train/preference/kto_task.hpp"
#include "rlcore/train/preference/prm_task.hpp"
#include "rlcore/train/preference/rm_task.hpp"
#include "train/preference/drawn_rows.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using namespace rlcore::train;

auto kto_of_baseline(kto_baseline kl) { return paper::kto({.kl = kl, .beta = 0.1}); }

const pair_columns pair_keys{.prompt = "prompt"};
const unpaired_columns single_keys{.input = "prompt", .output = "chosen"};
const step_columns step_keys{
    .input = "steps", .label = "value", .placeholder = "<tool_call>", .reward_tokens = {"<think>", "</think>"}};

/// Two models, the policy and its reference, and rows.
struct image_tasks : testing::Test {
  static nn::config config(bool score) {
    nn::config c = drawn_rows::config();
    if (score) c.output = nn::model_output::score;
    return c;
  }
  preference_rows<preference_pair> pairs(bool for_dpo, std::uint32_t seed = 7) const {
    return read_pairs(drawn_rows::rows(7, seed), pair_keys, chat, for_dpo);
  }
  preference_rows<unpaired_row> singles() const { return read_unpaired(drawn_rows::rows(7), single_keys, chat); }
  preference_rows<judged_row> steps() const { return read_steps(drawn_rows::rows(7), step_keys, words, plain); }

  row_rules chat = drawn_rows::rules(true), plain = drawn_rows::rules(false);
  step_tokens words = find_step_tokens(drawn_rows::tokenizer(), step_keys);
};

/// One row alone, without the trainers' packing: log-probs of `wanted` at `places`, or the values there.
struct by_hand {
  by_hand(bool score, std::uint64_t seed) : model(device, image_tasks::config(score)), space(device, 1 << 20) {
    model.initialize(seed);
  }
  std::vector<float> operator()(const std::vector<std::int32_t>& row, const std::vector<data::image_pointer>& encoded,
                                const nn::targets& wanted) {
    ragged<std::int32_t> tokens;
    ragged<nn::image_patches> images;
    tokens.push_back(row);
    std::vector<image::patches> seen;
    const image::processor processor(*drawn_rows::rules(false).images.processor);
    for (const data::image_pointer& i : encoded) seen.push_back(processor(i->bytes));
    std::vector<nn::image_patches> shown;
    for (const image::patches& p : seen) shown.push_back({{p.rows, p.columns}, p.values});
    images.push_back(shown);
    std::vector<float> out(wanted.row.size());
    if (wanted.token.empty()) {
      nn::values(model, space, {tokens, images}, wanted.row, out);
    } else {
      nn::log_probs(model, space, {tokens, images}, wanted, 1.0f, out, {});
    }
    return out;
  }
  double answer(const std::vector<std::int32_t>& row, std::size_t prompt,
                const std::vector<data::image_pointer>& shown) {
    nn::targets wanted;
    for (std::size_t t = prompt; t < row.size(); ++t) {
      wanted.row.push_back(static_cast<std::int32_t>(t) - 1);
      wanted.token.push_back(row[t]);
    }
    double sum = 0;
    for (const float x : (*this)(row, shown, wanted)) sum += static_cast<double>(x);
    return sum;
  }

  cpu device{1};
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
};
double log_sigmoid(double z) { return -std::log1p(std::exp(-z)); }

/// The loss of an evaluation; make(reference) is the task. Seeds are those of the policy and the reference.
template <class Make>
double evaluated(bool score, Make&& make, std::uint64_t policy = 5, std::uint64_t frozen = 6) {
  cpu device(1);
  frozen_model<cpu> reference(device, image_tasks::config(false));
  reference.model.initialize(frozen);
  trainable_model<cpu> model(device, image_tasks::config(score), {});
  model.model.initialize(policy);
  metrics m;
  make(&reference.model).evaluate(model, m);
  return m.get("eval/eval_loss");
}

TEST_F(image_tasks, dpo_is_the_loss_of_rows_by_hand) {
  by_hand policy(false, 5), reference(false, 6);
  const auto rows = pairs(true);
  double loss = 0;
  for (const preference_pair& p : rows.rows) {
    const auto ratio = [&](const std::vector<std::int32_t>& row) {
      return policy.answer(row, p.prompt_length, p.images) - reference.answer(row, p.prompt_length, p.images);
    };
    loss -= log_sigmoid(0.1 * (ratio(p.chosen) - ratio(p.rejected))) / static_cast<double>(rows.size());
  }
  const auto task = [&](auto set) {
    return [set](auto* ref) {
      return dpo_task<cpu>({.loss = paper::dpo({.beta = 0.1}), .pairs_per_pass = 3}, set, set, ref);
    };
  };
  EXPECT_NEAR(evaluated(false, task(rows)), loss, 1e-6);
  EXPECT_GT(std::abs(evaluated(false, task(pairs(true, 70))) - loss), 1e-4) << "other images";
}

TEST_F(image_tasks, kto_shows_a_prompts_images_to_the_next_rows_answer) {
  const auto rows = singles();
  const auto n = static_cast<double>(rows.size());
  double largest = 0;
  for (const auto& [seed, other] : {std::pair{5u, 6u}, std::pair{6u, 5u}}) {  // one of them has a KL above 0
    by_hand policy(false, seed), reference(false, other);
    const auto ratio = [&](const std::vector<std::int32_t>& row, const unpaired_row& of) {
      return policy.answer(row, of.prompt_length, of.text.images) -
             reference.answer(row, of.prompt_length, of.text.images);
    };
    double kl = 0, loss = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bool cut = false;
      const std::string text = rows[i].text.prompt + rows[(i + 1) % rows.size()].text.answer;
      kl += ratio(chat.ended(text, cut, rows[i].text.images), rows[i]) / n;
    }
    kl = std::max(kl, 0.0);
    largest = std::max(largest, kl);
    for (const unpaired_row& r : rows.rows) {
      const double u = 0.1 * (ratio(r.tokens, r) - kl);
      loss += (1 - std::exp(log_sigmoid(r.desirable ? u : -u))) / n;
    }
    const auto task = [&](auto* ref) {
      return kto_task<cpu>({.loss = kto_of_baseline, .beta = 0.1, .rows_per_pass = 3, .rows_per_step = 8}, chat, rows,
                           rows, ref);
    };
    EXPECT_NEAR(evaluated(false, task, seed, other), loss, 1e-6);
  }
  EXPECT_GT(largest, 0.01);
}

TEST_F(image_tasks, reward_models_score_the_last_token) {
  by_hand policy(true, 5);
  const auto rows = pairs(false);
  double loss = 0;
  for (const preference_pair& p : rows.rows) {
    const auto score = [&](const std::vector<std::int32_t>& row) {
      const nn::targets last{{static_cast<std::int32_t>(row.size()) - 1}, {}};
      return static_cast<double>(policy(row, p.images, last).front());
    };
    loss -= log_sigmoid(score(p.chosen) - score(p.rejected)) / static_cast<double>(rows.size());
  }
  EXPECT_NEAR(
      evaluated(true, [&](auto*) { return rm_task<cpu>({.loss = paper::rm(), .pairs_per_pass = 3}, rows, rows); }),
      loss, 1e-6);
}

TEST_F(image_tasks, process_reward_models_judge_steps_behind_images) {
  by_hand policy(false, 5);
  const auto rows = steps();
  double loss = 0, count = 0;
  for (const judged_row& r : rows.rows)
    for (std::size_t s = 0; s < r.steps.size(); ++s) {
      const nn::targets both{{r.steps[s], r.steps[s]}, {words.rewards[0], words.rewards[1]}};
      const std::vector<float> logp = policy(r.tokens, r.images, both);
      const double z = static_cast<double>(logp[0]) - static_cast<double>(logp[1]);
      loss -= log_sigmoid(r.labels[s] == 0 ? z : -z);
      ++count;
    }
  EXPECT_NEAR(evaluated(false, [&](auto*) { return prm_task<cpu>({words.rewards, 3}, rows, rows); }), loss / count,
              1e-6);
}

struct result_of_steps {
  std::vector<float> weights;
  std::vector<double> numbers;
};
/// Two steps of five rows on so many ranks with ZeRO 3.
template <class Make>
result_of_steps learn(int ranks, int threads, bool score, Make&& make) {
  result_of_steps first;
  parallel::launch_settings launched;
  launched.thread_ranks = ranks, launched.deadline = std::chrono::seconds(60);
  parallel::launch(launched, [&](parallel::any_communicator& all) {
    parallel::parallel_settings how;
    how.zero = 3;
    parallel::world world(all, how);
    cpu device(threads);
    frozen_model<cpu> reference(device, image_tasks::config(false));
    reference.model.initialize(6);
    trainable_model<cpu> model(device, image_tasks::config(score), {}, &world);
    {
      const auto whole = model.gather_full_params();
      model.model.initialize(5);
    }
    auto task = make(&reference.model);
    result_of_steps mine;
    for (std::uint32_t step = 0; step < 2; ++step) {
      const std::vector<std::uint32_t> rows{step, step + 1, step + 2, step + 3, step + 4};
      metrics m;
      model.begin_update();
      task.update(model, std::span<const std::uint32_t>(rows), m);
      EXPECT_FALSE(model.apply({.lr = 0.01, .grad_clip = 1}).skipped);
      for (const auto& [name, number] : m) mine.numbers.push_back(m.get(name));
    }
    const auto whole = model.gather_full_params();
    mine.weights = to_host(device, std::as_const(model.model).weights());
    if (world.first()) first = mine;
  });
  return first;
}

/// make(per_pass) makes a task of the reference.
template <class Make>
void expect_one_result(bool score, Make&& make) {
  const result_of_steps one = learn(1, 1, score, make(1));
  cpu device(1);
  nn::causal_lm<cpu> before(device, image_tasks::config(score));
  before.initialize(5);
  std::size_t tower = 0;
  for (const nn::parameter& p : before.parameters())
    if (p.name.starts_with("visual."))
      for (std::size_t i = p.offset; i < p.offset + p.size; ++i) tower += before.weights().data()[i] != one.weights[i];
  EXPECT_GT(tower, 1000u) << "the tower learns";
  const auto same = [&](const result_of_steps& other) {
    EXPECT_TRUE(other.weights == one.weights);
    EXPECT_EQ(other.numbers, one.numbers);
  };
  same(learn(1, 2, score, make(4)));
  same(learn(2, 1, score, make(2)));
}

TEST_F(image_tasks, no_result_shows_micro_batches_threads_or_ranks) {
  const auto dpo = pairs(true), rm = pairs(false);
  const auto kto = singles();
  const auto prm = steps();
  expect_one_result(false, [&](std::int64_t n) {
    return [&dpo, n](auto* ref) {
      return dpo_task<cpu>({.loss = paper::dpo({.beta = 0.1}), .nll_loss_coef = 0.1, .pairs_per_pass = n}, dpo, dpo,
                           ref);
    };
  });
  expect_one_result(false, [&](std::int64_t n) {
    return [&, n](auto* ref) {
      return kto_task<cpu>({.loss = kto_of_baseline, .beta = 0.1, .rows_per_pass = n}, chat, kto, kto, ref);
    };
  });
  expect_one_result(true, [&](std::int64_t n) {
    return [&rm, n](auto*) { return rm_task<cpu>({.loss = paper::rm(), .pairs_per_pass = n}, rm, rm); };
  });
  expect_one_result(
      false, [&](std::int64_t n) { return [&, n](auto*) { return prm_task<cpu>({words.rewards, n}, prm, prm); }; });
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
