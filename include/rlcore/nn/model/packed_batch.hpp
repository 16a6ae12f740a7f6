// Packed batch: concatenated sequences on the device with their positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/model/active_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Throws std::invalid_argument, with `name` and the index, unless all ids are in 0 .. vocabulary - 1.
inline void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary, const char* name) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocabulary)
      throw std::invalid_argument(std::string("rlcore: ") + name + " " + std::to_string(i) + " is " +
                                  std::to_string(ids[i]) + ", expected 0 .. " + std::to_string(vocabulary - 1));
}

/// Throws std::invalid_argument unless every row has a token of the vocabulary and, with a sampling mask, a mask of
/// ascending tokens that has it.
inline void check_targets(const targets& wanted, const config& c) {
  check_ids(wanted.token, c.vocab_size, "target token");
  if (wanted.row.size() != wanted.token.size())
    throw std::invalid_argument("rlcore: targets have " + std::to_string(wanted.row.size()) + " rows and " +
                                std::to_string(wanted.token.size()) + " tokens");
  const ragged<std::int32_t>& mask = wanted.sampling_mask;
  if (mask.empty()) return;
  if (mask.rows() != wanted.token.size())
    throw std::invalid_argument("rlcore: targets have " + std::to_string(wanted.token.size()) + " tokens and " +
                                std::to_string(mask.rows()) + " rows of a sampling mask");
  check_ids(mask.values, c.vocab_size, "token of the sampling mask");
  for (std::size_t i = 0; i < mask.rows(); ++i) {
    const std::span<const std::int32_t> kept = mask.row(i);
    if (kept.empty()) continue;
    if (std::adjacent_find(kept.begin(), kept.end(), std::greater_equal()) != kept.end())
      throw std::invalid_argument("rlcore: the sampling mask of target " + std::to_string(i) + " does not ascend");
    if (!std::binary_search(kept.begin(), kept.end(), wanted.token[i]))
      throw std::invalid_argument("rlcore: the sampling mask of target " + std::to_string(i) + " lacks its token " +
                                  std::to_string(wanted.token[i]));
  }
}

/// Throws std::invalid_argument unless there are no routed experts, or for every token and layer with experts either
/// as many different ones as the model chooses, or none.
inline void check_routed_experts(const input& in, const config& c) {
  const std::span<const std::int16_t> ids = in.routed_experts;
  if (ids.empty()) return;
  if (!c.has_experts()) throw std::invalid_argument("rlcore: routed experts for a model without experts");
  const auto chosen = static_cast<std::size_t>(c.num_experts_per_tok);
  const std::size_t rows = in.tokens.values.size() * static_cast<std::size_t>(c.sparse_layers());
  if (ids.size() != rows * chosen)
    throw std::invalid_argument("rlcore: " + std::to_string(ids.size()) + " routed experts, expected " +
                                std::to_string(rows * chosen) + ": tokens x layers with experts x " +
                                std::to_string(chosen));
  for (std::size_t i = 0; i < rows; ++i)
    if (const std::span<const std::int16_t> of_row = ids.subspan(i * chosen, chosen);
        std::ranges::count(of_row, expert_choices::no_expert) != std::ssize(of_row) &&
        !are_different(of_row, c.num_experts))
      throw std::invalid_argument("rlcore: the routed experts of token " +
                                  std::to_string(i / static_cast<std::size_t>(c.sparse_layers())) + " are not " +
                                  std::to_string(chosen) + " different ones of " + std::to_string(c.num_experts));
}

/// Throws std::invalid_argument, naming the `caller`, unless the model computes `wanted`.
template <class Device>
void check_output(const causal_lm<Device>& model, model_output wanted, const char* caller) {
  if (model.settings().output != wanted)
    throw std::invalid_argument(std::string("rlcore: ") + caller +
                                (wanted == model_output::logits ? " needs a causal language model, got a score "
                                                                  "model"
                                                                : " needs a score model, got a causal language "
                                                                  "model"));
}

/// The context parallel pass of the workspace's context group; null if there is no such group.
template <class Device>
context_pass<Device>* share_sequences(std::optional<context_pass<Device>>& to, const causal_lm<Device>& model,
                                      workspace<Device>& space, const ragged<std::int32_t>& sequences,
                                      std::span<const std::int32_t> rows) {
  if (!space.context.shares()) return nullptr;
  const config& c = model.settings();
  check_ids(rows, static_cast<std::int64_t>(sequences.values.size()), "target row");
  const double constant = parallel::cost_constant(sizes_of_layer(c));
  return &to.emplace(model.device(), space, model.blocks().front().self_attention.shape, constant, sequences, rows);
}

/// Checks and uploads a batch. Each sequence is one segment, whose keys and values lie in the qkv rows of the layer.
/// Under context parallelism only this rank's rows are uploaded. `choices` has the routed experts of its rows.
template <class Device>
struct packed_batch {
  extent_t tokens = 0;
  const std::int32_t *ids = nullptr, *positions = nullptr;
  expert_choices choices = {};

