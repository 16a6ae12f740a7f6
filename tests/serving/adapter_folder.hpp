// Random LoRA adapters of a model's folder, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/core/random.hpp"

/// Writes PEFT's folder: rank 4 for q_proj, v_proj and down_proj of all layers, so large that texts become others.
inline void save_adapter(const std::filesystem::path& to, const std::filesystem::path& model, std::uint64_t seed,
                         std::int64_t rank = 4) {
  const rlcore::checkpoint::tensor_folder base(model);
  const std::vector<std::string> modules{"q_proj", "v_proj", "down_proj"};
  std::vector<rlcore::nn::parameter> parameters;
  std::size_t size = 0;
  for (const std::string& name : base.names())
    for (const std::string& module : modules) {
      if (!name.ends_with(module + ".weight")) continue;
      const std::vector<std::int64_t> shape = base.info(name).shape;
      const std::string path = name.substr(0, name.size() - 7);
      for (const bool a : {true, false}) {
        const std::vector<std::int64_t> half = a ? std::vector{rank, shape[1]} : std::vector{shape[0], rank};
        parameters.push_back({path + (a ? ".lora_A.weight" : ".lora_B.weight"), half, size,
                              static_cast<std::size_t>(half[0] * half[1])});
        size += parameters.back().size;
      }
    }
  std::vector<float> values(size);
  const rlcore::random_key key{seed};
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(0.3 * key.normal(static_cast<std::uint32_t>(i), 0, 0));
  rlcore::nn::lora_settings lora;
  lora.rank = rank, lora.alpha = 6, lora.modules = modules;
  rlcore::checkpoint::write_adapter(to, {lora, lora.scale(), ""}, parameters, values);
}
