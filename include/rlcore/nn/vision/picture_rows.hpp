// Pictures among the tokens of a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// The tower's rows in the place of the embeddings of image tokens, and the way of their gradient back to the tower.
template <class Device>
class picture_rows {
 public:
  /// Writes the rows of the pictures of `in` into x [tokens, hidden], the embeddings of all tokens of the pass. Uses
  /// space.vision() until the backward. Throws std::logic_error while the model's weights are in shards or divided.
  void show(const causal_lm<Device>& model, const pass<Device>& p, const input& in, float* x, bool recompute) {
    if (!in.shows_pictures()) return;
    if (model.units() || p.tensor)
      throw std::logic_error("rlcore: pictures with sharded weights or tensor parallelism are not there yet");
    tower_.emplace(model.tower(), p.device, p.space.vision(), p.weights, p.packed, in.pictures->values, recompute);
    std::vector<std::int32_t> rows;
    for (std::size_t t = 0; t < in.tokens.values.size(); ++t)
      if (in.tokens.values[t] == model.settings().image_token_id) rows.push_back(static_cast<std::int32_t>(t));
    rows_ = p.space.take_copy(rows.data(), std::ssize(rows));
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    p.device.copy_rows(x, h, rows_, tower_->rows(), h, tower_->tokens(), h);
  }

  /// From the gradient of x, of all rows of the pass, to the gradient of the tower's parameters in p.gradients. A pass
  /// without pictures leaves 0 where nothing else would write (pass::first).
  void backward(const causal_lm<Device>& model, const pass<Device>& p, const float* dx) {
    const auto [begin, end] = model.tower_range();
    if (begin == end || !p.gradients) return;
    if (!tower_) {
      if (p.first) p.device.fill_zero(p.gradients + begin, (end - begin) * sizeof(float));
      return;
    }
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    float* const slopes = p.space.template take<float>(tower_->tokens() * h);
    p.device.gather_rows(slopes, dx, p.tokens, rows_, tower_->tokens(), h);
    tower_->backward(p.gradients, p.first, slopes);
  }

 private:
  std::optional<vision_pass<Device>> tower_;
  const std::int32_t* rows_ = nullptr;
};

}  // namespace nn
RLCORE_END
