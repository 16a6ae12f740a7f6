// Top log-probs: the most likely tokens of each logits row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/rollout/kept_tokens.hpp"
#include "rlcore/rollout/sampling.hpp"
#include "rlcore/rollout/token_logprob.hpp"
#include "rlcore/tensor/buffer.hpp"

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

}  // namespace rollout
RLCORE_END
