// The score of a reward model is the number of its head at the last token.
#include "rlcore/train/policy/reward/model_rewards.hpp"
#include "rlcore/checkpoint/write_config.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::model_reward;
using train::trajectory;
namespace fs = std::filesystem;

class model_rewards : public testing::Test {
 protected:
  model_rewards() : files(tiny_model::make(place.path())), tokenizer(text::tokenizer::load(files.model)) {
    rm = place / "rm";
    fs::copy(files.model, rm, fs::copy_options::recursive);
    save_score_model(rm, tokenizer);
    for (std::size_t i = 0; i < 6; ++i) {
      data::prompt p;
      const auto row = tiny_model::problem(i, "train");
      p.messages = text::messages_from_json(row["prompt"]);
      p.ids = tokenizer.encode(chat().render(p.messages, {.add_generation_prompt = true}));
      prompts.prompts.push_back(p);
      trajectory t;
      t.row = static_cast<std::uint32_t>(i), t.tokens = p.ids,
      t.prompt_length = static_cast<std::int32_t>(p.ids.size());
      for (const std::int32_t id : tokenizer.encode(answer(i))) t.tokens.push_back(id);
      if (i % 2 == 0) t.tokens.push_back(*tokenizer.eos_id());
      batch.push_back(t);
    }
  }
  static std::string answer(std::size_t i) { return "#### " + std::to_string(1 + i % 4) + std::string(i, '!'); }
  text::chat_template chat() const { return text::chat_template::detect(files.model); }
  static void save_score_model(const fs::path& folder, const text::tokenizer& t) {
    nn::config c = tiny_model::config_for(t);
    c.output = nn::model_output::score;
    cpu one(1);
    nn::causal_lm<cpu> model(one, c);
    model.initialize(5);
    fs::remove(folder / "model.safetensors");
    checkpoint::write_config(folder, c);
    checkpoint::save_weights(folder, model.parameters(),
                             std::vector<float>(model.weights().data(), model.weights().data() + model.size()));
  }
  /// nn::values of one sequence alone.
  float value_of(const std::vector<std::int32_t>& tokens) {
    nn::causal_lm<cpu> model(device, checkpoint::read_config(rm));
    checkpoint::load_weights(rm, model.parameters(), std::span(model.weights().data(), model.size()));
    nn::workspace<cpu> space(device);
    ragged<std::int32_t> one;
    one.push_back(tokens);
    const std::vector<std::int32_t> row{static_cast<std::int32_t>(tokens.size()) - 1};
    float value = 0;
    nn::values(model, space, one, row, std::span(&value, 1));
    return value;
  }

  const scratch::folder place;
  tiny_model::files files;
  const text::tokenizer tokenizer;
  fs::path rm;
  cpu device{1};
  parallel::any_communicator_of<parallel::alone> one_rank{parallel::alone{}};
  parallel::world alone{one_rank, {}};
  data::prompt_dataset prompts;
  std::vector<trajectory> batch;
};

TEST_F(model_rewards, is_the_value_at_the_last_token) {
  for (const model_reward& how :
       {model_reward{.path = rm.string()}, model_reward{.path = rm.string(), .own_tokens = false},
        model_reward{.path = rm.string(), .max_rows = 2}, model_reward{.path = rm.string(), .max_tokens = 70}}) {
    train::model_rewards<cpu> rewards(device, how, files.model, 1 << 20, alone);
    EXPECT_FALSE(rewards.renders());  // same tokenizer, same template
    EXPECT_FALSE(rewards.reads_truth());
    rewards.score(batch, prompts, tokenizer);
    for (const trajectory& t : batch) {
      EXPECT_EQ(t.reward, value_of(t.tokens));
      EXPECT_NE(t.reward, 0);
    }
  }
}

