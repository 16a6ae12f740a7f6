// A piece with a coefficient.
#pragma once

#include <cstddef>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// scaled{c, piece}: enters the loss c times; the report shows the piece's own value, not multiplied.
template <class Node>
struct scaled {
  static constexpr std::size_t pieces = piece_count<Node>;
  double scale;
  [[no_unique_address]] Node node;

  constexpr void check_settings() const { check_setting("scaled", "scale", scale, setting::finite); }

  /// `scale_` times `node_`, a piece, a sum or a link.
  constexpr scaled(double scale_, Node node_) : scale(scale_), node(node_) {}

  template <std::size_t Index>
  RLCORE_FN constexpr const auto& piece() const noexcept {
    return piece_at<Index>(node);
  }
  template <std::size_t Index>
  RLCORE_FN constexpr double coefficient() const noexcept {
    return scale * coefficient_at<Index>(node);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
