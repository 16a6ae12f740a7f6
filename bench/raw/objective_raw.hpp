// Hand-written loops that the composed ones are compared with. Nothing of rlcore is included: a twin that shares code
// proves nothing.
#pragma once

#include <cstddef>
#include <cstdint>

struct raw_grpo_result {
  double policy = 0, kl = 0, clipped = 0;
};

/// Clip-higher surrogate + kl * k3, mean over sequences of token means, gradient by logp. advantage has one value per
/// row; mask may be null, otherwise 4 bytes per slot (0 or 1.0f).
raw_grpo_result raw_grpo(const float* logp, const float* old_logp, const float* ref_logp, const float* advantage,
                         const float* mask, std::size_t rows, std::size_t tokens, float low, float high, float kl,
                         float* gradient);

/// Sum of the array: as fast as this memory can be read by one thread.
double raw_read(const float* x, std::size_t count);
