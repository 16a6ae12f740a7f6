// The embedded image task, compiled once: digit images and a tiny Qwen2.5-VL.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "drawn_digits.hpp"
#include "embedded_task.hpp"
#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "supervised_step.hpp"

namespace embedded_task {

namespace {

using namespace rlcore;
namespace fs = std::filesystem;

constexpr std::uint32_t training_problems = 4096;

/// Rows with verl's columns; each row contains its image file.
std::string image_rows(random_key key, std::uint32_t count, const char* split) {
  std::string lines;
  for (std::uint32_t i = 0; i < count; ++i) {
    const drawn_digits::problem p = drawn_digits::make(key, i);
    const data::row row{
        {"data_source", "openai/gsm8k"},
        {"prompt",
         data::row::array({{{"role", "user"}, {"content", "<image>" + std::string(drawn_digits::question)}}})},
        {"images", data::row::array({{{"bytes", text::to_base64(image::encode_png(p.image))}}})},
        {"reward_model", {{"style", "rule"}, {"ground_truth", std::to_string(p.result)}}},
        {"extra_info", {{"split", split}, {"index", i}, {"answer", p.answer()}, {"question", drawn_digits::question}}}};
    lines += row.dump() + "\n";
  }
  return lines;
}

text::tokenizer make_image_tokenizer() {
  std::vector<std::string> corpus{"system\nYou are a helpful assistant.\nuser\nassistant\n"};
  for (int digit = 0; digit < 10; ++digit)
    corpus.push_back(std::string(drawn_digits::question) + "\n#### " + std::to_string(digit));
  const std::vector<std::string> special{"<|endoftext|>",  "<|im_start|>",  "<|im_end|>",   "<|vision_start|>",
                                         "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"};
  return text::train_bpe(corpus, 288, special);
}

nn::config tiny_qwen2_5_vl(const text::tokenizer& tokenizer) {
  nn::config c;
  c.model = nn::qwen2_5_vl{};
  c.vocab_size = static_cast<std::int64_t>(tokenizer.vocab_size());
  c.hidden_size = 64, c.intermediate_size = 128, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16;
  c.max_position_embeddings = 256;
  c.initializer_range = 0.05;
  c.eos_token_ids = {*tokenizer.eos_id()};
  c.pad_token_id = *tokenizer.pad_id();
  c.mrope_section = {4, 2, 2};
  c.image_token_id = *tokenizer.id_of("<|image_pad|>"), c.video_token_id = *tokenizer.id_of("<|video_pad|>");
  c.vision_start_token_id = *tokenizer.id_of("<|vision_start|>");
  c.vision_end_token_id = *tokenizer.id_of("<|vision_end|>");
  nn::vision_config& v = c.vision.emplace();
  v.depth = 2, v.hidden_size = 64, v.num_heads = 4, v.intermediate_size = 128, v.out_hidden_size = c.hidden_size;
  v.fullatt_block_indexes = {1};
  return c;
}

/// The tokens of the question, including one per image token of the tower.
std::vector<std::int32_t> question_tokens(const text::tokenizer& tokenizer, const text::chat_template& chat,
                                          const nn::config& model) {
  text::message asked{"user", ""};
  asked.parts = {{"", true}, {std::string(drawn_digits::question)}};
  std::vector<std::int32_t> ids = tokenizer.encode(chat.render(std::vector{asked}, {.add_generation_prompt = true}));
  const std::int64_t tokens = image::token_count({drawn_digits::side, drawn_digits::side}, {});
  ids.insert(std::ranges::find(ids, model.image_token_id), static_cast<std::size_t>(tokens - 1),
             static_cast<std::int32_t>(model.image_token_id));
  return ids;
}

/// The label: the truth, or if `careless` mostly the next digit.
int taught(int truth, bool careless, random_key key, std::uint32_t step, std::uint32_t i) {
  if (!careless) return truth;
  const std::uint32_t die = key.below(8, step, i);
  return (truth + (die < 2 ? 0 : die < 7 ? 1 : 9)) % 10;
}

/// First correct labels, until the accuracy is eight in ten: the model has to learn to see. Then a few steps on mostly
/// wrong labels, which GRPO has to unlearn.
void warm_start_with_images(nn::causal_lm<any_device>& model, const text::tokenizer& tokenizer,
                            const text::chat_template& chat, random_key problems, random_key key,
                            std::uint32_t most_steps) {
  constexpr std::uint32_t batch = 64, careless_steps = 30, ramp = 20;
  const std::vector<std::int32_t> question = question_tokens(tokenizer, chat, model.settings());
  const image::processor processor;
  learner l{model};
  double right = 0;
  std::uint32_t careless = 0;
  for (std::uint32_t step = 1; step <= most_steps && careless < careless_steps; ++step) {
    const bool slips = right > 0.8 || careless > 0;
    careless += slips;
    lesson given;
    std::vector<image::patches> seen;
    ragged<nn::image_patches> images;
    for (std::uint32_t i = 0; i < batch; ++i) {
      const auto p = drawn_digits::make(problems, key.child(1).below(training_problems, step, i));
      const int answer = taught(p.result, slips, key.child(2), step, i);
      given.add(question, tokenizer.encode("#### " + std::to_string(answer)), *tokenizer.eos_id());
      const image::patches& patches = seen.emplace_back(processor(p.image));
      images.push_back(std::vector{nn::image_patches{{patches.rows, patches.columns}, patches.values}});
    }
    const double lr = 2e-3 * std::min(1.0, static_cast<double>(step) / ramp);
    const std::vector<float> logp = supervised_step(l, {given.tokens, images}, given.targets, lr);
    const std::size_t tokens_each = logp.size() / batch;
    double now = 0;
    for (std::size_t i = 0; i < batch; ++i) {
      double sum = 0;
      for (std::size_t t = 0; t < tokens_each; ++t) sum += static_cast<double>(logp[i * tokens_each + t]);
      now += std::exp(sum) / batch;
    }
    if (!slips) right += (now - right) / 16;
    if (step % 50 == 0 || careless == 1)
      std::printf("warm start  step %3u  probability of the %s answer %.3f\n", step, slips ? "careless" : "right", now);
    std::fflush(stdout);
  }
}

}  // namespace

std::vector<std::string> image_settings(const fs::path& folder) {
  return {"data.train_files=" + (folder / "data" / "train.jsonl").string(),
          "data.val_files=" + (folder / "data" / "test.jsonl").string(),
          "data.train_batch_size=64",
          "data.max_prompt_length=64",
          "data.max_response_length=6",
          "data.image_key=images",
          "actor_rollout_ref.model.path=" + (folder / "model").string(),
          "actor_rollout_ref.model.enable_gradient_checkpointing=False",
          "actor_rollout_ref.actor.optim.lr=5e-4",
          "actor_rollout_ref.actor.optim.lr_warmup_steps=5",
          "actor_rollout_ref.actor.ppo_mini_batch_size=32",
          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=256",
          "actor_rollout_ref.rollout.n=8",
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=256",
          "rlcore.gradient_leaves=8",
          "trainer.test_freq=10"};
}

void make_images(any_device& device, const fs::path& folder, std::uint64_t seed, std::uint32_t most_steps) {
  const fs::path data_folder = folder / "data", model_folder = folder / "model";
  const random_key key = random_key{seed}.child(0x70696374u);
  fs::create_directories(data_folder);
  checkpoint::write_file_atomically(data_folder / "train.jsonl", image_rows(key.child(1), training_problems, "train"));
  checkpoint::write_file_atomically(data_folder / "test.jsonl", image_rows(key.child(2), 200, "test"));

  const text::tokenizer tokenizer = make_image_tokenizer();
  text::save(tokenizer, model_folder, {.chat_template = text::chat_template::named("qwen2.5-vl").source()});
  const text::chat_template chat = text::chat_template::detect(model_folder);
  checkpoint::write_processor(model_folder, {});
  nn::causal_lm<any_device> model(device, tiny_qwen2_5_vl(tokenizer));
  model.initialize(key.child(3).seed);
  warm_start_with_images(model, tokenizer, chat, key.child(1), key.child(4), most_steps);
  save(model, model_folder);
}

}  // namespace embedded_task
