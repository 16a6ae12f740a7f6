// Decode pass: prefill chunks and decode tokens of many sequences in one forward pass over the KV cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/layer/embedding.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/model/packed_batch.hpp"
#include "rlcore/nn/vision/positions.hpp"

RLCORE_BEGIN
namespace nn {

/// Consecutive tokens of one sequence, the first at `first_position`: a prefill chunk, or one decode token. `pages` is
/// the sequence's page table: positions 0 .. kv_page - 1 in pages[0] and so on, covering at least the end of the chunk.
/// The pages hold everything before the chunk and receive the keys and values of its tokens. Image rows come from a
/// vision_pass.
struct decode_chunk {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
  std::span<const std::int32_t> pages;
  bool wants_logits = false;  ///< for the last token

  // For a sequence with images:
  std::span<const rope_position> rope = {};  ///< positions of the tokens; empty: consecutive from first_position
  const float* images = nullptr;             ///< device memory: a row for each image token among `ids`, in order
};

/// Throws std::invalid_argument unless decode() can process the chunk; `number` is its index in the call.
void check_chunk(const decode_chunk& chunk, std::size_t number, const config& c, std::int64_t cache_pages);

/// A rotary table with the angles of each token of the chunks, indexed by token.
template <class Device>
void turn_chunks(workspace<Device>& space, std::span<const decode_chunk> chunks, const config& c) {
  const auto half = static_cast<extent_t>(c.head_dim / 2);
  const std::vector<float> inverse = make_rope_frequencies(c.rope_theta, half, c.rope_scaling).inverse;
  std::vector<float> angles;
  std::vector<rope_position> plain;
  for (const decode_chunk& chunk : chunks) {
    plain.clear();
    for (auto p = static_cast<std::int32_t>(chunk.first_position);
         chunk.rope.empty() && plain.size() < chunk.ids.size(); ++p)
      plain.push_back({p, p, p});
    append_angles(angles, chunk.rope.empty() ? std::span<const rope_position>(plain) : chunk.rope, inverse,
                  c.mrope_section);
  }
  space.set_rope(angles, half);
  for (std::size_t t = 0; t < space.positions.size(); ++t) space.positions[t] = static_cast<std::int32_t>(t);
}

/// Replaces the embeddings x of image tokens with the image rows.
template <class Device>
void show_images(const causal_lm<Device>& model, const pass<Device>& p, std::span<const decode_chunk> chunks,
                 float* x) {
  const auto h = static_cast<extent_t>(model.settings().hidden_size);
  std::int32_t row = 0;
  std::vector<std::int32_t> rows;
  for (const decode_chunk& chunk : chunks) {
    rows.clear();
    for (const std::int32_t id : chunk.ids) {
      if (chunk.images && id == model.settings().image_token_id) rows.push_back(row);
      ++row;
    }
    const auto n = static_cast<extent_t>(rows.size());
    if (n > 0)
      p.device.run(op::copy_rows{.y = x,
                                 .y_row = h,
                                 .ids = {p.space.take_copy(rows.data(), n), row},
                                 .x = chunk.images,
                                 .x_row = h,
                                 .count = n,
                                 .width = h});
  }
}

/// Runs all chunks in one pass, any mix of prefill and decode; a chunk may continue an earlier one of the same call.
/// Writes logits [chunks that want them, vocabulary] to device memory in chunk order. The logits of a token are
/// bit-identical to training, independent of the batch, the chunking and the page placement; with a `format` other than
/// that of training they are approximate.
template <class Device>
void decode(const causal_lm<Device>& model, workspace<Device>& space, kv_cache<Device>& cache,
            std::span<const decode_chunk> chunks, float* logits, std::optional<weight_format> format = {}) {
  check_output(model, model_output::logits, "decode");
  if (model.part().stage.split())
    throw std::logic_error("rlcore: decode: a stage of a pipeline has some of the layers; sample with a whole model");
  const config& c = model.settings();
  space.reset();
  space.segments.clear();
  space.ids.clear(), space.positions.clear(), space.pages.clear(), space.index.clear();
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const decode_chunk& chunk = chunks[i];
    check_chunk(chunk, i, c, cache.pages());
    const std::int64_t end = chunk.first_position + std::ssize(chunk.ids);
    space.segments.push_back({nullptr, nullptr, 0, static_cast<extent_t>(space.ids.size()),
                              static_cast<extent_t>(chunk.ids.size()), static_cast<extent_t>(chunk.first_position)});
    space.ids.insert(space.ids.end(), chunk.ids.begin(), chunk.ids.end());
    space.pages.insert(space.pages.end(), chunk.pages.begin(), chunk.pages.end());
    for (std::int64_t p = chunk.first_position; p < end; ++p) space.positions.push_back(static_cast<std::int32_t>(p));
    if (chunk.wants_logits) space.index.push_back(static_cast<std::int32_t>(space.ids.size() - 1));
    longest = std::max(longest, end);
  }
  if (chunks.empty()) return;
  if (std::ranges::any_of(chunks, [](const decode_chunk& chunk) { return !chunk.rope.empty(); }))
    turn_chunks(space, chunks, c);
  else
    space.prepare_rope(c, static_cast<extent_t>(longest));