  /// Uploads ids and positions [tokens] and fills space.segments. Throws std::invalid_argument for a token outside of
  /// the vocabulary, a row outside of the batch, a sequence above max_position_embeddings and routed experts that are
  /// not those of check_routed_experts().
  packed_batch(const causal_lm<Device>& model, workspace<Device>& space, const input& in,
               std::span<const std::int32_t> rows, const context_pass<Device>* context = nullptr) {
    const ragged<std::int32_t>& sequences = in.tokens;
    const config& c = model.settings();
    check_images(in, c);
    check_routed_experts(in, c);
    check_ids(sequences.values, c.vocab_size, "token");
    check_ids(rows, static_cast<std::int64_t>(sequences.values.size()), "target row");
    extent_t longest = 0;
    space.ids.clear();
    space.positions.clear();
    space.segments.clear();
    for (std::size_t s = 0; s + 1 < sequences.offsets.size(); ++s) {
      const auto begin = static_cast<extent_t>(sequences.offsets[s]),
                 end = static_cast<extent_t>(sequences.offsets[s + 1]);
      longest = std::max(longest, end - begin);
      if (end == begin || context) continue;
      for (extent_t t = begin; t < end; ++t) space.positions.push_back(static_cast<std::int32_t>(t - begin));
      space.segments.push_back({nullptr, nullptr, 0, begin, end - begin, 0});
    }
    if (context) {
      for (const context_piece& p : context->pieces())
        for (extent_t t = p.first; t < p.first + p.rows; ++t) {
          space.ids.push_back(sequences.row(p.sequence)[static_cast<std::size_t>(t)]);
          space.positions.push_back(static_cast<std::int32_t>(t));
        }
    }
    if (longest > c.max_position_embeddings)
      throw std::invalid_argument("rlcore: a sequence of " + std::to_string(longest) +
                                  " tokens exceeds max_position_embeddings " +
                                  std::to_string(c.max_position_embeddings));
    tokens = static_cast<extent_t>(space.positions.size());
    ids = space.take_copy(context ? space.ids.data() : sequences.values.data(), tokens);
    if (in.shows_images())
      turn(space, in, c, context);
    else
      space.prepare_rope(c, longest);
    positions = space.take_copy(space.positions.data(), tokens);
    if (c.has_experts()) replay(model, space, in, context);
  }

  /// Space for what this rank's rows choose, to be written by the forward.
  std::int16_t* take_chosen_experts(workspace<Device>& space) const {
    space.chosen_experts.assign(static_cast<std::size_t>(tokens * choices.per_row), expert_choices::no_expert);
    return space.chosen_experts.data();
  }
  /// space.routed of all context ranks, and space.chosen_experts of all tokens: no_expert but for this rank's rows.
  void gather_routes(workspace<Device>& space, const input& in, context_pass<Device>& context) const {
    context.sum(space.routed.values);
    std::vector<std::int16_t> whole(in.tokens.values.size() * static_cast<std::size_t>(choices.per_row),
                                    expert_choices::no_expert);
    auto from = space.chosen_experts.begin();
    for (const context_piece& p : context.pieces()) {
      const extent_t first = in.tokens.offsets[p.sequence] + p.first;
      std::copy_n(from, p.rows * choices.per_row, whole.begin() + first * choices.per_row);
      from += p.rows * choices.per_row;
    }
    space.chosen_experts.swap(whole);
  }

 private:
  void replay(const causal_lm<Device>& model, workspace<Device>& space, const input& in,
              const context_pass<Device>* context) {
    const config& c = model.settings();
    choices.per_row = static_cast<extent_t>(c.sparse_layers() * c.num_experts_per_tok);
    for (std::int64_t l = 0; l < model.part().stage.first; ++l) choices.before += c.sparse(l);
    if (in.routed_experts.empty()) return;
    choices.ids = in.routed_experts.data();
    if (!context) return;
    const expert_choices all = choices;
    space.replayed.clear();
    for (const context_piece& p : context->pieces()) {
      const extent_t first = in.tokens.offsets[p.sequence] + p.first;
      space.replayed.insert(space.replayed.end(), all.from(first).ids, all.from(first + p.rows).ids);
    }
    choices.ids = space.replayed.data();
  }
  static void check_images(const input& in, const config& c) {
    if (!in.shows_images()) {
      if (c.vision && std::ranges::find(in.tokens.values, c.image_token_id) != in.tokens.values.end())
        throw std::invalid_argument("rlcore: sequences with image tokens and no images");
      return;
    }
    if (!c.vision) throw std::invalid_argument("rlcore: images for a model without a vision tower");
    if (in.images->rows() != in.tokens.rows())
      throw std::invalid_argument("rlcore: " + std::to_string(in.tokens.rows()) + " sequences and images of " +
                                  std::to_string(in.images->rows()));
  }
  /// A table of angles with a row for each token here: the first mrope_section pairs of components turn with time, the
  /// next with the row, the last with the column.
  static void turn(workspace<Device>& space, const input& in, const config& c, const context_pass<Device>* context) {
    const auto half = static_cast<extent_t>(c.head_dim / 2);
    const std::vector<float> inverse = make_rope_frequencies(c.rope_theta, half, c.rope_scaling).inverse;
    std::vector<float> angles;
    angles.reserve(space.positions.size() * inverse.size());
    std::vector<patch_grid> grids;
    std::vector<rope_positions> at;  // of every sequence, even without rows on this rank
    for (std::size_t s = 0; s < in.tokens.rows(); ++s) {
      grids.clear();
      for (const image_patches& each : in.images_of(s)) grids.push_back(each.grid);
      at.push_back(make_rope_positions(in.tokens.row(s), c.image_token_id, grids, c.vision->spatial_merge_size));
      if (!context) append_angles(angles, at.back().positions, inverse, c.mrope_section);
    }
    if (context)
      for (const context_piece& p : context->pieces())
        append_angles(angles,
                      std::span(at[p.sequence].positions)
                          .subspan(static_cast<std::size_t>(p.first), static_cast<std::size_t>(p.rows)),
                      inverse, c.mrope_section);
    space.set_rope(angles, half);
    for (std::size_t t = 0; t < space.positions.size(); ++t) space.positions[t] = static_cast<std::int32_t>(t);
  }
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template struct packed_batch<cpu>;
extern template struct packed_batch<any_device>;
}  // namespace nn
RLCORE_END
#endif
