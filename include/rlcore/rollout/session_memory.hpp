// Memory of a rollout session, of one rank or a group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/prefix_cache.hpp"
#include "rlcore/rollout/prompt_images.hpp"
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
  std::size_t images_read = 0;  ///< by the vision tower
};

/// KV cache, image rows, logits and the sampler. It may outlive a session and serve the next one.
template <rlcore::device Device>
struct session_memory {
  page_pool pool;
  std::unique_ptr<nn::kv_cache<Device>> cache;
  prompt_images<Device> images;
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
  /// Frees KV cache and logits, until prepare(). No session may use them.
  void release() {
    cache.reset();
    logits = {};
  }
  /// Runs the forward pass of the chunks; the requested rows are in `logits`. Linear layers use weights in this format.
  void feed(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, const schedule& plan,
            std::optional<weight_format> format) {
    for (const page_copy& c : plan.copies_before()) cache->copy_page(c.to, c.from);
    nn::decode(model, space, *cache, images.show(model, space, plan, format), logits.data(), format);
    for (const page_copy& c : plan.copies_after()) cache->copy_page(c.to, c.from);
  }
  /// Pages that fit into `bytes` together with the image rows.
  std::int64_t pages_within(const nn::causal_lm<Device>& model, std::size_t bytes) const {
    const std::size_t page = nn::kv_cache<Device>::page_bytes(model.device(), model.settings(), model.part());
    return static_cast<std::int64_t>(
        std::min<std::size_t>((bytes - std::min(images.bytes(), bytes)) / page, 0x7fffffff));
  }
  /// Bytes of KV cache and image rows.
  std::size_t bytes() const noexcept { return (cache ? cache->bytes() : 0) + images.bytes(); }

 private:
  Device* device_ = nullptr;  ///< this and the next two: device, page size and layers of the cache
  std::size_t page_bytes_ = 0;
  std::int64_t layers_ = 0;
};

/// Threads of one process, each with its own device, shard of the weights (nn::partition) and workspace. One session
/// schedules and samples for all of them.
template <rlcore::device Device>
struct rank_group {
  /// A rank's shard of the model; its tensor group is set.
  struct member {
    const nn::causal_lm<Device>& model;
    nn::workspace<Device>& space;
  };
  std::vector<member> others;  ///< ranks 1 and following
  /// Calls f(r) in all ranks r concurrently, rank 0 in the calling thread, and returns when all have returned. Throws
  /// the first exception.
  std::function<void(const std::function<void(int)>& f)> run;
};

/// The ranks of a session and the session memory of each: one rank, or those of a group.
template <rlcore::device Device>
class session_ranks {
 public:
  /// `group` is null for a model on one rank. All arguments must outlive this.
  session_ranks(const nn::causal_lm<Device>& model, nn::workspace<Device>& space, session_memory<Device>& memory,
                const rank_group<Device>* group)
      : model_(model), space_(space), memory_(memory), group_(group), memories_(group ? group->others.size() : 0) {}
  session_ranks(const session_ranks&) = delete;
  session_ranks& operator=(const session_ranks&) = delete;

  /// Resets, with memory for this many image rows.
  void start(std::int64_t rows) {
    run([&](const auto& model, auto&, auto& memory) { memory.images.start(model, rows); });
  }
  /// Allocates KV pages, logits rows and memory for sequences of `longest` tokens.
  void prepare(std::int64_t pages, std::int64_t rows, extent_t longest) {
    run([&](const auto& model, auto& space, auto& memory) {
      memory.prepare(model, pages, pages, rows);
      space.prepare_rope(model.settings(), longest);
    });
  }
  /// session_memory::feed() in all ranks; every rank gets the logits.
  void feed(const schedule& plan, std::optional<weight_format> format) {
    run([&](const auto& model, auto& space, auto& memory) { memory.feed(model, space, plan, format); });
  }
  /// Calls f(memory) for every rank in turn.
  template <class F>
  void each(const F& f) {
    f(memory_);
    for (session_memory<Device>& m : memories_) f(m);
  }

 private:
  /// Calls f(model, space, memory) in every rank.
  template <class F>
  void run(const F& f) {
    if (group_ == nullptr) return f(model_, space_, memory_);
    group_->run([&](int rank) {
      if (rank == 0) return f(model_, space_, memory_);
      const auto i = static_cast<std::size_t>(rank - 1);
      f(group_->others[i].model, group_->others[i].space, memories_[i]);
    });
  }

  const nn::causal_lm<Device>& model_;
  nn::workspace<Device>& space_;
  session_memory<Device>& memory_;
  const rank_group<Device>* group_;
  std::vector<session_memory<Device>> memories_;  ///< of ranks 1 and following
};

}  // namespace rollout
RLCORE_END
