// A small model with random weights around somebody's tokenizer, to try a trainer on:
//   build/bin/random_model --tokenizer DIR --output DIR --hidden_size 128 --layers 4
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/text/copy_files.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/program.hpp"

namespace {

using rlcore::config_error;

constexpr const char* usage = R"(usage: random_model --tokenizer DIR --output DIR [options]

Writes a Hugging Face folder: the tokenizer's files, a Qwen2, Qwen3 or Qwen3-MoE config and random weights.

  --tokenizer DIR       folder with tokenizer.json and tokenizer_config.json
  --output DIR          new folder
  --family F            qwen2, qwen3 or qwen3_moe, default qwen2
  --hidden_size N       default 128; a multiple of --heads
  --layers N            default 4
  --heads N             attention heads, default 4, half as many for keys and values
  --intermediate N      width of the MLP, default 3 times --hidden_size
  --experts N           of a layer of qwen3_moe, default 8
  --experts_per_token N default 2
  --moe_intermediate N  width of an expert, default --hidden_size
  --max_position N      longest sequence, default 4096
  --seed N              default 1
)";

struct settings {
  std::string tokenizer, output, family = "qwen2";
  std::int64_t hidden_size = 128, layers = 4, heads = 4, intermediate = 0, max_position = 4096, seed = 1, experts = 8,
               experts_per_token = 2, moe_intermediate = 0;
};

settings parse(std::span<char*> arguments) {
  settings s;
  const std::vector<std::string> names{"--tokenizer",
                                       "--output",
                                       "--family",
                                       "--hidden_size",
                                       "--layers",
                                       "--heads",
                                       "--intermediate",
                                       "--max_position",
                                       "--seed",
                                       "--experts",
                                       "--experts_per_token",
                                       "--moe_intermediate"};
  std::int64_t* const numbers[] = {&s.hidden_size,     &s.layers, &s.heads,   &s.intermediate,
                                   &s.max_position,    &s.seed,   &s.experts, &s.experts_per_token,
                                   &s.moe_intermediate};
  std::string* const texts[] = {&s.tokenizer, &s.output, &s.family};
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string name = arguments[i];
    std::size_t n = 0;
    while (n < names.size() && names[n] != name) ++n;
    if (n == names.size())
      throw config_error("unknown option '" + name + "'" + rlcore::did_you_mean(name, names) + "; see --help");
    if (i + 1 == arguments.size()) throw config_error("option " + name + " needs a value");
    const std::string value = arguments[i + 1];
    if (n < 3) {
      *texts[n] = value;
      continue;
    }
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), *numbers[n - 3]);
    if (code != std::errc() || end != value.data() + value.size() || *numbers[n - 3] < 1)
      throw config_error(name + " " + value + ": expected an integer >= 1");
  }
  if (s.tokenizer.empty() || s.output.empty()) throw config_error("needs --tokenizer and --output; see --help");
  if (s.family != "qwen2" && s.family != "qwen3" && s.family != "qwen3_moe")
    throw config_error("--family " + s.family + ": expected qwen2, qwen3 or qwen3_moe");
  if (s.heads % 2 != 0 || s.hidden_size % s.heads != 0 || s.hidden_size / s.heads % 2 != 0)
    throw config_error("--hidden_size " + std::to_string(s.hidden_size) + " and --heads " + std::to_string(s.heads) +
                       ": expected an even number of heads of an even width");
  return s;
}

void run(const settings& s) {
  namespace fs = std::filesystem;
  const fs::path from = rlcore::checkpoint::expand_home(s.tokenizer), to = rlcore::checkpoint::expand_home(s.output);
  const auto tokenizer = rlcore::text::tokenizer::load(from);
  if (!tokenizer.eos_id()) throw config_error(from.string() + ": tokenizer_config.json names no eos_token");
  if (fs::exists(to / "model.safetensors")) throw config_error((to / "model.safetensors").string() + " exists");
  rlcore::nn::config c;
  using rlcore::nn::family;
  c.model = s.family == "qwen2" ? family::qwen2 : s.family == "qwen3" ? family::qwen3 : family::qwen3_moe;
  if (c.model == family::qwen3_moe) {
    c.num_experts = s.experts, c.num_experts_per_tok = s.experts_per_token, c.norm_topk_prob = true;
    c.moe_intermediate_size = s.moe_intermediate > 0 ? s.moe_intermediate : s.hidden_size;
  }
  c.vocab_size = static_cast<std::int64_t>(tokenizer.vocab_size());
  c.hidden_size = s.hidden_size, c.num_hidden_layers = s.layers;
  c.intermediate_size = s.intermediate > 0 ? s.intermediate : 3 * s.hidden_size;
  c.num_attention_heads = s.heads, c.num_key_value_heads = s.heads / 2, c.head_dim = s.hidden_size / s.heads;
  c.max_position_embeddings = s.max_position;
  c.attention_bias = c.model == family::qwen2;
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
    const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
    if (!arguments.empty() && (std::string(arguments[0]) == "--help" || std::string(arguments[0]) == "-h")) {
      std::fputs(usage, stdout);
      return;
    }
    run(parse(arguments));
  });
}
