// A small model with random weights around somebody's tokenizer, to try a trainer on:
//   build/bin/random_model --tokenizer DIR --output DIR --hidden_size 128 --layers 4
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/random_model.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/text/copy_files.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/program.hpp"

namespace {

using rlcore::config_error;

struct settings {
  std::string tokenizer, output, family;
  std::int64_t hidden_size, layers, heads, intermediate, max_position, seed, experts, experts_per_token,
      moe_intermediate;
};

settings read_settings(const rlcore::trainer::options& o) {
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
  return rlcore::trainer::run_program("random_model", [&] {
    const auto options = rlcore::trainer::options::parse(argc, argv, rlcore::trainer::random_model_registry());
    if (options.answer()) return void(std::fputs(options.answer()->c_str(), stdout));
    run(read_settings(options));
  });
}
