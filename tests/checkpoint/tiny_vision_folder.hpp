// A tiny Qwen2.5-VL of the sizes of tests/reference/checkpoint_vision.py and vl_parity.py, and its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "nn/parity_example.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

namespace tiny_vision {

using namespace rlcore;
using nlohmann::json;
namespace fs = std::filesystem;

inline const json& golden() {
  static const json read = parity::read("checkpoint_vision.json");
  return read;
}

/// The tiny model of vl_parity.py, whose sizes checkpoint_vision.py has too, with the weights of that program.
struct tiny_model {
  cpu device{1};
  nn::causal_lm<cpu> model;

  explicit tiny_model(bool tied) : model(device, settings(tied)) {
    std::map<std::string, const nn::parameter*> sorted;
    for (const auto& p : model.parameters()) sorted[p.name] = &p;
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted) {
      const bool norm = name.find("norm") != std::string::npos || name.find("ln_q") != std::string::npos;
      for (std::uint32_t i = 0; i < p->size; ++i) {
        const float v = parity::value(k, i);
        model.weights().data()[p->offset + i] =
            norm ? 1 + v / 2 : v * (name.find("patch") != std::string::npos ? 0.1f : 0.5f);
      }
      ++k;
    }
  }
  static nn::config settings(bool tied) {
    const scratch::folder place;
    scratch::write(place / "config.json", golden()["layouts"][tied ? "5.23.0 tied" : "4.57.6 untied"].dump());
    return checkpoint::read_config(place.path());
  }
  std::span<const float> weights() const { return {model.weights().data(), model.size()}; }
  void save(const fs::path& folder, bool in_memory = false, std::uint64_t shard = 0) const {
    fs::create_directories(folder);
    checkpoint::write_config(folder, model.settings());
    std::vector<nn::parameter> named(model.parameters().begin(), model.parameters().end());
    if (in_memory)
      for (nn::parameter& p : named) p.name = nn::name_in_memory(p.name);
    checkpoint::save_weights(folder, named, weights(), checkpoint::stored_type::f32, shard);
  }
};

}  // namespace tiny_vision
