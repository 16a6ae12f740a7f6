// Samples and scores from the logits of a pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/rollout/pass_chunks.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/sampler.hpp"

RLCORE_BEGIN
namespace rollout {

/// The drawn tokens, their log-probs and the prompt log-probs. A log-prob may be -infinity, for example for an image
/// token in a prompt. Keeps its memory between passes.
template <rlcore::device Device>
class pass_results {
 public:
  /// Draws and scores from logits (device memory). One sampler call handles adjacent rows with equal settings. A row
  /// whose log-prob is NaN has a problem, and no other row has it: its logits are not finite.
  void read(const nn::causal_lm<Device>& model, const float* logits, std::span<const scheduled_draw> draws,
            std::span<const scheduled_score> scores) {
    const std::size_t count = draws.size() + scores.size();
    own_.resize(count), tokens_.resize(count), logp_.resize(count), entropy_.resize(count);
    if (likely_.size() < count) likely_.resize(count);  // never shrinks: keeps its memory
    draw(model, logits, draws);
    score(model, logits, draws.size(), scores);
    for (std::size_t i = 0; i < draws.size(); ++i)
      if (!problems_[i].empty()) tokens_[i] = -1;
  }

  /// The drawn tokens, in the order of the draws; -1 for a draw with a problem.
  std::span<const std::int32_t> tokens() const noexcept { return std::span(tokens_).first(draws_); }
  /// The reason why draw i has no token, a sentence; empty if it has one.
  const std::string& problem(std::size_t i) const { return problems_[i]; }
  /// The reason why score i has no log-prob; empty if it has one.
  std::string score_problem(std::size_t i, const scheduled_score& s) const {
    if (!std::isnan(logp_[draws_ + i])) return {};
    return "the logits before token " + std::to_string(s.number) + " of the prompt " + std::string(not_finite_text);
  }
  /// Draw number i.
  drawn_token drawn(std::size_t i, const scheduled_draw& d) const {
    const bool asked = d.of->asked.top_logprobs > 0;
    return {d.of->number,
            d.number,
            tokens_[i],
            logp_[i],
            entropy_[i],
            asked ? likely_[i].rank : 0,
            likely(i, d.of->asked.top_logprobs)};
  }
  /// Score number i.
  prompt_token scored(std::size_t i, const scheduled_score& s) const {
    const std::size_t at = draws_ + i;
    return {s.of->number,     static_cast<std::uint32_t>(s.number),    tokens_[at], logp_[at],
            likely_[at].rank, likely(at, *s.of->asked.prompt_logprobs)};
  }

 private:
  static float temperature_of(const job& j) {
    return j.logprob_temperature.value_or(j.sampling.greedy() ? 1 : j.sampling.temperature);
  }
  std::span<const token_logprob> likely(std::size_t i, std::int32_t wanted) const {
    const std::vector<token_logprob>& all = likely_[i].tokens;
    return std::span(all).first(std::min(wanted > 0 ? all.size() : 0, static_cast<std::size_t>(wanted)));
  }

