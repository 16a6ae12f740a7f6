// Pictures of prompts in generation: the rows of the vision tower, and where tokens stand among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode_chunk.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/same_prompt.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Neighbours with the same prompt share the rows of its pictures. The tower makes them when the first of these reads
/// them, and they stay until the last one has. A sequence that gave its pages back and reads its prompt once more finds
/// them, or the tower makes them again. Keeps its memory from call to call.
template <rlcore::device Device>
class prompt_pictures {
 public:
  /// Begins a call of generate(), which uses `requests` to its end; passes have at most `pass_tokens` tokens. Takes
  /// memory for the rows of such a pass, of the prompts that it begins or ends, and of one that waits for its samples.
  /// Memory of an earlier call that had more stays. Throws std::invalid_argument, naming the request, for pictures that
  /// do not fit the model or the image tokens.
  void start(const nn::causal_lm<Device>& model, std::span<const request> requests, std::int64_t pass_tokens) {
    requests_ = requests;
    prompts_.clear(), prompt_of_.clear(), kept_.clear();
    read_ = 0, shows_ = false;
    const nn::config& c = model.settings();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!c.vision && !requests[i].pictures.empty())
        throw std::invalid_argument("rlcore: generate: request " + std::to_string(i) +
                                    " has pictures, and the model reads none (no vision_config)");
      if (!c.vision) continue;
      if (i == 0 || !same_prompt(requests[i], requests[i - 1])) prompts_.push_back(look_at(c, i));
      prompts_.back().last = i + 1;
      prompt_of_.push_back(prompts_.size() - 1);
      shows_ = shows_ || prompts_.back().rows > 0;
    }
    std::int64_t total = 0, longest = 0;
    for (const prompt& p : prompts_) total += p.rows, longest = std::max(longest, p.rows);
    width_ = static_cast<extent_t>(c.hidden_size);
    wanted_ = std::min(total, std::min(total, pass_tokens) + 3 * longest);
    if (device_ != &model.device()) memory_ = {};
    device_ = &model.device();
    reserve(wanted_);
  }
  /// After start(): gives back what only an earlier call needed.
  void shrink() {
    if (memory_.size() == static_cast<std::size_t>(wanted_ * width_)) return;
    memory_ = {};
    reserve(wanted_);
  }

  /// Bytes of rows held.
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(float); }
  /// Pictures that the tower has read in this call.
  std::size_t pictures_read() const noexcept { return read_; }

  /// The chunks of a pass with the rows of their pictures and the positions of their tokens; valid until the next call.
  /// Linear layers of the tower read weights of this format.
  std::span<const nn::decode_chunk> show(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                                         const schedule& plan, std::optional<weight_format> format) {
    if (!shows_) return plan.chunks();
    chunks_.assign(plan.chunks().begin(), plan.chunks().end());
    make_rows(model, space, plan, format);
    places_.clear();
    std::size_t tokens = 0;
    for (const nn::decode_chunk& chunk : chunks_) tokens += chunk.ids.size();
    places_.reserve(tokens);  // spans of it stay valid
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      nn::decode_chunk& chunk = chunks_[i];
      const request& asked = requests_[plan.request_of(i)];
      const std::size_t number = prompt_of_[plan.request_of(i)];
      if (prompts_[number].rows == 0) continue;
      const std::size_t first = places_.size();
      place(model.settings(), chunk, asked, prompts_[number].delta);
      chunk.rope = std::span(places_).subspan(first);
      if (const kept* const k = find(number); k && image_tokens(model.settings(), chunk.ids) > 0) {
        const auto before = asked.prompt.first(static_cast<std::size_t>(chunk.first_position));
        chunk.pictures = memory_.data() + (k->first + image_tokens(model.settings(), before)) * width_;
      }
    }
    return chunks_;
  }
  /// After a pass: forgets the rows that nobody has still to read.
  void forget(const schedule& plan) {
    std::erase_if(kept_,
                  [&](const kept& k) { return !plan.reads_prompt(prompts_[k.prompt].first, prompts_[k.prompt].last); });
  }

 private:
  /// Requests [first, last) have it.
  struct prompt {
    std::size_t first = 0, last = 0;
    std::int64_t rows = 0;
    std::int32_t delta = 0;
  };
  /// The rows of a prompt: [first, first + rows) of the memory.
  struct kept {
    std::size_t prompt = 0;
    extent_t first = 0, rows = 0;
  };

  static std::vector<nn::patch_grid> grids_of(const request& asked) {
    std::vector<nn::patch_grid> grids;
    for (const nn::picture& each : asked.pictures) grids.push_back(each.grid);
    return grids;
  }
  static nn::rope_positions positions_of(const nn::config& c, const request& asked) {
    return nn::make_rope_positions(asked.prompt, c.image_token_id, grids_of(asked), c.vision->spatial_merge_size);
  }
  static extent_t image_tokens(const nn::config& c, std::span<const std::int32_t> ids) {
    return std::ranges::count(ids, c.image_token_id);
  }
  prompt look_at(const nn::config& c, std::size_t number) const {
    const request& asked = requests_[number];
    try {
      return {number, number, image_tokens(c, asked.prompt), positions_of(c, asked).delta};
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(std::string(e.what()) + " (generate: request " + std::to_string(number) + ")");
    }
  }

  /// Appends the positions of a chunk's tokens. A token behind the prompt stands `delta` from its number.
  void place(const nn::config& c, const nn::decode_chunk& chunk, const request& asked, std::int32_t delta) {
    if (chunk.first_position < std::ssize(asked.prompt)) {
      const nn::rope_positions all = positions_of(c, asked);
      const auto at = all.positions.begin() + chunk.first_position;
      places_.insert(places_.end(), at, at + std::ssize(chunk.ids));
      return;
    }
    for (auto n = static_cast<std::int32_t>(chunk.first_position) + delta; const std::int32_t id : chunk.ids) {
      static_cast<void>(id);
      places_.push_back({n, n, n});
      ++n;
    }
  }

  /// Makes the rows that chunks of this pass read and that are not kept.
  void make_rows(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
                 std::optional<weight_format> format) {
    needed_.clear();
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const std::size_t number = prompt_of_[plan.request_of(i)];
      if (prompts_[number].rows > 0 && image_tokens(model.settings(), chunks_[i].ids) > 0 &&
          std::ranges::find(needed_, number) == needed_.end())
        needed_.push_back(number);
    }
    const auto all_fit = [&] {
      return std::ranges::all_of(needed_, [&](std::size_t n) { return find(n) || keep(model, space, n, format); });
    };
    if (all_fit()) return;
    kept_.clear();  // those of other passes, or gaps, were in the way
    reserve(std::accumulate(needed_.begin(), needed_.end(), std::int64_t{0},
                            [&](std::int64_t sum, std::size_t n) { return sum + prompts_[n].rows; }));
    if (!all_fit()) throw std::logic_error("rlcore: rollout::prompt_pictures: no room");
  }
  const kept* find(std::size_t number) const {
    const auto found = std::ranges::find(kept_, number, &kept::prompt);
    return found == kept_.end() ? nullptr : &*found;
  }
  /// Makes the rows of a prompt in the first gap that is large enough; false if there is none.
  bool keep(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, std::size_t number,
            std::optional<weight_format> format) {
    const extent_t rows = prompts_[number].rows;
    extent_t first = 0;
    auto next = kept_.begin();  // they lie in their order
    for (; next != kept_.end() && next->first - first < rows; ++next) first = next->first + next->rows;
    if (first + rows > static_cast<extent_t>(memory_.size()) / width_) return false;
    const std::span<const nn::picture> pictures = requests_[prompts_[number].first].pictures;
    Device& device = model.device();
    const nn::vision_pass<Device> tower(model.tower(), device, space.vision(), model.weights().data(),
                                        model.packed(format.value_or(device.compute_format())), pictures, true, false);
    device.copy_rows(memory_.data() + first * width_, width_, nullptr, tower.rows(), width_, rows, width_);
    device.wait();
    read_ += pictures.size();
    kept_.insert(next, {number, first, rows});
    return true;
  }
  void reserve(std::int64_t rows) {
    const auto wanted = static_cast<std::size_t>(rows * width_);
    if (memory_.size() >= wanted) return;
    memory_ = {};  // before there is more of it
    memory_ = {*device_, wanted};
  }

  std::span<const request> requests_;
  std::vector<prompt> prompts_;
  std::vector<std::size_t> prompt_of_, needed_;
  std::vector<kept> kept_;  // by place
  std::vector<nn::decode_chunk> chunks_;
  std::vector<nn::rope_position> places_;
  buffer<float, Device> memory_;
  Device* device_ = nullptr;
  extent_t width_ = 0;
  std::int64_t wanted_ = 0;  // rows
  std::size_t read_ = 0;
  bool shows_ = false;
};

}  // namespace rollout
RLCORE_END
