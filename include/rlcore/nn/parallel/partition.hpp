// Tensor parallel partition of a model's parameters (Shoeybi et al. 2019, Megatron-LM).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace nn {

/// A virtual stage of a pipeline: layers [first, last) of the model, the first one also with the embedding, the last
/// one with the final norm and the head. The default has everything.
struct stage_part {
  int stage = 0, stages = 1;
  std::int64_t first = 0, last = 0;

  bool split() const noexcept { return stages > 1; }
  bool has_embedding() const noexcept { return stage == 0; }
  bool has_head() const noexcept { return stage + 1 == stages; }
  /// Is layer l of the model in this stage?
  bool has_layer(std::int64_t l) const noexcept { return !split() || (l >= first && l < last); }
};

/// A rank's place in the groups that split tensors, and its stage. Serial: the default.
struct partition {
  int tensor_rank = 0, tensor_size = 1, expert_rank = 0, expert_size = 1;
  /// For models that only score and sample: with more tensor ranks than key heads, tensor_size / key heads neighbouring
  /// ranks have the same key head, and each some of its query heads (as vLLM and Megatron do).
  bool repeats_key_heads = false;
  /// For models that only score and sample: the ranks that divide the experts are the tensor ranks, which have the same
  /// tokens. Without it each tensor rank has all experts of its expert rank.
  bool experts_by_tensor = false;
  stage_part stage = {};
};

/// The part of tensor rank `rank` of `size` for models that only score and sample: tensor ranks divide the experts, if
/// each can have one.
partition sampling_part(const config& c, int rank, int size);

/// Elements [begin, end) of a dimension.
struct slice {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const noexcept { return end - begin; }
};

/// Part `part` of `parts` of n elements, in whole groups of `unit`; the last group may be smaller. Parts 0 .. k of k m
/// parts are part 0 of m parts.
constexpr slice part_of(std::int64_t n, std::int64_t part, std::int64_t parts, std::int64_t unit = 1) {
  const std::int64_t groups = (n + unit - 1) / unit;
  return {std::min(n, groups * part / parts * unit), std::min(n, groups * (part + 1) / parts * unit)};
}

/// The size of a group of tokens. A part of the vocabulary consists of whole groups, so that a part of a packed weight
/// begins where the weight of the part does. The size of the vocabulary therefore need not be a multiple of the parts.
inline constexpr std::int64_t vocabulary_unit = 32;

/// part_of() of a vocabulary, in whole groups of vocabulary_unit tokens.
constexpr slice vocabulary_part(std::int64_t vocabulary, std::int64_t part, std::int64_t parts) {
  return part_of(vocabulary, part, parts, vocabulary_unit);
}

/// local = the tokens in a part of the vocabulary except `except`, relative to its begin; places = their indices in
/// `ids`.
void choose_tokens(const slice& part, std::span<const std::int32_t> ids, std::vector<std::int32_t>& local,
                   std::vector<std::int32_t>& places, std::span<const std::int32_t> except = {});

/// The key heads of a rank: its part of them, or the one that it shares with its neighbours.
constexpr slice key_heads(std::int64_t heads, const partition& p) {
  if (p.tensor_size <= heads) return part_of(heads, p.tensor_rank, p.tensor_size);
  const std::int64_t head = p.tensor_rank * heads / p.tensor_size;
  return {head, head + 1};
}

/// Throws config_error, in one line that names the key of config.json, unless the model can be split this way. head_dim
/// must be set.
void check_partition(const config& c, const partition& p);

/// Throws std::invalid_argument unless the tensor parallel rank `rank` of `size` has this part.
void check_group(const partition& p, int rank, int size);

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE void choose_tokens(const slice& part, std::span<const std::int32_t> ids, std::vector<std::int32_t>& local,
                                 std::vector<std::int32_t>& places, std::span<const std::int32_t> except) {
  local.clear(), places.clear();
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= part.begin && ids[i] < part.end && std::find(except.begin(), except.end(), ids[i]) == except.end()) {
      local.push_back(static_cast<std::int32_t>(ids[i] - part.begin));
      places.push_back(static_cast<std::int32_t>(i));
    }
}

RLCORE_INLINE partition sampling_part(const config& c, int rank, int size) {
  partition p{.tensor_rank = rank, .tensor_size = size, .repeats_key_heads = true};
  if (size > 1 && c.has_experts() && c.num_experts >= size)
    p.expert_rank = rank, p.expert_size = size, p.experts_by_tensor = true;
  return p;
}

