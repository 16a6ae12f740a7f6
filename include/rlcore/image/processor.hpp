// What a model does with a picture before its vision tower reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rlcore/image/decode.hpp"
#include "rlcore/image/patches.hpp"
#include "rlcore/image/processor_settings.hpp"
#include "rlcore/image/resample.hpp"
#include "rlcore/image/smart_resize.hpp"

RLCORE_BEGIN
namespace image {

/// Turns files into patches. The same bytes give the same floats on every machine: everything is in integers until one
/// table per colour makes floats of them. A processor may be used by several threads.
class processor {
 public:
  /// Settings are taken as they are: patch_size and merge_size have to be the model's.
  explicit processor(const processor_settings& settings = {})
      : settings_(settings), values_(normalised_values(settings.normalise, settings.resample)) {}

  const processor_settings& settings() const noexcept { return settings_; }

  /// The size in which the tower sees a picture. Throws format_error when one side is over 200 times the other.
  size target(size from) const { return target_size(from, settings_); }

  /// The patches of a picture in its target size. Throws what target() throws.
  patches operator()(const pixels& picture) const {
    const size to = target({static_cast<std::int64_t>(picture.height), static_cast<std::int64_t>(picture.width)});
    return cut(resize(picture, to, settings_.resample), settings_.shape, values_);
  }

  /// Throws format_error, without the file's name, for what decode() refuses.
  patches operator()(encoded bytes) const { return (*this)(decode(bytes, settings_.decode)); }

  /// How many tokens a picture takes.
  std::int64_t tokens(const patches& of) const noexcept {
    return of.rows * of.columns / static_cast<std::int64_t>(settings_.shape.merge * settings_.shape.merge);
  }

 private:
  processor_settings settings_;
  std::array<std::array<float, 256>, 3> values_;
};

}  // namespace image
RLCORE_END
