// Creates a small model with random weights for a given tokenizer, to try a trainer:
//   build/bin/random_model --tokenizer DIR --output DIR --hidden_size 128 --layers 4
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/tools.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/run/program.hpp"

namespace {

using rlcore::config_error;

struct settings {
  std::string tokenizer, output, family;
  std::int64_t hidden_size, layers, heads, intermediate, max_position, seed, experts, experts_per_token,
      moe_intermediate;
};

settings read_settings(const rlcore::train::options& o) {
  const auto number = [&](const char* name) { return o.get<std::int64_t>(name); };
  const auto tokenizer = o.find<std::string>("tokenizer"), output = o.find<std::string>("output");
  if (!tokenizer || !output) throw config_error("needs --tokenizer and --output; see --help");
  const std::int64_t hidden_size = number("hidden_size"), heads = number("heads");
  if (heads % 2 != 0 || hidden_size % heads != 0 || hidden_size / heads % 2 != 0)
    throw config_error("--hidden_size " + std::to_string(hidden_size) + " and --heads " + std::to_string(heads) +
                       ": expected an even number of heads of an even width");
  return {.tokenizer = *tokenizer,
          .output = *output,
          .family = o.get<std::string>("family"),
          .hidden_size = hidden_size,
          .layers = number("layers"),
          .heads = heads,
          .intermediate = o.find<std::int64_t>("intermediate").value_or(3 * hidden_size),
          .max_position = number("max_position"),
          .seed = number("seed"),
          .experts = number("experts"),
          .experts_per_token = number("experts_per_token"),
          .moe_intermediate = o.find<std::int64_t>("moe_intermediate").value_or(hidden_size)};
}

/// A small tower for a language model of this width; its tokens are those of the tokenizer.
void add_tower(rlcore::nn::config& c, const std::string& folder, const rlcore::text::tokenizer& tokenizer) {
  c.vision = rlcore::nn::vision_config{.depth = 4,
                                       .hidden_size = 64,
                                       .num_heads = 4,
                                       .intermediate_size = 128,
                                       .out_hidden_size = c.hidden_size,
                                       .fullatt_block_indexes = {1, 3}};
  const std::int64_t pairs = c.head_dim / 2, time = pairs / 4, row = (pairs - time) / 2;
  c.mrope_section = {time, row, pairs - time - row};
  const rlcore::nn::vision_traits& traits = *c.model->vision;
  const auto id = [&](std::string_view token) {
    if (const auto found = tokenizer.id_of(token)) return *found;
    throw config_error(folder + ": the tokenizer has no " + std::string(token) + ", which --family " +
                       std::string(c.model->model_type) + " needs");
  };
  c.image_token_id = id(traits.image_token), c.video_token_id = id(traits.video_token);
  c.vision_start_token_id = id(traits.vision_start), c.vision_end_token_id = id(traits.vision_end);
}

void run(const settings& s) {
  namespace fs = std::filesystem;
  const fs::path from = rlcore::checkpoint::expand_home(s.tokenizer), to = rlcore::checkpoint::expand_home(s.output);
  const auto tokenizer = rlcore::text::tokenizer::load(from);
  if (!tokenizer.eos_id()) throw config_error(from.string() + ": tokenizer_config.json names no eos_token");
  if (fs::exists(to / "model.safetensors")) throw config_error((to / "model.safetensors").string() + " exists");
  rlcore::nn::config c;
  c.model = *rlcore::nn::find_family(s.family);
  c.rope_theta = c.model->published_rope_theta;
  if (c.has_experts()) {
    c.num_experts = s.experts, c.num_experts_per_tok = s.experts_per_token, c.norm_topk_prob = true;
    c.moe_intermediate_size = s.moe_intermediate;
  }
  c.vocab_size = static_cast<std::int64_t>(tokenizer.vocab_size());
  c.hidden_size = s.hidden_size, c.num_hidden_layers = s.layers;
  c.intermediate_size = s.intermediate;
  c.num_attention_heads = s.heads, c.num_key_value_heads = s.heads / 2, c.head_dim = s.hidden_size / s.heads;
  c.max_position_embeddings = s.max_position;
  c.attention_bias = c.model->qkv_bias;
  c.eos_token_ids = {*tokenizer.eos_id()};
  if (tokenizer.pad_id()) c.pad_token_id = *tokenizer.pad_id();
  if (c.model->vision) add_tower(c, from.string(), tokenizer);
  rlcore::cpu device;
  rlcore::nn::causal_lm<rlcore::cpu> model(device, c);
  model.initialize(static_cast<std::uint64_t>(s.seed));
  fs::create_directories(to);
  rlcore::text::copy_files(from, to);
  rlcore::checkpoint::write_config(to, c);
  rlcore::checkpoint::save_weights(to, model.parameters(), {model.weights().data(), model.size()});
  std::printf("%s: %s, %lld layers, hidden %lld, %.2f M parameters\n", to.c_str(), s.family.c_str(),
              static_cast<long long>(s.layers), static_cast<long long>(s.hidden_size),
              static_cast<double>(model.size()) * 1e-6);
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::run_program("random_model", [&] {
    const auto options = rlcore::train::options::parse(argc, argv, rlcore::train::random_model_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    run(read_settings(options));
  });
}
