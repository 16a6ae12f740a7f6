// Session limits, KV cache and logits memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "rlcore/device/device.hpp"
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

/// The limits of a session, fixed at its start. No generated text depends on the settings before `weights`.
struct session_limits {
  std::int64_t max_sequences = 256;        ///< running at the same time (vLLM's --max-num-seqs)
  std::int64_t max_batched_tokens = 8192;  ///< of one forward pass (--max-num-batched-tokens)
  /// The prefill tokens among these: a limit keeps decoding running and shortens the time to first token of early
  /// prompts. 0: all of them.
  std::int64_t max_prompt_tokens = 0;
  /// Maximum sequence length, prompt included (--max-model-len). 0: the model's max_position_embeddings, or the cache
  /// capacity if it is smaller.
  std::int64_t max_length = 0;
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< KV cache and image rows
  std::int64_t max_image_tokens = 0;                   ///< per prompt; 0: max_batched_tokens
  /// Reuse the pages of earlier sequences with a common prefix (--enable-prefix-caching).
  bool share_prefixes = true;
  bool chunk_prompts = true;                  ///< chunked prefill; otherwise a prompt longer than a pass goes alone
  std::optional<weight_format> weights = {};  ///< as in rollout::generation
};

/// Current state of a session and its counters since the start.
struct session_statistics {
  std::size_t running = 0, waiting = 0;
  std::size_t open = 0;  ///< jobs between two turns
  std::int32_t pages_used = 0, pages = 0;
  std::size_t passes = 0, tokens_fed = 0, tokens_drawn = 0;
  std::size_t prefix_hits = 0;  ///< tokens served from the prefix cache
  std::size_t preemptions = 0;
  std::size_t pictures_read = 0;  ///< by the vision tower
};

/// KV cache, image rows, logits and the sampler. It may outlive a session and serve the next one.
template <rlcore::device Device>
struct session_memory {
  page_pool pool;
  std::unique_ptr<nn::kv_cache<Device>> cache;
  prompt_pictures<Device> pictures;
  buffer<float, Device> logits;
  pass_results<Device> results;

  /// Allocates at least `pages` KV pages, at most `allowed`, and `rows` logits rows, unless it already has them. All
  /// pages are free afterwards.
  void prepare(const nn::causal_lm<Device>& model, std::int64_t pages, std::int64_t allowed, std::int64_t rows) {
    const nn::config& c = model.settings();
    const std::size_t page_bytes = nn::kv_cache<Device>::page_bytes(model.device(), c, model.part());
    const bool fits =
        cache && device_ == &model.device() && page_bytes_ == page_bytes && layers_ == c.num_hidden_layers;
    if (!fits || cache->pages() < pages || cache->pages() > allowed) {
      cache.reset();  // free it before allocating the new one
      cache = std::make_unique<nn::kv_cache<Device>>(model.device(), c, pages, model.part());
      device_ = &model.device(), page_bytes_ = page_bytes, layers_ = c.num_hidden_layers;
    }
    pool.reset(static_cast<std::int32_t>(cache->pages()));
    const auto wanted = static_cast<std::size_t>(rows * c.vocab_size);
    if (fits && logits.size() >= wanted) return;
    logits = {};
    logits = {model.device(), wanted};
  }
  /// Runs the forward pass of the chunks; the requested rows are in `logits`. Linear layers use weights in this format.
  void feed(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
            std::optional<weight_format> format) {
    for (const page_copy& c : plan.copies_before()) cache->copy_page(c.to, c.from);
    nn::decode(model, space, *cache, pictures.show(model, space, plan, format), logits.data(), format);
    for (const page_copy& c : plan.copies_after()) cache->copy_page(c.to, c.from);
  }
  /// Pages that fit into `bytes` together with the image rows.
  std::int64_t pages_within(const nn::causal_lm<Device>& model, std::size_t bytes) const {
    const std::size_t page = nn::kv_cache<Device>::page_bytes(model.device(), model.settings(), model.part());
    return static_cast<std::int64_t>(
        std::min<std::size_t>((bytes - std::min(pictures.bytes(), bytes)) / page, 0x7fffffff));
  }
  /// Bytes of KV cache and image rows.
  std::size_t bytes() const noexcept { return (cache ? cache->bytes() : 0) + pictures.bytes(); }

 private:
  Device* device_ = nullptr;  ///< this and the next two: device, page size and layers of the cache
  std::size_t page_bytes_ = 0;
  std::int64_t layers_ = 0;
};

}  // namespace rollout

RLCORE_END