  Device& device = model.device();
  const auto h = static_cast<extent_t>(c.hidden_size);
  const auto t = static_cast<extent_t>(space.ids.size()), n = static_cast<extent_t>(space.index.size());
  const std::int32_t *tokens = space.take_copy(space.ids.data(), t),
                     *where = space.take_copy(space.positions.data(), t);
  const std::int32_t* pages = space.take_copy(space.pages.data(), static_cast<extent_t>(space.pages.size()));
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    space.segments[i].pages = pages;
    space.segments[i].layer_pages = static_cast<extent_t>(cache.pages());
    pages += chunks[i].pages.size();
  }
  pass<Device> p{device, space, model.weights().data(), model.packed(format.value_or(device.compute_format())), nullptr,
                 t,      where};
  p.tensor = model.tensor();
  if (model.part().expert_size > 1 && !model.part().experts_by_tensor) p.expert = space.experts;
  float *x = space.template take<float>(t * h), *y = space.template take<float>(t * h);
  embed(model, p, x, space.ids, tokens);
  show_images(model, p, chunks, x);
  const block_activations a = take_for_any(model.blocks(), space, t, t);
  const std::span<const block> blocks = model.blocks();
  const auto place_in_cache = [&](std::size_t layer) {
    const attention& self_attention = blocks[layer].self_attention;
    return [&, cached = cache.layer(static_cast<extent_t>(layer))](const float* qkv) {
      for (attention_segment& s : space.segments) s.keys = cached;
      const float* keys = qkv + self_attention.q_width();
      device.run(op::store_keys_values{.shape = self_attention.shape,
                                       .segments = space.segments,
                                       .layer = cached,
                                       .keys = keys,
                                       .values = keys + self_attention.kv_width(),
                                       .row = self_attention.width()});
      return std::span<const attention_segment>(space.segments);
    };
  };
  const std::size_t last = blocks.size() - 1;
  for (std::size_t l = 0; l < last; ++l) {
    blocks[l].forward(p, a, y, x, place_in_cache(l));
    std::swap(x, y);
  }
  blocks[last].forward_rows(p, a, y, x, place_in_cache(last), space.take_copy(space.index.data(), n), n);
  if (n == 0) return;
  const head_activations rows = model.head().normed(p, y, n);
  all_logits(model, p, logits, rows.normed, n);
}

}  // namespace nn

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE void check_chunk(const decode_chunk& chunk, std::size_t number, const config& c,
                               std::int64_t cache_pages) {
  check_ids(chunk.ids, c.vocab_size, "token");
  check_ids(chunk.pages, cache_pages, "page");
  const std::int64_t end = chunk.first_position + std::ssize(chunk.ids);
  const std::int64_t limit =
      std::min<std::int64_t>(std::ssize(chunk.pages) * std::int64_t{kv_page}, c.max_position_embeddings);
  const bool seen = chunk.images != nullptr || !chunk.rope.empty();
  if (seen && !c.vision) throw std::invalid_argument("rlcore: decode: images for a model without a vision tower");
  if (c.vision && chunk.images == nullptr && std::ranges::find(chunk.ids, c.image_token_id) != chunk.ids.end())
    throw std::invalid_argument("rlcore: decode: chunk " + std::to_string(number) + " has image tokens and no images");
  if (!chunk.rope.empty() && chunk.rope.size() != chunk.ids.size())
    throw std::invalid_argument("rlcore: decode: chunk " + std::to_string(number) + " has " +
                                std::to_string(chunk.ids.size()) + " tokens and " + std::to_string(chunk.rope.size()) +
                                " places for them");
  if (chunk.ids.empty() || chunk.first_position < 0 || end > limit)
    throw std::invalid_argument("rlcore: decode: chunk " + std::to_string(number) + " has " +
                                std::to_string(chunk.ids.size()) + " tokens from position " +
                                std::to_string(chunk.first_position) + ", expected at least one, at positions 0 .. " +
                                std::to_string(limit - 1) + " (" + std::to_string(chunk.pages.size()) +
                                " pages, max_position_embeddings " + std::to_string(c.max_position_embeddings) + ")");
}

}  // namespace nn
RLCORE_END
#endif
