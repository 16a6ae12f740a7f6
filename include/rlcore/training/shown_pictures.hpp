// Images of packed sequences, decoded for a pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/data/image_cache.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/tensor/ragged.hpp"

RLCORE_BEGIN
namespace trainer {

/// One row of images per sequence, in the order of insertion. The object keeps the patches in memory, independent of
/// cache eviction.
class shown_pictures {
 public:
  /// Appends the images of the next sequence. Throws data_error for one that cannot be decoded; `cache` may be null
  /// without images.
  void push_back(std::span<const data::image_pointer> images, data::image_cache* cache) {
    std::vector<nn::picture> row;
    for (const data::image_pointer& file : images) {
      if (cache == nullptr)
        throw std::invalid_argument("rlcore: shown_pictures: pictures, but nothing that reads them");
      const data::image_cache::pointer& p = held_.emplace_back((*cache)(*file));
      row.push_back({{p->rows, p->columns}, p->values});
      bytes_ += p->values.size() * sizeof(float);
    }
    rows_.push_back(row);
  }
  /// Removes all rows.
  void clear() {
    rows_.clear(), held_.clear();
    bytes_ = 0;
  }

  /// The images of sequence i. Valid until the next push_back().
  std::span<const nn::picture> row(std::size_t i) const noexcept { return rows_.row(i); }
  /// Bytes of the patches.
  std::size_t bytes() const noexcept { return bytes_; }
  /// `tokens` with these images, one row per sequence.
  nn::input with(const ragged<std::int32_t>& tokens) const noexcept {
    return rows_.size() == 0 ? nn::input(tokens) : nn::input(tokens, rows_);
  }

 private:
  ragged<nn::picture> rows_;
  std::vector<data::image_cache::pointer> held_;
  std::size_t bytes_ = 0;
};

/// The grids of the images of each of `sequences`, without patches: headers are enough to compute the cost.
inline std::vector<nn::picture> grids_of(std::span<const data::image_pointer> images, const data::image_cache* cache,
                                         std::size_t sequences = 1) {
  std::vector<nn::picture> grids;
  if (cache == nullptr) return grids;
  const auto patch = static_cast<std::int64_t>(cache->processor().settings().shape.patch);
  for (const data::image_pointer& file : images) {
    const image::size seen = cache->processor().target(file->size);
    grids.insert(grids.end(), sequences, {{seen.height / patch, seen.width / patch}, {}});
  }
  return grids;
}

}  // namespace trainer
RLCORE_END
