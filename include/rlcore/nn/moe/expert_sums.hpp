// Expert gradients per source rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// An expert's gradient is a sum over rows in order, and ranks have different leaves of the gradient tree. The rank
/// that computes an expert therefore keeps a separate sum per source rank. This class stores the sums for other ranks
/// s: the parameters of this rank's experts, by layer and expert.
template <class Device>
class expert_sums {
 public:
  /// Empty unless the group has several ranks; it must outlive this.
  template <class Model>
  expert_sums(const Model& model, expert_group* group) : device_(&model.device()), group_(group) {
    for (const block& b : model.blocks())
      if (b.experts) layers_.push_back(&b.experts);
    if (!group_ || group_->size() == 1 || layers_.empty()) {
      group_ = nullptr;
      return;
    }
    const moe& first = *layers_.front();
    expert_size_ = static_cast<std::size_t>(3 * first.hidden() * first.width());
    local_experts_ = group_->experts_of(group_->rank(), first.experts());
    whole_ = std::ssize(first.each) == first.experts();
    for (int s = 0; s < group_->size(); ++s) {
      buffers_.emplace_back(*device_, s == group_->rank() ? 0 : layers_.size() * layer_size(local_experts_));
      data_.push_back(s == group_->rank() ? nullptr : buffers_.back().data());
    }
    zero();
  }

  explicit operator bool() const noexcept { return group_ != nullptr; }
  /// The sums for rank s; nullptr for this rank, whose sums are in its own gradients.
  float* const* data() const noexcept { return group_ ? data_.data() : nullptr; }
  /// The number of floats per layer.
  std::size_t layer_size() const noexcept { return layer_size(local_experts_); }
  void zero() {
    for (auto& b : buffers_) b.fill_zero();
  }

  /// Sends every rank the gradients of all experts for its own rows, into its `flat`, which has memory for all experts.
  /// A collective call.
  void collect(float* flat) {
    if (!group_ || !whole_) return;
    const auto ranks = static_cast<std::size_t>(group_->size()), self = static_cast<std::size_t>(group_->rank());
    std::vector<std::size_t> in_counts(ranks, layer_size(local_experts_)), out_counts(ranks);
    std::size_t in_all = 0, out_all = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      out_counts[r] = layer_size(group_->experts_of(static_cast<int>(r), layers_.front()->experts()));
      if (r == self) in_counts[r] = out_counts[r] = 0;
      in_all += in_counts[r], out_all += out_counts[r];
    }
    std::vector<float>&in = group_->sent, &out = group_->received;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      in.resize(in_all), out.resize(out_all);
      std::size_t at = 0;
      for (std::size_t r = 0; r < ranks; at += in_counts[r++])
        device_->download(in.data() + at, data_[r] + (data_[r] ? l * layer_size(local_experts_) : 0),
                          in_counts[r] * sizeof(float));
      group_->all_to_all(std::span<const float>(in), in_counts, std::span<float>(out), out_counts);
      at = 0;
      for (std::size_t r = 0; r < ranks; at += out_counts[r++])
        if (out_counts[r] > 0) {  // experts of one rank are adjacent
          const slice theirs = group_->experts_of(static_cast<int>(r), layers_[l]->experts());
          device_->upload(flat + layers_[l]->each[static_cast<std::size_t>(theirs.begin)].gate_up.weight,
                          out.data() + at, out_counts[r] * sizeof(float));
        }
    }
  }

 private:
  std::size_t layer_size(const slice& experts) const noexcept {
    return static_cast<std::size_t>(experts.size()) * expert_size_;
  }

  Device* device_;
  expert_group* group_;
  std::vector<const moe*> layers_;
  std::size_t expert_size_ = 0;
  slice local_experts_;
  bool whole_ = true;
  std::vector<buffer<float, Device>> buffers_;
  std::vector<float*> data_;
};

}  // namespace nn
RLCORE_END
