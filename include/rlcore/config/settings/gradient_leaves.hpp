// The number of leaves of a gradient's sum, and the ranks that they leave without work.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// The rows of an optimizer step and the key, or the `--flag`, that sets them; 0 rows if the program has no such key.
struct update_rows {
  std::int64_t rows = 0;
  std::string key;
};

/// Trajectories of an update (policy trainers), or rows or pairs of a step (supervised and preference trainers).
update_rows rows_of_update(const options& opt);

/// rlcore.gradient_leaves where it is not given: a sixteenth of the rows of an update, rounded down to a power of two,
/// at least 8 and at most 64. So the number depends on no rank, updates of fewer than 256 rows have 8, and 16, 32 and
/// 64 data ranks all have work from 256, 512 and 1024 rows on.
constexpr std::int64_t default_gradient_leaves(std::int64_t rows) {
  const auto sixteenth = static_cast<std::uint64_t>(rows / 16);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(sixteenth)), 8, 64);
}

/// rlcore.gradient_leaves, or default_gradient_leaves() of the run's updates.
std::int64_t gradient_leaves(const options& opt);

/// Says how many of `data` data ranks have no part in updates, and the key that gives them one; empty if all have.
std::string idle_ranks(const options& opt, std::int64_t data);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE update_rows rows_of_update(const options& opt) {
  const auto known = [&](const char* key) { return opt.known().find(key) != nullptr; };
  const std::string mini = "actor_rollout_ref.actor.ppo_mini_batch_size";
  if (known(mini.c_str())) {
    const bool flags = known("train_batch_size") && opt.is_set("train_batch_size");
    const std::int64_t step = opt.get<std::int64_t>(
        opt.get<bool>("algorithm.filter_groups.enable") ? "data.train_batch_size" : "data.gen_batch_size");
    return {std::min(opt.get<std::int64_t>(mini), step) * opt.get<std::int64_t>("actor_rollout_ref.rollout.n"),
            flags ? opt.known().typed_name("train_batch_size") : mini};
  }
  for (const char* key : {"data.train_batch_size", "train_batch_size"})
    if (known(key)) return {opt.get<std::int64_t>(key), opt.known().typed_name(key)};
  return {};
}

RLCORE_INLINE std::int64_t gradient_leaves(const options& opt) {
  return opt.find<std::int64_t>("rlcore.gradient_leaves").value_or(default_gradient_leaves(rows_of_update(opt).rows));
}

RLCORE_INLINE std::string idle_ranks(const options& opt, std::int64_t data) {
  const std::int64_t leaves = gradient_leaves(opt);
  const update_rows update = rows_of_update(opt);
  const std::int64_t busy = update.rows > 0 ? std::min({data, leaves, update.rows}) : std::min(data, leaves);
  if (busy == data) return {};
  std::string text =
      std::to_string(data - busy) + " of " + std::to_string(data) + " data ranks have no part in updates";
  if (update.rows > 0) text += " of " + std::to_string(update.rows) + (update.rows == 1 ? " row" : " rows");
  text += ":";
  if (const std::int64_t usable = update.rows > 0 ? std::min(data, update.rows) : data; leaves < usable)
    text += " rlcore.gradient_leaves=" + std::to_string(usable) + " gives " +
            (usable == data ? "all" : std::to_string(usable)) + " of them one, and sums with other bits";
  if (update.rows > 0 && update.rows < data)
    text += std::string(text.ends_with(":") ? "" : ";") + " a larger " + update.key + " gives all of them one";
  return text;
}

}  // namespace train
RLCORE_END
#endif
