// Gradients of per-head q/k norms, summed per head first.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// The sums over rows of every head of this rank (see backward_of_heads), all layers.
template <class Device>
class head_sums {
 public:
  /// Empty unless the model has per-head norms and either is tensor parallel or must be bit-identical to a tensor
  /// parallel run.
  template <class Model>
  explicit head_sums(const Model& model) : device_(&model.device()) {
    if (model.part().tensor_size == 1 && model.settings().tp_reduce_chunks == 0) return;
    for (const block& b : model.blocks())
      if (b.self_attention.norms) {
        layers_.push_back({b.self_attention.q_norm, b.self_attention.head_sums});
        layers_.push_back({b.self_attention.k_norm,
                           b.self_attention.head_sums + static_cast<std::size_t>(b.self_attention.q_width())});
        size_ = b.self_attention.head_sums +
                static_cast<std::size_t>(b.self_attention.q_width() + b.self_attention.kv_width());
      }
    if (size_ > 0) sums_ = buffer<float, Device>(*device_, size_);
  }

  bool empty() const noexcept { return size_ == 0; }
  float* data() { return size_ > 0 ? sums_.data() : nullptr; }
  void zero() const {
    if (size_ > 0) device_->fill_zero(sums_.data(), size_ * sizeof(float));
  }

  /// Writes the sums over the heads, in their order, of all ranks to the weights' places in `flat`.
  void complete(tensor_group* group, float* flat) {
    if (size_ == 0) return;
    const std::size_t ranks = group ? static_cast<std::size_t>(group->size()) : 1;
    local_.resize(size_), gathered_.resize(ranks * size_), counts_.assign(ranks, size_);
    device_->download(local_.data(), sums_.data(), size_ * sizeof(float));
    if (group)
      group->gather(std::span<const float>(local_), std::span<const std::size_t>(counts_), std::span<float>(gathered_));
    else
      gathered_.swap(local_);
    for (const layer& l : layers_) {
      const auto width = static_cast<std::size_t>(l.of.width), heads = static_cast<std::size_t>(l.of.groups);
      total_.assign(width, 0.0f);
      for (std::size_t h = 0; h < ranks * heads; ++h) {
        const float* head = gathered_.data() + h / heads * size_ + l.begin + h % heads * width;
        for (std::size_t j = 0; j < width; ++j) total_[j] += head[j];
      }
      device_->upload(flat + l.of.weight, total_.data(), width * sizeof(float));
    }
  }

 private:
  struct layer {
    norm of;
    std::size_t begin = 0;
  };

  Device* device_;
  std::vector<layer> layers_;
  std::size_t size_ = 0;
  mutable buffer<float, Device> sums_;
  std::vector<float> local_, gathered_, total_;
  std::vector<std::size_t> counts_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class head_sums<cpu>;
extern template class head_sums<any_device>;
}  // namespace nn
RLCORE_END
#endif
