// The device memory of a session.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/rollout/page_pool.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/prompt_pictures.hpp"
#include "rlcore/rollout/schedule.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace rollout {

/// Keys and values, rows of pictures, logits and what reads them. It may outlive a session and serve the next one.
template <rlcore::device Device>
struct session_memory {
  page_pool pool;
  std::unique_ptr<nn::kv_cache<Device>> cache;
  prompt_pictures<Device> pictures;
  buffer<float, Device> logits;
  pass_results<Device> results;

  /// Takes at least `pages` pages of keys and values, no more than `allowed` of them, and `rows` rows of logits, unless
  /// it has them. Nobody uses a page then.
  void prepare(const nn::causal_lm<Device>& model, std::int64_t pages, std::int64_t allowed, std::int64_t rows) {
    const nn::config& c = model.settings();
    const std::size_t page_bytes = nn::kv_cache<Device>::page_bytes(c, model.part());
    const bool fits =
        cache && device_ == &model.device() && page_bytes_ == page_bytes && layers_ == c.num_hidden_layers;
    if (!fits || cache->pages() < pages || cache->pages() > allowed) {
      cache.reset();  // before the new one is allocated
      cache = std::make_unique<nn::kv_cache<Device>>(model.device(), c, pages, model.part());
      device_ = &model.device(), page_bytes_ = page_bytes, layers_ = c.num_hidden_layers;
    }
    pool.reset(static_cast<std::int32_t>(cache->pages()));
    const auto wanted = static_cast<std::size_t>(rows * c.vocab_size);
    if (fits && logits.size() >= wanted) return;
    logits = {};
    logits = {model.device(), wanted};
  }
  /// Feeds a pass: what it wants read of it is in `logits`. Products read weights of this format.
  void feed(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
            std::optional<weight_format> format) {
    for (const page_copy& c : plan.copies_before()) cache->copy_page(c.to, c.from);
    nn::decode(model, space, *cache, pictures.show(model, space, plan, format), logits.data(), format);
    for (const page_copy& c : plan.copies_after()) cache->copy_page(c.to, c.from);
  }
  /// Pages that fit into `bytes` beside the rows of pictures.
  std::int64_t pages_within(const nn::causal_lm<Device>& model, std::size_t bytes) const {
    const std::size_t page = nn::kv_cache<Device>::page_bytes(model.settings(), model.part());
    return static_cast<std::int64_t>(
        std::min<std::size_t>((bytes - std::min(pictures.bytes(), bytes)) / page, 0x7fffffff));
  }
  /// Bytes of keys, values and rows of pictures.
  std::size_t bytes() const noexcept { return (cache ? cache->bytes() : 0) + pictures.bytes(); }

 private:
  Device* device_ = nullptr;  ///< with the next two: the device, page size and layers of the cache
  std::size_t page_bytes_ = 0;
  std::int64_t layers_ = 0;
};

}  // namespace rollout
RLCORE_END
