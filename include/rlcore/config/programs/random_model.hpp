// The command line of random_model.
#pragma once

#include <string>

#include "rlcore/config/registry.hpp"
#include "rlcore/nn/family/families.hpp"

RLCORE_BEGIN
namespace trainer {

/// The tokenizer, the folder to write, the sizes of the model and the seed of its weights.
registry random_model_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE registry random_model_registry() {
  using namespace keys;
  static const std::string families = nn::family_names("|", "|");
  static const key table[] = {
      {"tokenizer", text, "null", honoured, "folder with tokenizer.json and tokenizer_config.json", not_empty},
      {"output", text, "null", honoured, "new folder", not_empty},
      {"family", text, "qwen2", honoured, "kind of model", words(families)},
      {"hidden_size", integer, "128", honoured, "a multiple of heads", at_least(1)},
      {"layers", integer, "4", honoured, "how many", at_least(1)},
      {"heads", integer, "4", honoured, "attention heads; half as many for keys and values", at_least(1)},
      {"intermediate", integer, "null", honoured, "width of the MLP; null: 3 times hidden_size", at_least(1)},
      {"experts", integer, "8", honoured, "of a layer of a family with experts", at_least(1)},
      {"experts_per_token", integer, "2", honoured, "experts that a token takes", at_least(1)},
      {"moe_intermediate", integer, "null", honoured, "width of an expert; null: hidden_size", at_least(1)},
      {"max_position", integer, "4096", honoured, "longest sequence", at_least(1)},
      {"seed", integer, "1", honoured, "of the random weights", at_least(1)},
  };
  registry r;
  r.program = "random_model";
  r.summary = "a small model with random weights around somebody's tokenizer, to try a trainer on";
  r.details =
      "Writes a Hugging Face folder: the tokenizer's files, the config of a model of that family and random weights.\n"
      "  random_model --tokenizer DIR --output DIR --hidden_size 128 --layers 4\n";
  return r.add_as_flags(table);
}

}  // namespace trainer
RLCORE_END
#endif
