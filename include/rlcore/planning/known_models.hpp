// Public config.json facts of Qwen2.5, Qwen2.5-VL, Qwen3 and Llama 3.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/planning/model_shape.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// Their shapes, Qwen2.5 before Qwen3 before Llama.
const std::vector<model_shape>& known_models();

/// Finds a model by name, ignoring a hub organization prefix and suffixes such as "-Instruct".
const model_shape* find_known_model(std::string_view name);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE const std::vector<model_shape>& known_models() {
  const auto qwen25 = [](const char* name, std::int64_t vocabulary, std::int64_t h, std::int64_t i, std::int64_t layers,
                         std::int64_t heads, std::int64_t kv, bool tied) {
    return model_shape{name, vocabulary, h, i, layers, heads, kv, h / heads, tied, true, false, 0, 0};
  };
  const auto with_tower = [](const char* name, model_shape text, std::int64_t intermediate) {
    text.name = name;
    text.tower = nn::vision_config{.intermediate_size = intermediate, .out_hidden_size = text.hidden_size};
    return text;
  };
  const auto qwen3 = [](const char* name, std::int64_t h, std::int64_t i, std::int64_t layers, std::int64_t heads,
                        std::int64_t kv, bool tied, std::int64_t experts = 0) {
    return model_shape{name, 151936, h, i, layers, heads, kv, 128, tied, false, true, experts, experts == 0 ? 0 : 8};
  };
  const auto llama = [](const char* name, std::int64_t h, std::int64_t i, std::int64_t layers, std::int64_t heads,
                        bool tied = false) {
    return model_shape{name, 128256, h, i, layers, heads, 8, h / heads, tied, false, false, 0, 0};
  };
  static const std::vector<model_shape> models = {
      qwen25("Qwen2.5-0.5B", 151936, 896, 4864, 24, 14, 2, true),
      qwen25("Qwen2.5-1.5B", 151936, 1536, 8960, 28, 12, 2, true),
      qwen25("Qwen2.5-3B", 151936, 2048, 11008, 36, 16, 2, true),
      qwen25("Qwen2.5-7B", 152064, 3584, 18944, 28, 28, 4, false),
      qwen25("Qwen2.5-14B", 152064, 5120, 13824, 48, 40, 8, false),
      qwen25("Qwen2.5-32B", 152064, 5120, 27648, 64, 40, 8, false),
      qwen25("Qwen2.5-72B", 152064, 8192, 29568, 80, 64, 8, false),
      with_tower("Qwen2.5-VL-3B", qwen25("", 151936, 2048, 11008, 36, 16, 2, true), 3420),
      with_tower("Qwen2.5-VL-7B", qwen25("", 152064, 3584, 18944, 28, 28, 4, false), 3420),
      with_tower("Qwen2.5-VL-32B", qwen25("", 152064, 5120, 27648, 64, 40, 8, false), 3456),
      qwen3("Qwen3-0.6B", 1024, 3072, 28, 16, 8, true),
      qwen3("Qwen3-1.7B", 2048, 6144, 28, 16, 8, true),
      qwen3("Qwen3-4B", 2560, 9728, 36, 32, 8, true),
      qwen3("Qwen3-8B", 4096, 12288, 36, 32, 8, false),
      qwen3("Qwen3-14B", 5120, 17408, 40, 40, 8, false),
      qwen3("Qwen3-32B", 5120, 25600, 64, 64, 8, false),
      qwen3("Qwen3-30B-A3B", 2048, 768, 48, 32, 4, false, 128),
      qwen3("Qwen3-235B-A22B", 4096, 1536, 94, 64, 4, false, 128),
      llama("Llama-3.2-1B", 2048, 8192, 16, 32, true),
      llama("Llama-3.2-3B", 3072, 8192, 28, 24, true),
      llama("Llama-3.1-8B", 4096, 14336, 32, 32),
      llama("Llama-3.1-70B", 8192, 28672, 80, 64),
      llama("Llama-3.3-70B", 8192, 28672, 80, 64),
      llama("Llama-3.1-405B", 16384, 53248, 126, 128),
  };
  return models;
}

RLCORE_INLINE const model_shape* find_known_model(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != name.npos) name.remove_prefix(slash + 1);
  for (const std::string_view ending : {"-Instruct", "-Base", "-Instruct-2507", "-Thinking-2507"})
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      break;
    }
  for (const model_shape& m : known_models())
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace trainer::planning
RLCORE_END
#endif