  void draw(const nn::causal_lm<Device>& model, const float* logits, std::span<const scheduled_draw> draws) {
    draws_ = draws.size();
    uniform_.clear(), rules_.clear();
    problems_.assign(draws.size(), {});
    for (const scheduled_draw& d : draws) {
      const job& j = d.of->asked;
      uniform_.push_back(j.key.uniform(j.prompt_number, j.sample, j.first_token + d.number));
      rules_.push_back(d.of->rules());
    }
    const auto vocabulary = static_cast<extent_t>(model.settings().vocab_size);
    for (std::size_t begin = 0, end; begin < draws.size(); begin = end) {
      const job& first = draws[begin].of->asked;
      std::int32_t most = first.top_logprobs;
      for (end = begin + 1; end < draws.size() && draws[end].row == draws[end - 1].row + 1 &&
                            draws[end].of->reading() == draws[begin].of->reading();
           ++end)
        most = std::max(most, draws[end].of->asked.top_logprobs);
      const std::size_t n = end - begin;
      const float* rows = logits + draws[begin].row * vocabulary;
      while (!sample(model, first, rows, begin, n)) {
      }
      for (std::size_t i = begin; i < end; ++i)
        if (std::isnan(logp_[i]))
          problems_[i] = "the logits before token " + std::to_string(draws[i].number) + " of the answer " +
                         std::string(not_finite_text);
      if (first.processed_logprobs)
        find_.kept(model.device(), sample_.drawn_from(), vocabulary, first.sampling,
                   std::span(tokens_).subspan(begin, n), static_cast<std::size_t>(most),
                   std::span(likely_).subspan(begin, n), std::span(logp_).subspan(begin, n));
      else if (most > 0)
        find_likely(model, rows, temperature_of(first), begin, n, most);
    }
  }
  /// Draws from `n` rows. If a row has no token to draw, records the problem, drops the rules of this row and returns
  /// false: call again.
  bool sample(const nn::causal_lm<Device>& model, const job& first, const float* rows, std::size_t begin,
              std::size_t n) {
    try {
      sample_(model.device(), first.sampling, model.head().chunks, rows,
              static_cast<extent_t>(model.settings().vocab_size), std::span(uniform_).subspan(begin, n),
              std::span(tokens_).subspan(begin, n), std::span(logp_).subspan(begin, n),
              std::span(entropy_).subspan(begin, n), std::span(rules_).subspan(begin, n), first.logprob_temperature);
      return true;
    } catch (const undrawable_row& e) {
      problems_[begin + e.row] = e.what();
      rules_[begin + e.row] = {};
      return false;
    }
  }
  void score(const nn::causal_lm<Device>& model, const float* logits, std::size_t at,
             std::span<const scheduled_score> scores) {
    const auto vocabulary = static_cast<extent_t>(model.settings().vocab_size);
    for (std::size_t begin = 0, end; begin < scores.size(); begin = end) {
      const sequence& s = *scores[begin].of;
      for (end = begin; end < scores.size() && scores[end].of == &s; ++end)
        tokens_[at + end] = s.tokens[static_cast<std::size_t>(scores[end].number)];
      const std::size_t first = at + begin, n = end - begin;
      const float* rows = logits + scores[begin].row * vocabulary;
      sample_.score(model.device(), model.head().chunks, rows, vocabulary, temperature_of(s.asked),
                    std::span(tokens_).subspan(first, n), std::span(logp_).subspan(first, n),
                    std::span(entropy_).subspan(first, n));
      find_likely(model, rows, temperature_of(s.asked), first, n, *s.asked.prompt_logprobs);
    }
  }
  /// For `n` rows whose results begin at `first`.
  void find_likely(const nn::causal_lm<Device>& model, const float* rows, float temperature, std::size_t first,
                   std::size_t n, std::int32_t most) {
    for (std::size_t i = first; i < first + n; ++i) own_[i] = {tokens_[i], logp_[i]};
    find_(model.device(), rows, static_cast<extent_t>(model.settings().vocab_size), temperature,
          std::span<const token_logprob>(own_).subspan(first, n), static_cast<std::size_t>(most),
          std::span(likely_).subspan(first, n));
  }

  sampler<Device> sample_;
  likely_tokens_finder<Device> find_;
  std::size_t draws_ = 0;
  std::vector<double> uniform_;
  std::vector<ruled_row> rules_;
  std::vector<std::string> problems_;  // per draw
  std::vector<std::int32_t> tokens_;   // these and the following: draws, then scores
  std::vector<float> logp_, entropy_;
  std::vector<token_logprob> own_;
  std::vector<likely_tokens> likely_;
};

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {
extern template class pass_results<cpu>;
extern template class pass_results<any_device>;
}  // namespace rollout
RLCORE_END
#endif
