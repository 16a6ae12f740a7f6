// Image embeddings: inserts vision tower rows into the token embeddings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/parallel/context_pass.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// The same grid and the same bits in every float.
inline bool same_image(const image_patches& a, const image_patches& b) noexcept {
  return a.grid == b.grid && a.patches.size() == b.patches.size() &&
         (a.patches.data() == b.patches.data() ||
          std::memcmp(a.patches.data(), b.patches.data(), a.patches.size_bytes()) == 0);
}

/// Images without duplicates.
struct distinct_images {
  std::vector<image_patches> images;
  std::vector<std::int32_t> row;  ///< per image token in order: its row in `images`
};

/// Deduplicates the images of `all`, in order of first occurrence.
inline distinct_images find_distinct(std::span<const image_patches> all, const vision_config& c) {
  distinct_images found;
  std::vector<std::int32_t> begin;  // of each image's tokens
  std::int32_t end = 0;
  for (const image_patches& each : all) {
    std::size_t k = 0;
    while (k < found.images.size() && !same_image(found.images[k], each)) ++k;
    const auto tokens = static_cast<std::int32_t>(each.grid.height * each.grid.width / c.merged());
    if (k == found.images.size()) {
      found.images.push_back(each);
      begin.push_back(end);
      end += tokens;
    }
    for (std::int32_t i = 0; i < tokens; ++i) found.row.push_back(begin[k] + i);
  }
  return found;
}

/// Replaces the embeddings of image tokens with tower rows, and routes their gradient back to the tower. Tensor
/// parallel ranks all have the whole tower and compute the same rows and gradients. Context parallel ranks with an
/// image token compute the rows of all images; each adds the gradient of its own tokens.
///
/// An image in several sequences is encoded once, unless the tower is trained: its gradient is then a sum over all
/// sequences in order, which must not depend on the split into passes.
template <class Device>
class image_rows {
 public:
  /// Writes the rows of the images of `in` into x [own rows of p, hidden], the embeddings of the tokens of the pass.
  /// Uses space.vision(), until the backward if it is `differentiable` and the tower is trained.
  void show(const causal_lm<Device>& model, const pass<Device>& p, const input& in, float* x, bool recompute,
            bool differentiable = true) {
    if (!in.shows_images()) return;
    std::vector<std::int32_t> rows, seen;
    find(p, in, model.settings().image_token_id, rows, seen);
    if (rows.empty()) return;
    const bool learns = differentiable && model.trains_tower();
    distinct_images once;
    if (!learns) {
      once = find_distinct(in.images->values, *model.settings().vision);
      for (std::int32_t& number : seen) number = once.row[static_cast<std::size_t>(number)];
    }
    tower_.emplace(
        model.tower(), p.device, p.space.vision(), p.weights, p.packed,
        learns ? std::span<const image_patches>(in.images->values) : std::span<const image_patches>(once.images),
        recompute, learns);
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    count_ = static_cast<extent_t>(rows.size());
    rows_ = p.space.take_copy(rows.data(), count_), seen_ = p.space.take_copy(seen.data(), count_);
    const extent_t first = p.share ? p.tokens * p.tensor->rank() / p.tensor->size() : 0, end = first + own_rows(p);
    const auto place = [&](extent_t row) { return std::ranges::lower_bound(rows, static_cast<std::int32_t>(row)); };
    const auto skipped = place(first) - rows.begin(), n = place(end) - place(first);
    for (std::int32_t& row : rows) row -= static_cast<std::int32_t>(first);
    if (n == 0) return;
    float* const found = p.space.template take<float>(n * h);
    p.device.run(op::gather_rows{
        .y = found, .x = tower_->rows(), .x_rows = tower_->tokens(), .ids = seen_ + skipped, .count = n, .width = h});
    p.device.run(op::copy_rows{.y = x,
                               .y_row = h,
                               .ids = {p.space.take_copy(rows.data() + skipped, n), end - first},
                               .x = found,
                               .x_row = h,
                               .count = n,
                               .width = h});
  }

  /// From the gradient of x, of all rows of the pass, to the gradient of the tower's parameters in p.gradients, or of
  /// its adapters. A pass without images, or with a frozen tower, writes 0 to gradients that are uninitialised
  /// (pass::first).
  void backward(const causal_lm<Device>& model, const pass<Device>& p, const float* dx) {
    const auto [begin, end] = model.tower_range();
    if (begin == end || !(p.gradients || adapts(model.tower(), p.adapter))) return;
    if (!tower_ || !model.trains_tower()) {
      if (p.gradients && p.first) p.device.fill_zero(p.gradients + begin, (end - begin) * sizeof(float));
      return;
    }
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    const extent_t tokens = tower_->tokens();
    float *const slopes = p.space.template take<float>(tokens * h), *found = slopes;
    if (p.context) {  // other ranks have the other tokens
      p.device.fill_zero(slopes, static_cast<std::size_t>(tokens * h) * sizeof(float));
      found = p.space.template take<float>(count_ * h);
    }
    p.device.run(op::gather_rows{.y = found, .x = dx, .x_rows = p.tokens, .ids = rows_, .count = count_, .width = h});
    if (p.context)
      p.device.run(op::copy_rows{
          .y = slopes, .y_row = h, .ids = {seen_, tokens}, .x = found, .x_row = h, .count = count_, .width = h});
    tower_->move_weights(p.weights, p.packed);
    tower_->backward(p.gradients, p.first, slopes, p.adapter);
  }

 private:
  static bool adapts(const vision_tower& tower, const adapter_pass* adapter) {
    bool any = false;
    tower.for_adaptable([&](const linear& l) { any = any || (adapter && adapter->linears[l.number].rank > 0); });
    return any;
  }
  /// Rows of the pass with an image token, ascending, and the number of each among all image tokens of `in`.
  static void find(const pass<Device>& p, const input& in, std::int32_t image_token, std::vector<std::int32_t>& rows,
                   std::vector<std::int32_t>& seen) {
    std::vector<std::int32_t> numbers(in.tokens.values.size());  // of an image token
    for (std::size_t t = 0, n = 0; t < numbers.size(); ++t)
      if (in.tokens.values[t] == image_token) numbers[t] = static_cast<std::int32_t>(++n);
    std::int32_t row = 0;
    const auto visit = [&](std::size_t first, std::size_t count) {
      for (std::size_t t = first; t < first + count; ++t, ++row)
        if (numbers[t] > 0) rows.push_back(row), seen.push_back(numbers[t] - 1);
    };
    if (!p.context) return visit(0, numbers.size());
    for (const context_piece& each : p.context->pieces())
      visit(in.tokens.begin(each.sequence) + static_cast<std::size_t>(each.first), static_cast<std::size_t>(each.rows));
  }

  std::optional<vision_pass<Device>> tower_;
  extent_t count_ = 0;                                    // image tokens of the rows of dx
  const std::int32_t *rows_ = nullptr, *seen_ = nullptr;  // these rows, and theirs of the tower
};

}  // namespace nn

RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {

extern template class image_rows<cpu>;
extern template class image_rows<any_device>;

}  // namespace nn
RLCORE_END
#endif
