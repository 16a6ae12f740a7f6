// Pictures of prompts in generation: the rows of the vision tower, and where tokens stand among them.
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
#include "rlcore/rollout/picture_prompt.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Sequences that share a picture_prompt share its rows. The tower makes them when the first of these reads them, and
/// they stay until the last one has. A sequence that gave its pages back and reads its prompt once more finds them, or
/// the tower makes them again. Keeps its memory from start to start.
template <rlcore::device Device>
class prompt_pictures {
 public:
  /// Begins anew, with memory for `rows` rows; memory of an earlier start that had more stays.
  void start(const nn::causal_lm<Device>& model, std::int64_t rows) {
    forget_rows();
    read_ = 0;
    width_ = static_cast<extent_t>(model.settings().hidden_size);
    wanted_ = rows;
    if (device_ != &model.device()) memory_ = {};
    device_ = &model.device();
    reserve(wanted_);
  }
  /// After start(): gives back what only an earlier one needed.
  void shrink() {
    if (memory_.size() == static_cast<std::size_t>(wanted_ * width_)) return;
    memory_ = {};
    reserve(wanted_);
  }
  /// Between passes: the rows are those of other weights.
  void forget_rows() { kept_.clear(); }

  /// Bytes of rows held.
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(float); }
  /// Pictures that the tower has read since start().
  std::size_t pictures_read() const noexcept { return read_; }

  /// The chunks of a pass with the rows of their pictures and the positions of their tokens; valid until the next call.
  /// Linear layers of the tower read weights of this format.
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
      const picture_prompt& prompt = *plan.sequence_of(i).shown;
      const std::size_t first = places_.size();
      place(chunk, prompt);
      chunk.rope = std::span(places_).subspan(first);
      if (reads_rows(chunk, prompt))
        chunk.pictures = memory_.data() + (find(prompt)->first + prompt.rows_until(chunk.first_position)) * width_;
    }
    return chunks_;
  }
  /// After a pass: forgets the rows that nobody has still to read.
  void forget() {
    std::erase_if(kept_, [](const kept& k) { return k.prompt->readers == 0; });
  }

 private:
  /// The rows of a prompt: [first, first + rows) of the memory.
  struct kept {
    std::shared_ptr<const picture_prompt> prompt;
    extent_t first = 0, rows = 0;
  };

  static bool reads_rows(const nn::decode_chunk& chunk, const picture_prompt& prompt) {
    return prompt.shows(chunk.first_position, chunk.first_position + std::ssize(chunk.ids));
  }

  /// Appends the positions of a chunk's tokens. A token behind the prompt stands `delta` from its number.
  void place(const nn::decode_chunk& chunk, const picture_prompt& prompt) {
    const auto all = static_cast<std::int64_t>(prompt.positions.size());
    for (std::int64_t i = chunk.first_position; i < chunk.first_position + std::ssize(chunk.ids); ++i) {
      const auto n = static_cast<std::int32_t>(i) + prompt.delta;
      places_.push_back(i < all ? prompt.positions[static_cast<std::size_t>(i)] : nn::rope_position{n, n, n});
    }
  }

  /// Makes the rows that chunks of this pass read and that are not kept. The schedule has seen to it that they fit.
  void make_rows(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
                 std::optional<weight_format> format) {
    needed_.clear();
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const std::shared_ptr<picture_prompt>& prompt = plan.sequence_of(i).shown;
      if (prompt && reads_rows(chunks_[i], *prompt) && std::ranges::find(needed_, prompt) == needed_.end())
        needed_.push_back(prompt);
    }
    const auto all_fit = [&] {
      return std::ranges::all_of(needed_, [&](const auto& p) { return find(*p) || keep(model, space, p, format); });
    };
    if (all_fit()) return needed_.clear();
    kept_.clear();  // those of other passes, or gaps, were in the way
    if (!all_fit()) throw std::logic_error("rlcore: rollout::prompt_pictures: no room");
    needed_.clear();
  }
  const kept* find(const picture_prompt& prompt) const {
    const auto found = std::ranges::find_if(kept_, [&](const kept& k) { return k.prompt.get() == &prompt; });
    return found == kept_.end() ? nullptr : &*found;
  }
  /// Makes the rows of a prompt in the first gap that is large enough; false if there is none.
  bool keep(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
            const std::shared_ptr<const picture_prompt>& prompt, std::optional<weight_format> format) {
    const auto rows = static_cast<extent_t>(prompt->rows());
    extent_t first = 0;
    auto next = kept_.begin();  // they lie in their order
    for (; next != kept_.end() && next->first - first < rows; ++next) first = next->first + next->rows;
    if (first + rows > static_cast<extent_t>(memory_.size()) / width_) return false;
    Device& device = model.device();
    const nn::vision_pass<Device> tower(model.tower(), device, space.vision(), model.weights().data(),
                                        model.packed(format.value_or(device.compute_format())), prompt->pictures, true,
                                        false);
    device.copy_rows(memory_.data() + first * width_, width_, nullptr, tower.rows(), width_, rows, width_);
    device.wait();
    read_ += prompt->pictures.size();
    kept_.insert(next, {prompt, first, rows});
    return true;
  }
  void reserve(std::int64_t rows) {  // in start() alone
    const auto wanted = static_cast<std::size_t>(rows * width_);
    if (memory_.size() >= wanted) return;
    memory_ = {};  // before there is more of it
    memory_ = {*device_, wanted};
  }

  std::vector<std::shared_ptr<const picture_prompt>> needed_;
  std::vector<kept> kept_;  // by place
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
extern template class prompt_pictures<cpu>;
extern template class prompt_pictures<any_device>;
}  // namespace rollout
RLCORE_END
#endif
