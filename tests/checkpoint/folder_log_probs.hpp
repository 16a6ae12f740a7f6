// The log-probs that the model in a folder gives to a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/log_probs.hpp"

/// The log-probs of tokens 1 .. of `ids`.
inline std::vector<float> log_probs_of(const std::filesystem::path& folder, const std::vector<std::int32_t>& ids) {
  using namespace rlcore;
  cpu device(1);
  nn::causal_lm<cpu> model(device, checkpoint::read_config(folder));
  checkpoint::load_weights(folder, model.parameters(), {model.weights().data(), model.size()});
  nn::workspace<cpu> space(device);
  ragged<std::int32_t> sequence;
  sequence.push_back(ids);
  nn::targets targets;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    targets.row.push_back(static_cast<std::int32_t>(t));
    targets.token.push_back(ids[t + 1]);
  }
  std::vector<float> logp(ids.size() - 1);
  nn::log_probs(model, space, sequence, targets, 1, logp, {});
  return logp;
}
