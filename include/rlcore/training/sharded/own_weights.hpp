// A rank's shard of a model's weights, read from a folder of the whole model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/training/sharded/sharded_state.hpp"

RLCORE_BEGIN
namespace trainer {

/// Like load_model() for a rank's shard: the `size` values that `runs` fill. Peak memory is the shard. Throws
/// file_error or format_error naming the tensor.
template <class Device>
std::vector<float> read_own_weights(const nn::causal_lm<Device>& model, const std::filesystem::path& folder,
                                    std::uint64_t seed, std::span<const owned_run> runs, std::size_t size) {
  const auto is_score = [](const nn::parameter& p) { return nn::causal_lm<Device>::is_score(p); };
  const bool new_head = model.settings().output == nn::model_output::score &&
                        checkpoint::read_config(folder).output == nn::model_output::logits;
  std::vector<nn::parameter> stored(model.parameters().begin(), model.parameters().end());
  if (new_head) std::erase_if(stored, is_score);
  const checkpoint::tensor_folder from(folder);
  checkpoint::check_tensors(from, stored,
                            [&](const std::string& name) { return new_head && name == checkpoint::output_name; });
  const bool twice = model.settings().tied() && from.contains(checkpoint::output_name);
  std::vector<float> shard(size);
  for (const owned_run& r : runs) {
    const std::span<float> values = std::span(shard).subspan(r.moments, r.piece.size());
    const auto p = std::find_if(model.parameters().begin(), model.parameters().end(),
                                [&](const nn::parameter& each) { return each.name == r.piece.tensor; });
    if (new_head && is_score(*p)) {
      const auto k = static_cast<std::size_t>(p - model.parameters().begin());
      const std::vector<float> initial = model.initial_values(seed, k);
      std::copy_n(initial.begin() + static_cast<std::ptrdiff_t>(r.piece.first), values.size(), values.begin());
      continue;
    }
    from.read_f32(r.piece, values);
    if (twice && r.piece.tensor == checkpoint::embedding_name) checkpoint::check_tied_output(from, r.piece);
  }
  return shard;
}

}  // namespace trainer
RLCORE_END