/// The policy's ranks divide tensors, stages or weights; some of them have no response.
TEST_F(model_rewards, in_shards_have_the_bits_of_one_rank) {
  std::vector<float> expected;
  for (const trajectory& t : batch) expected.push_back(value_of(t.tokens));
  const std::vector<parallel::parallel_settings> layouts{{.zero = 3},
                                                         {.zero = 3, .shard_ranks = 2},
                                                         {.tensor = 2, .zero = 1},
                                                         {.pipeline = {.stages = 2}, .zero = 1},
                                                         {.expert = 2, .zero = 1},
                                                         {.zero = 1}};
  for (std::size_t l = 0; l < layouts.size(); ++l)
    for (const std::size_t rows : {6u, 3u}) {
      parallel::launch_settings threads;
      threads.thread_ranks = 4;
      threads.deadline = std::chrono::seconds(60);
      parallel::launch(threads, [&](parallel::any_communicator& everybody) {
        parallel::world world(everybody, layouts[l]);
        cpu own(1);
        train::model_rewards<cpu> rewards(own, {.path = rm.string(), .max_rows = 1}, files.model, 1 << 20, world);
        EXPECT_EQ(rewards.model().units() != nullptr, l < 5) << l;
        EXPECT_EQ(rewards.model().packed_alone(), l == 5) << l;
        std::vector<trajectory> mine;
        std::vector<float> theirs;
        for (std::size_t i = 0; i < rows; ++i)
          if (i % 4 == static_cast<std::size_t>(everybody.rank()))
            mine.push_back(batch[i]), theirs.push_back(expected[i]);
        rewards.score(mine, prompts, tokenizer);
        for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i].reward, theirs[i]) << l;
      });
    }
}

TEST_F(model_rewards, are_centred_and_scaled_by_the_model_s_own_moments) {
  const auto open = [&] {
    return train::model_rewards<cpu>(device, {.path = rm.string(), .normalize = true}, files.model, 1 << 20, alone);
  };
  auto plain = open();  // its config.json has none
  plain.score(batch, prompts, tokenizer);
  for (const trajectory& t : batch) EXPECT_EQ(t.reward, value_of(t.tokens));
  auto config = nlohmann::json::parse(scratch::read(rm / "config.json"));
  config["mean"] = -1.5;
  scratch::write(rm / "config.json", config.dump());
  EXPECT_THROW(open(), format_error);
  config["std"] = 0.25;
  scratch::write(rm / "config.json", config.dump());
  auto rewards = open();
  rewards.score(batch, prompts, tokenizer);
  for (const trajectory& t : batch)
    EXPECT_EQ(t.reward, static_cast<float>((static_cast<double>(value_of(t.tokens)) + 1.5) * 4));
}

TEST_F(model_rewards, another_tokenizer_reads_the_conversation_anew) {
  const std::vector<std::string> corpus{"system\nuser\nassistant\n How many apples has Ann?"},
      special{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  text::save(text::train_bpe(corpus, 280, special), rm);
  const text::tokenizer own = text::tokenizer::load(rm);
  save_score_model(rm, own);
  train::model_rewards<cpu> rewards(device, {.path = rm.string(), .own_tokens = false}, files.model, 1 << 20, alone);
  EXPECT_TRUE(rewards.renders());
  rewards.score(batch, prompts, tokenizer);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto messages = prompts[i].messages;
    messages.push_back({"assistant", answer(i)});
    std::string text = chat().render(messages);
    ASSERT_TRUE(text.ends_with("<|im_end|>\n"));
    text.pop_back();
    EXPECT_EQ(batch[i].reward, value_of(own.encode(text)));
  }
  train::metrics m;
  rewards.report(m);
  EXPECT_EQ(m.get("reward/truncated"), 0);

  train::model_rewards<cpu> shorter(device, {.path = rm.string(), .own_tokens = false, .max_length = 40}, files.model,
                                    1 << 20, alone);
  shorter.score(batch, prompts, tokenizer);
  shorter.report(m);
  EXPECT_EQ(m.get("reward/truncated"), 1);
}

TEST_F(model_rewards, a_language_model_is_refused) {
  const auto open = [&](const fs::path& path) {
    train::model_rewards<cpu> rewards(device, {.path = path.string()}, files.model, 1 << 20, alone);
  };
  EXPECT_THROW(open(files.model), format_error);
  EXPECT_THROW(open(place / "nosuch"), error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
