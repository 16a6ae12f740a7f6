// Hand-written loops that the composed ones are compared with, one per algorithm. Nothing of rlcore is included: a twin
// that shares code proves nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace raw {

/// Arrays are [rows, tokens], advantage is [rows], the mask is 0 or 1 as float. tokens is a multiple of 64.
struct batch {
  std::size_t rows = 0, tokens = 0;
  const float *logp = nullptr, *old_logp = nullptr, *ref_logp = nullptr, *advantage = nullptr, *mask = nullptr;
  const float *value = nullptr, *old_value = nullptr, *target = nullptr;
  double live_tokens = 0, live_rows = 0;  // of the whole step
};

/// sum[0] is the loss, the others are sums of diagnostics.
struct result {
  double sum[6] = {};
};

/// Sum of the array: as fast as this memory can be read by one thread.
double read(const float* x, std::size_t count);

// Token losses. They write dL / dlogp (value_loss: dL / dvalue). Means over tokens unless said.
result clipped(const batch&, float low, float high, double length, float* gradient);  // length 0, or fixed_length
result dual_clipped(const batch&, float low, float high, float bound, float limit, float* gradient);
result grpo(const batch&, float low, float high, float kl, float* gradient);  // sequence mean of token means
result cispo(const batch&, float bound, float* gradient);
result sapo(const batch&, float positive, float negative, float* gradient);  // sequence mean of token means
result policy_gradient(const batch&, bool sequence_mean, float* gradient);   // or sequence mean of token sums
result dppo_tv(const batch&, float low, float high, float bound, float* gradient);
result dppo_kl(const batch&, float low, float high, float bound, float* gradient);
result dro(const batch&, float beta, float* gradient);
result value_loss(const batch&, float range, float* gradient);

// One term per sequence or per pair (rows 2k and 2k + 1).
result gspo(const batch&, float low, float high, float* gradient);
result gmpo(const batch&, float low, float high, float* gradient);
result dpo(const batch&, double beta, float* gradient);
result kto(const batch&, double beta, double kl, const float* desirable, float* gradient);
result simpo(const batch&, double beta, double margin, float* gradient);
result orpo(const batch&, double beta, double chosen_tokens, float* gradient);

// Advantages. Masked slots are passed over and get 0; rows divide into 16. Whitening is over live slots.
void gae(const batch&, const float* rewards, float gamma, float lambda, float* advantages, float* returns);
void whiten(const batch&, const float* x, float* out);

/// One row of logits: log-prob of the target, entropy, {maximum, log of the sum}.
void log_prob(const float* logits, std::size_t vocabulary, std::size_t target, float* logp, float* entropy,
              float* statistics);
void log_prob_backward(float* logits, std::size_t vocabulary, std::size_t target, float dlogp, float dentropy,
                       float entropy, const float* statistics);

}  // namespace raw
