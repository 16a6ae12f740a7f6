// The sampler, and the most likely tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/ruled_logits.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace rollout {

/// The most likely tokens of a row, most likely first, ties by id, and the rank of the row's own token in that order: 1
/// is the most likely token, 0 means no rank.
struct likely_tokens {
  std::vector<token_logprob> tokens;
  std::int64_t rank = 0;
};

/// Finds likely tokens on the host; copies the rows if the host cannot read device memory. Keeps its memory between
/// calls.
template <rlcore::device Device>
class likely_tokens_finder {
 public:
  /// out[i] = the k most likely tokens under softmax(logits / temperature) of row i of logits [own.size(), vocabulary]
  /// (device memory), and the rank of own[i]. Log-probs equal those of op::log_prob_forward up to rounding; the one
  /// of own[i] is copied from the input.
  void operator()(Device& device, const float* logits, extent_t vocabulary, float temperature,
                  std::span<const token_logprob> own, std::size_t k, std::span<likely_tokens> out) {
    const auto rows = static_cast<extent_t>(own.size());
    first_.clear();
    for (std::size_t i = 0; i < own.size(); ++i) {
      rank(row(device, logits, vocabulary, i), own[i].token, k, out[i]);
      first_.push_back(out[i].tokens.empty() ? own[i].token : out[i].tokens.front().token);
    }
    if (k == 0) return;
    log_probs(device, logits, rows, vocabulary, temperature);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const float largest = out[i].tokens.front().logp;
      for (token_logprob& t : out[i].tokens)
        t.logp = t.token == own[i].token
                     ? own[i].logp
                     : static_cast<float>(static_cast<double>(logp_[i]) +
                                          (static_cast<double>(t.logp) - static_cast<double>(largest)) /
                                              static_cast<double>(temperature));
    }
  }

  /// The same for the candidate tokens of a draw from `logits`, see kept_tokens(): fewer than k if fewer are left; a
  /// token that is not a candidate has rank 0. logp[i] = the log-prob of tokens[i], -infinity if it could not be drawn.
  void kept(Device& device, const float* logits, extent_t vocabulary, const sampling& settings,
            std::span<const std::int32_t> tokens, std::size_t k, std::span<likely_tokens> out, std::span<float> logp) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      kept_tokens(settings, row(device, logits, vocabulary, i), kept_);
      const auto at = std::ranges::find(kept_, tokens[i], &token_logprob::token);
      const bool found = at != kept_.end();
      out[i].rank = found ? at - kept_.begin() + 1 : 0;
      logp[i] = found ? at->logp : -std::numeric_limits<float>::infinity();
      out[i].tokens.assign(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(std::min(k, kept_.size())));
    }
  }

 private:
  /// Row i in host memory.
  std::span<const float> row(Device& device, const float* logits, extent_t vocabulary, std::size_t i) {
    const auto width = static_cast<std::size_t>(vocabulary);
    const float* at = logits + i * width;
    if constexpr (Device::host_readable) {
      device.wait();
      return {at, width};
    } else {
      host_.resize(width);
      device.download(host_.data(), at, width * sizeof(float));
      return host_;
    }
  }

  /// Counts logits above `limit`; compilers vectorize this loop.
  static int above(std::span<const float> logits, float limit) noexcept {
    int n = 0;
    for (const float x : logits) n += x > limit;
    return n;
  }
  /// out.tokens = the k largest logits; out.rank = the rank of `token`.
  static void rank(std::span<const float> logits, std::int32_t token, std::size_t k, likely_tokens& out) {
    constexpr std::size_t block = 256;
    std::vector<token_logprob>& top = out.tokens;
    top.clear();
    k = std::min(k, logits.size());
    const auto less = [](float a, const token_logprob& b) { return a > b.logp; };
    for (std::size_t from = 0; k > 0 && from < logits.size(); from += block) {
      const std::span<const float> part = logits.subspan(from, std::min(block, logits.size() - from));
      if (top.size() == k && above(part, top.back().logp) == 0) continue;
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (top.size() == k && !(part[i] > top.back().logp)) continue;
        if (top.size() == k) top.pop_back();
        top.insert(std::upper_bound(top.begin(), top.end(), part[i], less),
                   {static_cast<std::int32_t>(from + i), part[i]});
      }
    }
    const auto own = static_cast<std::size_t>(token);
    const std::span<const float> before = logits.first(own);
    out.rank = 1 + above(logits, logits[own]) + std::ranges::count(before, logits[own]);
  }

  /// logp_[i] = the log-prob of first_[i].
  void log_probs(Device& device, const float* logits, extent_t rows, extent_t vocabulary, float temperature) {
    const std::size_t n = first_.size();
    logp_.resize(n);
    if constexpr (Device::host_readable) {
      device.run(op::log_prob_forward{.logits = logits,
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = first_.data(),
                                      .temperature = temperature,
                                      .logp = logp_.data()});
      device.wait();
    } else {
      if (device_logp_.size() < n) device_logp_ = {device, n}, device_first_ = {device, n};
      device.upload(device_first_.data(), first_.data(), n * sizeof(std::int32_t));
      device.run(op::log_prob_forward{.logits = logits,
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = device_first_.data(),
                                      .temperature = temperature,
                                      .logp = device_logp_.data()});
      device.download(logp_.data(), device_logp_.data(), n * sizeof(float));
    }
  }

  std::vector<float> host_, logp_;
  std::vector<std::int32_t> first_;
  std::vector<token_logprob> kept_;
  buffer<float, Device> device_logp_;
  buffer<std::int32_t, Device> device_first_;
};

