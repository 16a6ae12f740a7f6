// The batch of one forward pass (chunks, draws, scores), and the samples and scores from its logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "rlcore/rollout/sequence.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace rollout {

/// A token to draw. `row` is the row of the pass's logits, `turn` the number of earlier draws from this row, `number`
/// the index of the token after the prompt.
struct scheduled_draw {
  std::int32_t row = 0, turn = 0;
  sequence* of = nullptr;
  std::uint32_t number = 0;
};

/// Row `row` of the pass's logits gives the log-prob of token `number` of the prompt.
struct scheduled_score {
  std::int32_t row = 0;
  sequence* of = nullptr;
  std::int64_t number = 0;
};

/// Copies page `from` to page `to`.
struct page_copy {
  std::int32_t to = 0, from = 0;
};

/// The limits of a schedule. No generated text depends on them.
struct schedule_limits {
  std::int64_t max_sequences = 0;       ///< running at the same time
  std::int64_t max_batched_tokens = 0;  ///< per pass
  std::int64_t longest = 0;             ///< maximum sequence length in tokens
  std::int64_t score_rows = 0;          ///< prompt tokens scored per pass
  std::int64_t image_rows = 0;          ///< image rows of all prompts whose images a pass reads
  bool share_prefixes = false;          ///< prefix caching across sequences
  bool chunk_prompts = true;            ///< chunked prefill; otherwise a prompt longer than a pass goes alone
  std::int64_t prompt_tokens = 0;       ///< prefill tokens per pass; 0: no separate limit
};

/// A list of chunks with their sequences. Keeps its memory between passes.
class pass_chunks {
 public:
  void clear() { chunks_.clear(), owners_.clear(); }
  bool empty() const noexcept { return chunks_.empty(); }
  std::size_t size() const noexcept { return chunks_.size(); }

  /// Appends a chunk of the sequence.
  void push(const nn::decode_chunk& chunk, sequence& s) { chunks_.push_back(chunk), owners_.push_back(&s); }
  /// Chunk number i.
  nn::decode_chunk& operator[](std::size_t i) { return chunks_[i]; }
  std::span<const nn::decode_chunk> all() const noexcept { return chunks_; }
  /// The sequence of each chunk.
  std::span<sequence* const> owners() const noexcept { return owners_; }

  /// Groups chunks with equal sampling settings, so that one sampler call serves them.
  void order() {
    const auto before = [](const sequence* a, const sequence* b) { return a->reading() < b->reading(); };
    if (std::ranges::is_sorted(owners_, before)) return;
    order_.resize(chunks_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {  // stable, without extra memory
      return before(owners_[a], owners_[b]) || (a < b && !before(owners_[b], owners_[a]));
    });
    other_chunks_.clear(), other_owners_.clear();
    for (const std::uint32_t i : order_) other_chunks_.push_back(chunks_[i]), other_owners_.push_back(owners_[i]);
    chunks_.swap(other_chunks_), owners_.swap(other_owners_);
  }

 private:
  std::vector<nn::decode_chunk> chunks_, other_chunks_;
  std::vector<sequence*> owners_, other_owners_;
  std::vector<std::uint32_t> order_;
};

/// Do both have the same grid and bit-identical floats?
inline bool same_image(const nn::image_patches& a, const nn::image_patches& b) {
  return a.grid == b.grid && a.patches.size() == b.patches.size() &&
         (a.patches.data() == b.patches.data() || a.patches.empty() ||
          std::memcmp(a.patches.data(), b.patches.data(), a.patches.size_bytes()) == 0);
}

/// Do both have the same prompt tokens and the same images? Equal tokens are not enough: image tokens encode only
/// their number.
inline bool same_prompt(const request& a, const request& b) {
  const bool same_tokens = a.prompt.size() == b.prompt.size() &&
                           (a.prompt.data() == b.prompt.data() || std::ranges::equal(a.prompt, b.prompt));
  if (!same_tokens || a.images.size() != b.images.size()) return false;
  return a.images.data() == b.images.data() || std::ranges::equal(a.images, b.images, same_image);
}

/// Whether two sequences have the same prompt, images included.
inline bool same_prompt(const sequence& a, const sequence& b) {
  const auto prompt = [](const sequence& s) {
    return request{std::span(s.tokens).first(static_cast<std::size_t>(s.prompt_length)), 0, 0, s.asked.images};
  };
  return same_prompt(prompt(a), prompt(b));
}

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
            likely(i, d.of->asked.top_logprobs),
            masks_.row(i)};
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
    masks_.clear();
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
      while (masks_.rows() < end) masks_.push_back({});  // those of settings without one
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
              std::span(entropy_).subspan(begin, n), std::span(rules_).subspan(begin, n), first.logprob_temperature,
              first.keep_sampling_mask ? &masks_ : nullptr);
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
  ragged<std::int32_t> masks_;         // per draw
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