RLCORE_INLINE void check_group(const partition& p, int rank, int size) {
  if (rank != p.tensor_rank || size != p.tensor_size)
    throw std::invalid_argument("rlcore: set_tensor_group: rank " + std::to_string(rank) + " of " +
                                std::to_string(size) + " for the weights of rank " + std::to_string(p.tensor_rank) +
                                " of " + std::to_string(p.tensor_size));
}

RLCORE_INLINE void check_partition(const config& c, const partition& p) {
  const auto fail = [](const std::string& why) { throw config_error("tensor parallel: " + why); };
  if (p.expert_size > 1 && (!c.has_experts() || c.num_experts < p.expert_size))
    throw config_error("expert parallel: num_experts " + std::to_string(c.has_experts() ? c.num_experts : 0) +
                       " is less than " + std::to_string(p.expert_size) + " ranks");
  if (p.expert_size < 1 || p.expert_rank < 0 || p.expert_rank >= p.expert_size)
    throw config_error("expert parallel: rank " + std::to_string(p.expert_rank) + " of " +
                       std::to_string(p.expert_size));
  if (p.experts_by_tensor && (p.expert_rank != p.tensor_rank || p.expert_size != p.tensor_size))
    throw config_error("expert parallel: experts that tensor ranks divide need equal ranks and sizes");
  const std::string size = std::to_string(p.tensor_size);
  if (p.tensor_size < 1 || p.tensor_rank < 0 || p.tensor_rank >= p.tensor_size)
    fail("rank " + std::to_string(p.tensor_rank) + " of " + size);
  const auto divides = [&](std::int64_t n, std::int64_t by, const char* name, const char* of) {
    if (n % by != 0)
      fail(std::string(name) + " " + std::to_string(n) + " is not a multiple of " + of + " " + std::to_string(by));
  };
  if (p.stage.split() && (p.stage.first < 0 || p.stage.first >= p.stage.last || p.stage.last > c.num_hidden_layers))
    throw config_error("pipeline parallel: layers " + std::to_string(p.stage.first) + " to " +
                       std::to_string(p.stage.last) + " of " + std::to_string(c.num_hidden_layers) +
                       ": expected one or more for each stage");
  const char* const ranks = "the number of ranks";
  divides(c.num_attention_heads, p.tensor_size, "num_attention_heads", ranks);
  if (p.tensor_size > c.num_key_value_heads && p.tensor_size % c.num_key_value_heads == 0) {
    if (!p.repeats_key_heads)
      fail("num_key_value_heads " + std::to_string(c.num_key_value_heads) +
           " is not a multiple of the number of ranks " + size +
           "; ranks that only sample may have the same key heads, ranks that train need their own");
  } else {
    divides(c.num_key_value_heads, p.tensor_size, "num_key_value_heads", ranks);
  }
  divides(c.intermediate_size, p.tensor_size, "intermediate_size", ranks);
  if (p.tensor_size > 1 && vocabulary_part(c.vocab_size, 0, p.tensor_size).size() == 0)
    fail("vocab_size " + std::to_string(c.vocab_size) + " has less than " + std::to_string(vocabulary_unit) +
         " tokens for each of " + size + " ranks");
  if (c.tp_reduce_chunks == 0) return;
  if (c.tp_reduce_chunks < 0 || c.tp_reduce_chunks > 64 || (c.tp_reduce_chunks & (c.tp_reduce_chunks - 1)) != 0)
    fail("rlcore.row_chunks must be 0 or a power of two up to 64, got " + std::to_string(c.tp_reduce_chunks));
  const char* const chunks = "rlcore.row_chunks";
  if (vocabulary_part(c.vocab_size, 0, c.tp_reduce_chunks).size() == 0)
    fail("vocab_size " + std::to_string(c.vocab_size) + " has less than " + std::to_string(vocabulary_unit) +
         " tokens for each of rlcore.row_chunks " + std::to_string(c.tp_reduce_chunks));
  if (p.tensor_size > 1) divides(c.tp_reduce_chunks, p.tensor_size, chunks, ranks);
  divides(c.num_attention_heads * c.head_dim, c.tp_reduce_chunks, "num_attention_heads * head_dim", chunks);
  divides(c.num_key_value_heads * c.head_dim, c.tp_reduce_chunks, "num_key_value_heads * head_dim", chunks);
  divides(c.intermediate_size, c.tp_reduce_chunks, "intermediate_size", chunks);
}

}  // namespace nn
RLCORE_END
#endif
