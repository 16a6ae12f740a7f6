// The embedded task, compiled once for the programs that train on it.
#include "embedded_task.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/verify/dataset_rows.hpp"
#include "rlcore/verify/gsm8k.hpp"
#include "supervised_step.hpp"
#include "word_problems.hpp"

namespace embedded_task {

namespace {

using namespace rlcore;
namespace fs = std::filesystem;

std::string verl_rows(const std::vector<word_problems::problem>& problems, const char* split) {
  std::string lines;
  for (std::size_t i = 0; i < problems.size(); ++i)
    lines += verify::gsm8k_row(problems[i].question, problems[i].answer(), split, i, "word problem").dump() + "\n";
  return lines;
}

text::tokenizer make_tokenizer(const std::vector<word_problems::problem>& problems) {
  std::vector<std::string> corpus;
  for (const auto& p : problems) corpus.push_back(p.question + "\n" + p.answer());
  corpus.push_back("system\nuser\nassistant\n");
  const std::vector<std::string> special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  return text::train_bpe(corpus, 352, special);
}

/// A worked solution that is mostly wrong: the form is right, the result only one time in four. Mostly it is one too
/// large, sometimes one too small.
std::string careless(const word_problems::problem& p, random_key key, std::uint32_t index) {
  const std::uint32_t die = key.below(8, index);
  const int slip = die < 2 ? 0 : die < 7 ? 1 : -1;
  return p.working + " = " + std::to_string(p.result + slip) + "\n#### " + std::to_string(p.result + slip);
}

/// A tokenized row.
struct asked {
  std::vector<std::int32_t> prompt;
  std::string truth;
};

std::vector<asked> ask(const std::vector<word_problems::problem>& problems, const text::tokenizer& tokenizer,
                       const text::chat_template& chat) {
  std::vector<asked> all;
  for (const auto& p : problems) {
    const data::row row = verify::gsm8k_row(p.question, p.answer(), "", all.size(), "word problem");
    const std::vector<text::message> messages = text::messages_from_json(row["prompt"]);
    all.push_back({tokenizer.encode(chat.render(messages, {.add_generation_prompt = true})),
                   row["reward_model"]["ground_truth"].get<std::string>()});
  }
  return all;
}

/// Accuracy with one sampled answer per problem.
double right_answers(rollout::engine<any_device>& engine, learner& l, const text::tokenizer& tokenizer,
                     const std::vector<asked>& problems, random_key key) {
  const rollout::generation sampled{{.temperature = 1}, max_response, l.model.settings().eos_token_ids, 256};
  std::vector<rollout::request> requests;
  for (const asked& a : problems) requests.push_back({a.prompt, static_cast<std::uint32_t>(requests.size()), 0});
  const auto answers = engine.generate(l.model, l.space, requests, sampled, key, [](std::size_t) {});
  double right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i)
    right += verify::score_gsm8k(tokenizer.decode(answers[i].tokens, true), problems[i].truth).score;
  return right / static_cast<double>(answers.size());
}

/// Teaches the form of an answer and most of the arithmetic, but also the wrong results: GRPO has to unlearn those.
void warm_start(nn::causal_lm<any_device>& model, const text::tokenizer& tokenizer, const text::chat_template& chat,
                const std::vector<word_problems::problem>& problems, const std::vector<asked>& probe, random_key key,
                std::uint32_t steps) {
  constexpr std::uint32_t batch = 32;
  const std::vector<asked> questions = ask(problems, tokenizer, chat);
  std::vector<std::vector<std::int32_t>> answers;
  for (std::uint32_t i = 0; i < problems.size(); ++i)
    answers.push_back(tokenizer.encode(careless(problems[i], key, i)));
  learner l{model};
  rollout::engine<any_device> engine;
  for (std::uint32_t step = 1; step <= steps; ++step) {
    lesson taught;
    for (std::uint32_t i = 0; i < batch; ++i) {
      const std::uint32_t drawn = key.child(1).below(static_cast<std::uint32_t>(problems.size()), step, i);
      taught.add(questions[drawn].prompt, answers[drawn], *tokenizer.eos_id());
    }
    const double lr = 2e-3 * std::min(1.0, 2.0 * (steps + 1 - step) / steps);
    const std::vector<float> logp = supervised_step(l, taught.tokens, taught.targets, lr);
    if (step % 80 != 0 && step != steps) continue;
    double loss = 0;  // per token of an answer
    for (const float x : logp) loss -= static_cast<double>(x / static_cast<float>(logp.size()));
    std::printf("warm start  step %3u/%u  loss %.4f  right answers, sampled %.3f\n", step, steps, loss,
                right_answers(engine, l, tokenizer, probe, key.child(2)));
    std::fflush(stdout);
  }
}

}  // namespace

std::vector<std::string> settings(const fs::path& folder) {
  return {"data.train_files=" + (folder / "data" / "train.jsonl").string(),
          "data.val_files=" + (folder / "data" / "test.jsonl").string(),
          "data.train_batch_size=64",
          "data.max_prompt_length=128",
          "data.max_response_length=" + std::to_string(max_response),
          "actor_rollout_ref.model.path=" + (folder / "model").string(),
          "actor_rollout_ref.model.enable_gradient_checkpointing=False",
          "actor_rollout_ref.actor.optim.lr=3e-4",
          "actor_rollout_ref.actor.optim.warmup_style=cosine",
          "actor_rollout_ref.actor.ppo_mini_batch_size=16",
          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
          "actor_rollout_ref.rollout.n=8",
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=128",
          "trainer.test_freq=5"};
}

void make(any_device& device, const fs::path& folder, std::uint64_t seed, std::uint32_t steps) {
  const fs::path data_folder = folder / "data", model_folder = folder / "model";
  const random_key key = random_key{seed}.child(0x736d616cu);
  fs::create_directories(data_folder);
  const auto train = word_problems::make_many(key.child(1), 4096), test = word_problems::make_many(key.child(2), 200);
  checkpoint::write_file_atomically(data_folder / "train.jsonl", verl_rows(train, "train"));
  checkpoint::write_file_atomically(data_folder / "test.jsonl", verl_rows(test, "test"));

  const text::tokenizer tokenizer = make_tokenizer(train);
  text::save(tokenizer, model_folder);
  const text::chat_template chat = text::chat_template::detect(model_folder);
  nn::causal_lm<any_device> model(device, tiny_qwen2(tokenizer));
  model.initialize(key.child(3).seed);
  warm_start(model, tokenizer, chat, train, ask(test, tokenizer, chat), key.child(4), steps);
  save(model, model_folder);
}

}  // namespace embedded_task
