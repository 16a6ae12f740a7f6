// The embedded task with a tool: products of two numbers, which a tiny model cannot compute and a calculator can.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "embedded_task.hpp"
#include "rlcore/agent/builtin_tools.hpp"
#include "rlcore/agent/reply_tokens.hpp"
#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/verify/dataset_rows.hpp"
#include "supervised_step.hpp"

namespace embedded_task {

namespace {

using namespace rlcore;
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::int64_t max_tool_response = 64;

/// ChatML that shows the tools and their replies in few tokens.
constexpr const char* chat_jinja =
    "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- for tool in tools %}{{- (tool.function | tojson) + '\\n' }}"
    "{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

struct product {
  std::uint32_t a = 0, b = 0;

  std::string expression() const { return std::to_string(a) + " * " + std::to_string(b); }
  std::string question() const { return "What is " + expression() + "?"; }
  std::string result() const { return std::to_string(a * b); }
  std::string call() const {
    const json call{{"name", "calculator"}, {"arguments", {{"expression", expression()}}}};
    return "<tool_call>\n" + text::python_json(call) + "\n</tool_call>";
  }
};

std::vector<product> make_products(random_key key, std::uint32_t count) {
  std::vector<product> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({11 + key.below(89, i, 0), 11 + key.below(89, i, 1)});
  return all;
}

json schema() {
  return agent::function_schema("calculator", "Computes.", {{"expression", "string", "Numbers and + - * /"}});
}

data::row row_of(const product& p, const char* split, std::size_t index) {
  data::row row = verify::gsm8k_row(p.question(), "#### " + p.result(), split, index, "product");
  row["prompt"][0]["content"] = p.question();  // without the instruction: the warm start teaches the form
  row["agent_name"] = "tool_agent";
  return row;
}

std::string rows_of(const std::vector<product>& products, const char* split) {
  std::string lines;
  for (std::size_t i = 0; i < products.size(); ++i) lines += row_of(products[i], split, i).dump() + "\n";
  return lines;
}

text::tokenizer make_tokenizer(const std::vector<product>& products) {
  std::vector<std::string> corpus;
  for (std::size_t i = 0; i < 64; ++i)
    corpus.push_back("system\n" + text::python_json(schema()["function"]) + "\nuser\n" + products[i].question() +
                     "\nassistant\n" + products[i].call() + "\ntool\n#### " + products[i].result());
  const std::vector<std::string> special{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"};
  return text::train_bpe(corpus, 380, special, text::split_style::qwen2);
}

/// Teaches to call the calculator and to copy its reply, then, in the last fifth of the steps, a worse way as well:
/// three answers in four are guesses.
void teach(nn::causal_lm<any_device>& model, const text::tokenizer& tokenizer, const text::chat_template& chat,
           const std::vector<product>& products, random_key key, std::uint32_t steps) {
  constexpr std::uint32_t batch = 32;
  const std::int32_t end = *tokenizer.eos_id();
  const agent::reply_tokens replies(chat, tokenizer, model.settings().eos_token_ids);
  learner l{model};
  for (std::uint32_t step = 1; step <= steps; ++step) {
    lesson taught;
    for (std::uint32_t i = 0; i < batch; ++i) {
      const product& p = products[key.child(1).below(static_cast<std::uint32_t>(products.size()), step, i)];
      const std::vector<text::message> messages{{"user", p.question()}};
      const std::vector<std::int32_t> prompt =
          tokenizer.encode(chat.render(messages, {.add_generation_prompt = true, .tools = {schema()}}));
      const bool calls = step <= steps - steps / 5 || key.child(2).below(4, step, i) == 0;
      const std::string guess = std::to_string(121 + key.child(3).below(9680, step, i));
      const std::vector<std::int32_t> answer = tokenizer.encode("#### " + (calls ? p.result() : guess));
      if (!calls) {
        taught.add(prompt, answer, end);
        continue;
      }
      const std::vector<std::string> reply{p.result()};
      taught.add({{prompt, tokenizer.encode(p.call())}, {replies.of_tools(reply, end), answer}}, end);
    }
    const double lr = 2e-3 * std::min(1.0, 2.0 * (steps + 1 - step) / steps);
    const std::vector<float> logp = supervised_step(l, taught.tokens, taught.targets, lr);
    if (step % 100 != 0 && step != steps) continue;
    double loss = 0;
    for (const float x : logp) loss -= static_cast<double>(x / static_cast<float>(logp.size()));
    std::printf("warm start  step %4u/%u  loss %.4f\n", step, steps, loss);
    std::fflush(stdout);
  }
}

}  // namespace

std::vector<std::string> tool_settings(const fs::path& folder) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  return {"data.train_files=" + (folder / "data" / "train.jsonl").string(),
          "data.val_files=" + (folder / "data" / "test.jsonl").string(),
          "data.train_batch_size=32",
          "data.max_prompt_length=160",
          "data.max_response_length=" + std::to_string(max_tool_response),
          "actor_rollout_ref.model.path=" + (folder / "model").string(),
          "actor_rollout_ref.model.enable_gradient_checkpointing=False",
          "actor_rollout_ref.actor.optim.lr=3e-4",
          "actor_rollout_ref.actor.ppo_mini_batch_size=16",
          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
          rollout + "n=8",
          rollout + "multi_turn.enable=True",
          rollout + "multi_turn.tool_config_path=" + (folder / "data" / "tools.json").string(),
          rollout + "multi_turn.max_assistant_turns=3",
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=128",
          "trainer.test_freq=5"};
}

void make_tools(any_device& device, const fs::path& folder, std::uint64_t seed, std::uint32_t steps) {
  const fs::path data_folder = folder / "data", model_folder = folder / "model";
  const random_key key = random_key{seed}.child(0x746f6f6cu);
  fs::create_directories(data_folder);
  const std::vector<product> train = make_products(key.child(1), 4096), test = make_products(key.child(2), 200);
  checkpoint::write_file_atomically(data_folder / "train.jsonl", rows_of(train, "train"));
  checkpoint::write_file_atomically(data_folder / "test.jsonl", rows_of(test, "test"));
  const json tools{{"tools", json::array({{{"class_name", "rlcore.calculator"},
                                           {"config", {{"type", "native"}}},
                                           {"tool_schema", schema()}}})}};
  checkpoint::write_file_atomically(data_folder / "tools.json", tools.dump(2) + "\n");

  const text::tokenizer tokenizer = make_tokenizer(train);
  text::save(tokenizer, model_folder, {.chat_template = chat_jinja});
  const text::chat_template chat = text::chat_template::detect(model_folder);
  nn::causal_lm<any_device> model(device, tiny_qwen2(tokenizer));
  model.initialize(key.child(3).seed);
  teach(model, tokenizer, chat, train, key.child(4), steps);
  save(model, model_folder);
}

}  // namespace embedded_task
