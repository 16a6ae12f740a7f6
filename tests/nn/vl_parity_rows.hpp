// The rows of a case of reference/vl_parity.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/model/input.hpp"

namespace parity {

/// Tokens with the images among them, made by the rule of the script that wrote the file, and every token but those
/// of images as a target.
struct vl_rows {
  rlcore::ragged<std::int32_t> tokens;
  rlcore::ragged<rlcore::nn::image_patches> images;
  std::vector<float> patches;
  rlcore::nn::targets targets;

  explicit vl_rows(const nlohmann::json& rows) {
    constexpr std::size_t patch = 1176;
    constexpr std::int32_t image_token = 57;
    const auto floats_of = [](const nlohmann::json& grid) {
      return grid[0].get<std::size_t>() * grid[1].get<std::size_t>() * patch;
    };
    std::size_t count = 0, used = 0;
    for (const nlohmann::json& row : rows)
      for (const nlohmann::json& grid : row[1]) count += floats_of(grid);
    for (std::size_t i = 0; i < count; ++i) patches.push_back(value(500, static_cast<std::uint32_t>(i)));
    for (const nlohmann::json& row : rows) {
      const auto ids = row[0].get<std::vector<std::int32_t>>();
      std::vector<rlcore::nn::image_patches> seen;
      for (const nlohmann::json& grid : row[1]) {
        seen.push_back({{grid[0], grid[1]}, std::span(patches).subspan(used, floats_of(grid))});
        used += floats_of(grid);
      }
      for (std::size_t t = 1; t < ids.size(); ++t) {
        if (ids[t] == image_token) continue;
        targets.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
        targets.token.push_back(ids[t]);
      }
      tokens.push_back(ids);
      images.push_back(seen);
    }
  }
  rlcore::nn::input input() const { return {tokens, images}; }
};

}  // namespace parity
