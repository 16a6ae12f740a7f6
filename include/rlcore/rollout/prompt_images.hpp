// Images of prompts during generation: cached vision tower rows and rope positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/rollout/sequence.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Sequences that share an image_prompt share its rows. The tower computes them for the first sequence that reads
/// them; they stay cached until the last sequence has read them. A preempted sequence that prefills its prompt again
/// reuses the rows, or the tower recomputes them. Keeps its memory between starts.
template <rlcore::device Device>
class prompt_images {
 public:
  /// Resets, with memory for `rows` rows; keeps larger memory of an earlier start.
  void start(const nn::causal_lm<Device>& model, std::int64_t rows) {
    forget_rows();
    read_ = 0;
    width_ = static_cast<extent_t>(model.settings().hidden_size);
    wanted_ = rows;
    if (device_ != &model.device()) memory_ = {};
    device_ = &model.device();
    reserve(wanted_);
  }
  /// After start(): frees memory that only an earlier start needed.
  void shrink() {
    if (memory_.size() == static_cast<std::size_t>(wanted_ * width_)) return;
    memory_ = {};
    reserve(wanted_);
  }
  /// Between passes, after a change of the weights: drops all rows.
  void forget_rows() { kept_.clear(); }

  /// Bytes of memory for rows.
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(float); }
  /// Images that the tower has encoded since start().
  std::size_t images_read() const noexcept { return read_; }

  /// The chunks of a pass with their image rows and rope positions; valid until the next call. The tower's linear
  /// layers use weights in this format.
  std::span<const nn::decode_chunk> show(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                                         const schedule& plan, std::optional<weight_format> format) {
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < plan.chunks().size(); ++i)
      if (plan.sequence_of(i).shown) tokens += plan.chunks()[i].ids.size();
    if (tokens == 0) return plan.chunks();
    chunks_.assign(plan.chunks().begin(), plan.chunks().end());
    make_rows(model, space, plan, format);
    places_.clear();
    places_.reserve(tokens);  // spans of it stay valid
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (!plan.sequence_of(i).shown) continue;
      nn::decode_chunk& chunk = chunks_[i];
      const image_prompt& prompt = *plan.sequence_of(i).shown;
      const std::size_t first = places_.size();
      place(chunk, prompt);
      chunk.rope = std::span(places_).subspan(first);
      if (reads_rows(chunk, prompt))
        chunk.images = memory_.data() + (find(prompt)->first + prompt.rows_until(chunk.first_position)) * width_;
    }
    return chunks_;
  }
  /// After a pass: frees the rows that no sequence still has to read.
  void forget() {
    std::erase_if(kept_, [](const kept& k) { return k.prompt->readers == 0; });
  }

 private:
  /// The rows of a prompt: [first, first + rows) of the memory.
  struct kept {
    std::shared_ptr<const image_prompt> prompt;
    extent_t first = 0, rows = 0;
  };

  static bool reads_rows(const nn::decode_chunk& chunk, const image_prompt& prompt) {
    return prompt.shows(chunk.first_position, chunk.first_position + std::ssize(chunk.ids));
  }

  /// Appends the rope positions of a chunk's tokens. A token after the prompt has position index + `delta`.
  void place(const nn::decode_chunk& chunk, const image_prompt& prompt) {
    const auto all = static_cast<std::int64_t>(prompt.positions.size());
    for (std::int64_t i = chunk.first_position; i < chunk.first_position + std::ssize(chunk.ids); ++i) {
      const auto n = static_cast<std::int32_t>(i) + prompt.delta;
      places_.push_back(i < all ? prompt.positions[static_cast<std::size_t>(i)] : nn::rope_position{n, n, n});
    }
  }

  /// Computes the rows that this pass needs and that are not cached. The schedule ensures that they fit.
  void make_rows(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
                 std::optional<weight_format> format) {
    needed_.clear();
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const std::shared_ptr<image_prompt>& prompt = plan.sequence_of(i).shown;
      if (prompt && reads_rows(chunks_[i], *prompt) && std::ranges::find(needed_, prompt) == needed_.end())
        needed_.push_back(prompt);
    }
    const auto all_fit = [&] {
      return std::ranges::all_of(needed_, [&](const auto& p) { return find(*p) || keep(model, space, p, format); });
    };
    if (all_fit()) return needed_.clear();
    kept_.clear();  // rows of other passes or gaps took the space
    if (!all_fit()) throw std::logic_error("rlcore: rollout::prompt_images: no room");
    needed_.clear();
  }
  const kept* find(const image_prompt& prompt) const {
    const auto found = std::ranges::find_if(kept_, [&](const kept& k) { return k.prompt.get() == &prompt; });
    return found == kept_.end() ? nullptr : &*found;
  }
  /// Computes the rows of a prompt into the first gap that is large enough (first fit); false if no gap is.
  bool keep(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
            const std::shared_ptr<const image_prompt>& prompt, std::optional<weight_format> format) {
    const auto rows = static_cast<extent_t>(prompt->rows());
    extent_t first = 0;
    auto next = kept_.begin();  // sorted by address
    for (; next != kept_.end() && next->first - first < rows; ++next) first = next->first + next->rows;
    if (first + rows > static_cast<extent_t>(memory_.size()) / width_) return false;
    Device& device = model.device();
    const nn::vision_pass<Device> tower(model.tower(), device, space.vision(), model.weights().data(),
                                        model.packed(format.value_or(device.compute_format())), prompt->images, true,
                                        false);
    device.run(op::copy_rows{.y = memory_.data() + first * width_,
                             .y_row = width_,
                             .x = tower.rows(),
                             .x_row = width_,
                             .count = rows,
                             .width = width_});
    device.wait();
    read_ += prompt->images.size();
    kept_.insert(next, {prompt, first, rows});
    return true;
  }
  void reserve(std::int64_t rows) {  // only called by start()
    const auto wanted = static_cast<std::size_t>(rows * width_);
    if (memory_.size() >= wanted) return;
    memory_ = {};  // free the old memory before allocating
    memory_ = {*device_, wanted};
  }

  std::vector<std::shared_ptr<const image_prompt>> needed_;
  std::vector<kept> kept_;  // sorted by address
  std::vector<nn::decode_chunk> chunks_;
  std::vector<nn::rope_position> places_;
  buffer<float, Device> memory_;
  Device* device_ = nullptr;
  extent_t width_ = 0;
  std::int64_t wanted_ = 0;  // rows
  std::size_t read_ = 0;
};

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {
extern template class prompt_images<cpu>;
extern template class prompt_images<any_device>;
}  // namespace rollout
RLCORE_END
#endif
