// Random number streams of a policy run.
#pragma once

#include <cstdint>

#include "rlcore/core/random.hpp"

RLCORE_BEGIN
namespace trainer {

/// Purposes of the run's seed; their streams never overlap.
enum class stream : std::uint32_t { rollout = 1, validation, mini_batches, selection, greedy, critic_mini_batches };

/// The random numbers for a purpose in the step or round `number`.
inline random_key key_of(std::uint64_t seed, stream purpose, std::int64_t number) {
  return random_key{seed}.child(static_cast<std::uint32_t>(purpose)).child(static_cast<std::uint32_t>(number));
}

}  // namespace trainer
RLCORE_END
