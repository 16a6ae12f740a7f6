// A model's parameters in the groups that a pass needs at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/model/parameter.hpp"

RLCORE_BEGIN
namespace nn {

/// Where each unit of the flat parameters ends: the embedding with the vision tower, every layer, final norm and head.
std::vector<std::size_t> unit_ends(std::span<const parameter> parameters);

/// Where each expert of the flat parameters begins.
std::vector<std::size_t> expert_begins(std::span<const parameter> parameters);

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

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
