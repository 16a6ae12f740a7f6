// The pictures of rows as passes take them, held while passes read them.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/nn/model/input.hpp"

RLCORE_BEGIN
namespace data {

/// Hands out nn::picture for the pictures of prompts and supervised rows. What was handed out stays where it is, with
/// its patches, until clear(): a step of training holds the pictures of its own rows, and the cache beneath those of
/// the steps before. Not for several threads at once.
class row_pictures {
 public:
  /// The cache has to outlive it; null for rows of words.
  explicit row_pictures(image_cache* cache = nullptr) : cache_(cache) {}

  /// Those of a row, in order. `images` is known by its address: the row has to stay where it is until clear(). Throws
  /// data_error with the name of a picture that cannot be read.
  std::span<const nn::picture> operator()(const std::vector<image_pointer>& images) {
    if (images.empty()) return {};
    entry& shown = rows_[&images];
    if (!shown.pictures.empty()) return shown.pictures;
    entry made;
    made.held = (*cache_)(images);
    for (const image_cache::pointer& p : made.held) made.pictures.push_back({{p->rows, p->columns}, p->values});
    return (shown = std::move(made)).pictures;
  }

  /// Lets go of everything that was handed out.
  void clear() noexcept { rows_.clear(); }

 private:
  struct entry {
    std::vector<image_cache::pointer> held;
    std::vector<nn::picture> pictures;
  };

  image_cache* cache_;
  std::unordered_map<const std::vector<image_pointer>*, entry> rows_;
};

}  // namespace data
RLCORE_END