/// Samples on the device: logits stay there, except for rows with rules or masks if the host cannot read device memory.
/// Keeps its memory between calls.
template <rlcore::device Device>
class sampler {
 public:
  /// Draws one token per row of logits [rows, vocabulary] (device memory) at uniform[row] and scores it. Rules affect
  /// the draw, not the recorded values. All spans have `rows` elements; `rules` may be empty instead. Log-probs and
  /// entropies use `logprob_temperature`; unset: the sampling temperature, 1 for greedy sampling. Unless `masks` is
  /// null, appends the tokens that each row could draw, none if those were all, and scores over these; see
  /// job::keep_sampling_mask. Throws undrawable_row before drawing anything.
  void operator()(Device& device, const sampling& settings, const nn::vocabulary_chunks& chunks, const float* logits,
                  extent_t vocabulary, std::span<const double> uniform, std::span<std::int32_t> tokens,
                  std::span<float> logp, std::span<float> entropy, std::span<const ruled_row> rules = {},
                  std::optional<float> logprob_temperature = {}, ragged<std::int32_t>* masks = nullptr) {
    const auto rows = static_cast<extent_t>(tokens.size());
    drawn_from_ = ruled_(device, logits, vocabulary, rules);
    const bool masked = masks != nullptr && settings.truncates();
    sampling_arguments arguments = settings.arguments();
    const float *from = drawn_from_, *scored = logits;
    if (masked) {
      const std::size_t first = masks->rows();
      if (!masked_) masked_.emplace();
      masked_->add_masks(device, settings, from, rows, vocabulary, *masks);
      scored = from = (*masked_)(device, logits, rows, vocabulary, *masks, first);
      if (drawn_from_ != logits) {
        if (!masked_rules_) masked_rules_.emplace();
        from = (*masked_rules_)(device, drawn_from_, rows, vocabulary, *masks, first);
      }
      arguments = {settings.temperature, 0, 1, 0};
    }
    const float temperature = logprob_temperature.value_or(settings.greedy() ? 1 : settings.temperature);
    if constexpr (Device::host_readable) {
      device.run(op::sample{.settings = arguments,
                            .logits = from,
                            .rows = rows,
                            .vocabulary = vocabulary,
                            .uniform = uniform.data(),
                            .tokens = tokens.data()});
      score(device, chunks, scored, vocabulary, temperature, tokens, logp, entropy);
    } else {
      reserve(device, tokens.size());
      device.upload(uniform_.data(), uniform.data(), uniform.size_bytes());
      device.run(op::sample{.settings = arguments,
                            .logits = from,
                            .rows = rows,
                            .vocabulary = vocabulary,
                            .uniform = uniform_.data(),
                            .tokens = results_.data()});
      if (chunks.apart()) {
        device.download(tokens.data(), results_.data(), tokens.size_bytes());
        return score_in_chunks(device, chunks, scored, temperature, tokens, logp, entropy);
      }
      score_drawn(device, scored, rows, vocabulary, temperature);
      download(device, 0, tokens.size(), tokens, logp, entropy);
    }
  }
  /// The log-prob of tokens[row] under softmax(logits / temperature) and the entropy of this distribution, computed
  /// from `chunks` as in training.
  void score(Device& device, const nn::vocabulary_chunks& chunks, const float* logits, extent_t vocabulary,
             float temperature, std::span<const std::int32_t> tokens, std::span<float> logp, std::span<float> entropy) {
    if (chunks.apart()) return score_in_chunks(device, chunks, logits, temperature, tokens, logp, entropy);
    const auto rows = static_cast<extent_t>(tokens.size());
    if constexpr (Device::host_readable) {
      device.run(op::log_prob_forward{.logits = logits,
                                      .rows = rows,
                                      .vocabulary = vocabulary,
                                      .targets = tokens.data(),
                                      .temperature = temperature,
                                      .logp = logp.data(),
                                      .entropy = entropy.data()});
      device.wait();
    } else {
      reserve(device, tokens.size());
      device.upload(results_.data(), tokens.data(), tokens.size_bytes());
      score_drawn(device, logits, rows, vocabulary, temperature);
      download(device, tokens.size(), tokens.size(), {}, logp, entropy);
    }
  }

