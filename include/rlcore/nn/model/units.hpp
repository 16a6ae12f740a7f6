// FSDP units: groups of parameters that are gathered together.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// The end of each unit of the flat parameters: embedding with vision tower, every layer, final norm and head.
std::vector<std::size_t> unit_ends(std::span<const parameter> parameters);

/// Where each of these units begins.
std::vector<std::size_t> unit_begins(std::span<const parameter> parameters);

/// The number (unit_number) of each of these units in the model with all layers; `parameters` may be those of a stage.
std::vector<std::size_t> unit_numbers(std::span<const parameter> parameters);

/// The begin of each expert in the flat parameters.
std::vector<std::size_t> expert_begins(std::span<const parameter> parameters);

/// Units of a model (units.hpp) by number: the embedding with the vision tower, the layers, final norm and head.
struct unit_number {
  static constexpr std::size_t embedding = 0;
  /// Layer l, counted from 0.
  static constexpr std::size_t layer(std::size_t l) noexcept { return l + 1; }
  /// Final norm and head of a model with this many layers.
  static constexpr std::size_t top(std::size_t layers) noexcept { return layers + 1; }
  /// The unit of the head's weights.
  static constexpr std::size_t output(std::size_t layers, bool tied) noexcept { return tied ? embedding : top(layers); }
};

/// The weights of one unit, addressed by their offsets in the model's flat weights.
struct unit_view {
  offset_pointer<const float> weights = {};
  packed_view packed = {};
};

/// Gathers the weights of one unit at a time. All ranks request the same units in model order, even without rows.
class unit_source {
 public:
  virtual ~unit_source() = default;
  /// The unit's weights, valid until leave(); with `packed` also packed for the linear layers.
  virtual unit_view enter(std::size_t unit, bool packed) = 0;
  /// Releases a unit's weights: another unit may reuse the memory.
  virtual void leave(std::size_t unit) = 0;
  /// The forward pass has finished the unit; the backward pass will request it again.
  virtual void pause(std::size_t unit) = 0;
  /// The maximum of `passes` over the ranks: all ranks must run this many passes, even without rows. A collective call.
  virtual std::size_t most_passes(std::size_t passes) = 0;
  /// Frees memory before a phase without passes.
  virtual void rest() = 0;
};

/// Receives the gradients of units, from last to first.
class unit_sink {
 public:
  virtual ~unit_sink() = default;
  /// `gradient` (device memory) is the gradient of all parameters of the unit.
  virtual void take(std::size_t unit, const float* gradient) = 0;
};

/// Collective calls that a rank without rows must still make: an inference pass, of a model with an embedding, of a
/// stage without, of one with a head, ...
inline void idle_scoring(unit_source& units, std::size_t layers, bool tied, bool embeds = true, bool has_head = true) {
  const auto visit = [&](std::size_t unit, bool packed) { units.enter(unit, packed), units.leave(unit); };
  const std::size_t before = embeds ? 1 : 0;
  if (embeds) visit(unit_number::embedding, false);
  for (std::size_t l = 0; l < layers; ++l) visit(before + l, true);
  if (!has_head) return;
  visit(before + layers, true);
  if (tied) visit(unit_number::embedding, true);
}
/// ... a forward, ...
inline void idle_forward(unit_source& units, std::size_t layers, bool tied) {
  units.enter(unit_number::embedding, false), units.leave(unit_number::embedding);
  for (std::size_t l = 0; l < layers; ++l) units.enter(unit_number::layer(l), true), units.pause(unit_number::layer(l));
  units.enter(unit_number::top(layers), true);
  if (tied) units.enter(unit_number::embedding, true);
}
/// ... and backward; done(unit) when a unit's gradient would be complete. `tower`: a vision tower is trained; its
/// backward needs the first unit again.
template <class Done>
void idle_backward(unit_source& units, std::size_t layers, bool tied, bool tower, Done&& done) {
  units.leave(unit_number::top(layers));
  if (tied) units.leave(unit_number::embedding);
  done(unit_number::top(layers));
  for (std::size_t l = layers; l-- > 0;) {
    units.enter(unit_number::layer(l), true), units.leave(unit_number::layer(l));
    done(unit_number::layer(l));
  }
  if (tower) units.enter(unit_number::embedding, false), units.leave(unit_number::embedding);
  done(unit_number::embedding);
}

}  // namespace nn

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE std::vector<std::size_t> unit_numbers(std::span<const parameter> parameters) {
  constexpr std::string_view layers = "model.layers.";
  std::vector<std::size_t> numbers;
  for (const parameter& p : parameters) {
    const std::string_view name = p.name;
    std::size_t number = std::numeric_limits<std::size_t>::max();
    if (name.starts_with(layers))
      number = unit_number::layer(std::stoul(std::string(name.substr(layers.size()))));
    else if (name.starts_with("model.embed") || name.starts_with("visual."))
      number = unit_number::embedding;
    if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
  }
  return numbers;
}

RLCORE_INLINE std::vector<std::size_t> unit_ends(std::span<const parameter> parameters) {
  const auto unit_of = [](std::string_view name) {
    constexpr std::string_view layers = "model.layers.";
    if (name.starts_with(layers)) return name.substr(0, name.find('.', layers.size()) + 1);
    const bool enters = name.starts_with("model.embed") || name.starts_with("visual.");
    return enters ? std::string_view("model.embed") : std::string_view();
  };
  std::vector<std::size_t> ends;
  std::string_view unit;
  for (const parameter& p : parameters) {
    if (ends.empty() || unit_of(p.name) != unit) ends.push_back(0);
    unit = unit_of(p.name);
    ends.back() = p.offset + p.size;
  }
  return ends;
}

RLCORE_INLINE std::vector<std::size_t> unit_begins(std::span<const parameter> parameters) {
  std::vector<std::size_t> begins = unit_ends(parameters);
  if (begins.empty()) return begins;
  begins.pop_back();
  begins.insert(begins.begin(), 0);
  return begins;
}

RLCORE_INLINE std::vector<std::size_t> expert_begins(std::span<const parameter> parameters) {
  std::vector<std::size_t> begins;
  for (const parameter& p : parameters)
    if (p.name.find(".mlp.experts.") != std::string::npos && p.name.ends_with(".gate_proj.weight"))
      begins.push_back(p.offset);
  return begins;
}

}  // namespace nn
RLCORE_END
#endif