  /// The logits of the last draw, [rows, vocabulary] in device memory: the input, or a copy with the rules applied.
  /// Valid until the next call.
  const float* drawn_from() const noexcept { return drawn_from_; }

 private:
  void reserve(Device& device, std::size_t rows) {
    if (uniform_.size() >= rows) return;
    results_ = {device, 3 * rows};
    uniform_ = {device, rows};
  }
  float* floats_at(std::size_t place) { return reinterpret_cast<float*>(results_.data() + place); }
  /// Log-probs and entropies of the tokens in results_, next to them.
  void score_drawn(Device& device, const float* logits, extent_t rows, extent_t vocabulary, float temperature) {
    const auto n = static_cast<std::size_t>(rows);
    device.run(op::log_prob_forward{.logits = logits,
                                    .rows = rows,
                                    .vocabulary = vocabulary,
                                    .targets = results_.data(),
                                    .temperature = temperature,
                                    .logp = floats_at(n),
                                    .entropy = floats_at(2 * n)});
  }
  /// What results_ holds of n rows, from `first` on, by one transfer.
  void download(Device& device, std::size_t first, std::size_t n, std::span<std::int32_t> tokens, std::span<float> logp,
                std::span<float> entropy) {
    if (n == 0) return;
    host_results_.resize(3 * n);
    device.download(host_results_.data() + first, results_.data() + first, (3 * n - first) * sizeof(std::int32_t));
    if (!tokens.empty()) std::memcpy(tokens.data(), host_results_.data(), tokens.size_bytes());
    std::memcpy(logp.data(), host_results_.data() + n, logp.size_bytes());
    std::memcpy(entropy.data(), host_results_.data() + 2 * n, entropy.size_bytes());
  }
  void score_in_chunks(Device& device, const nn::vocabulary_chunks& chunks, const float* logits, float temperature,
                       std::span<const std::int32_t> tokens, std::span<float> logp, std::span<float> entropy) {
    if constexpr (Device::host_readable) device.wait();  // for the tokens
    const std::size_t n = tokens.size(), total = static_cast<std::size_t>(chunks.total);
    const auto rows = static_cast<extent_t>(n), vocabulary = static_cast<extent_t>(chunks.vocabulary);
    if (states_.size() < n * total) {
      chunk_tokens_ = {device, n * total};
      chunk_results_ = {device, 2 * n};
      states_ = {device, n * total};
      std::int64_t widest = 0;
      for (std::int64_t c = 0; c < chunks.total; ++c) widest = std::max(widest, chunks.part(c).size());
      part_ = {device, n * static_cast<std::size_t>(widest)};
    }
    chunks.count_from(tokens, 0, chunks.total, counted_);
    device.upload(chunk_tokens_.data(), counted_.data(), counted_.size() * sizeof(std::int32_t));
    for (std::int64_t c = 0; c < chunks.total; ++c) {
      const nn::slice part = chunks.part(c);
      const auto width = static_cast<extent_t>(part.size()), at = static_cast<extent_t>(c) * rows;
      device.run(op::copy_rows{.y = part_.data(),
                               .y_row = width,
                               .x = logits + part.begin,
                               .x_row = vocabulary,
                               .count = rows,
                               .width = width});
      device.run(op::log_prob_accumulate{.states = states_.data() + at,
                                         .logits = part_.data(),
                                         .rows = rows,
                                         .width = width,
                                         .first = 0,
                                         .targets = chunk_tokens_.data() + at,
                                         .temperature = temperature});
    }
    nn::merge_log_probs(device, states_.data(), rows, static_cast<extent_t>(chunks.total));
    device.run(op::log_prob_finish{.states = states_.data(),
                                   .rows = rows,
                                   .temperature = temperature,
                                   .logp = chunk_results_.data(),
                                   .entropy = chunk_results_.data() + n});
    device.download(logp.data(), chunk_results_.data(), logp.size_bytes());
    device.download(entropy.data(), chunk_results_.data() + n, entropy.size_bytes());
  }

  ruled_logits<Device> ruled_;
  std::optional<masked_logits<Device>> masked_, masked_rules_;  // made when they are used
  const float* drawn_from_ = nullptr;
  buffer<double, Device> uniform_;
  buffer<std::int32_t, Device> results_;  // tokens, log-probs, entropies: four bytes each
  std::vector<std::int32_t> host_results_;
  buffer<std::int32_t, Device> chunk_tokens_;  // this and the next three: for chunks
  buffer<float, Device> chunk_results_, part_;
  buffer<log_prob_state, Device> states_;
  std::vector<std::int32_t> counted_;
};

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {

extern template class sampler<cpu>;
extern template class sampler<any_device>;

}  // namespace rollout
RLCORE_END
#endif
