// Logits before a draw: rules with the history of a sequence's tokens, and the tokens that top-k, top-p and min-p keep.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace rollout {

/// The distinct tokens of a sequence's prompt and text, with the number of times each was generated. A function of
/// prompt and text only. A hash table with 8 bytes per slot: appending a token takes constant time.
class token_history {
 public:
  /// Resets to `prompt` and the text so far. Tokens are >= 0.
  void start(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated = {});
  /// Appends a generated token.
  void add(std::int32_t token) { ++place_of(token).generated; }

  /// Does the token occur in the prompt or the text?
  bool contains(std::int32_t token) const noexcept { return !places_.empty() && places_[find(token)].token == token; }
  /// How often the token was generated.
  std::int64_t generated(std::int32_t token) const noexcept {
    return contains(token) ? places_[find(token)].generated : 0;
  }
  /// Distinct tokens.
  std::size_t size() const noexcept { return distinct_; }

  /// Calls f(token, times generated) once for each distinct token, in unspecified order.
  template <class F>
  void for_each(F&& f) const {
    for (const place& p : places_)
      if (p.token != empty) f(p.token, std::int64_t{p.generated});
  }

 private:
  static constexpr std::int32_t empty = -1;
  struct place {
    std::int32_t token = empty;
    std::uint32_t generated = 0;
  };

  /// The slot of the token, or the empty slot for it. The number of slots is a power of two.
  std::size_t find(std::int32_t token) const noexcept;
  place& place_of(std::int32_t token);
  void grow();

  std::vector<place> places_;
  std::size_t distinct_ = 0;
};

/// The rules of a logits row and their inputs; non-owning.
struct ruled_row {
  const logit_rules* rules = nullptr;            ///< null: the row does not change
  const token_history* history = nullptr;        ///< of prompt and text; required if rules->penalises()
  std::span<const std::int32_t> generated = {};  ///< the text so far

  bool neutral() const noexcept { return rules == nullptr || rules->neutral(); }
};

namespace detail {

/// Excludes all tokens that are not in `allowed`.
void keep_allowed(std::span<const std::int32_t> allowed, std::span<float> logits, std::vector<float>& kept);

/// Excludes the last token of a word if the text ends with the tokens before it.
inline void exclude_bad_word(std::span<const std::int32_t> word, std::span<const std::int32_t> generated,
                             std::span<float> logits) {
  const std::span<const std::int32_t> begin = word.first(word.size() - 1);
  if (generated.size() >= begin.size() && std::ranges::equal(generated.last(begin.size()), begin))
    logits[static_cast<std::size_t>(word.back())] = -std::numeric_limits<float>::infinity();
}

void penalise(const logit_rules& rules, const token_history& history, std::span<float> logits);

}  // namespace detail

/// Changes the float32 logits of one row as vLLM's sampler does: allowed ids, bad words, min_tokens, logit_bias, then
/// the penalties, with l > 0 ? l / rho : l rho for tokens of prompt and text, l - f count and l - p for tokens of the
/// text. `kept` is scratch memory. Throws error if all logits are -infinity.
void apply_rules(const ruled_row& row, std::span<float> logits, std::vector<float>& kept);

/// The rules exclude every token of a row, given by its index in the call.
struct undrawable_row : error {
  std::size_t row;
  /// `number` is the row; `problem` describes the cause.
  undrawable_row(std::size_t number, const std::string& problem) : error(problem), row(number) {}
};

/// Applies rules to a copy of the logits, on the host; if the host cannot read device memory, rows with rules are
/// downloaded and uploaded. Keeps its memory between calls.
template <rlcore::device Device>
class ruled_logits {
 public:
  /// logits [rows.size(), vocabulary] (device memory) under rows[i], with the rules applied, as a copy that is valid
  /// until the next call; the logits themselves if all rules are neutral. Throws undrawable_row.
  const float* operator()(Device& device, const float* logits, extent_t vocabulary, std::span<const ruled_row> rows) {
    if (std::ranges::all_of(rows, &ruled_row::neutral)) return logits;
    const auto width = static_cast<std::size_t>(vocabulary);
    if (copy_.size() < rows.size() * width) copy_ = {device, rows.size() * width};
    device.run(op::copy_rows{.y = copy_.data(),
                             .y_row = vocabulary,
                             .x = logits,
                             .x_row = vocabulary,
                             .count = static_cast<extent_t>(rows.size()),
                             .width = vocabulary});
    if constexpr (Device::host_readable) device.wait();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].neutral()) continue;
      float* row = copy_.data() + i * width;
      if constexpr (Device::host_readable) {
        apply(i, rows[i], std::span(row, width));
      } else {
        host_.resize(width);
        device.download(host_.data(), row, width * sizeof(float));
        apply(i, rows[i], host_);
        device.upload(row, host_.data(), width * sizeof(float));
      }
    }
    return copy_.data();
  }

 private:
  void apply(std::size_t number, const ruled_row& row, std::span<float> logits) {
    try {
      apply_rules(row, logits, kept_);
    } catch (const error& e) {
      throw undrawable_row(number, e.what());
    }
  }

  buffer<float, Device> copy_;
  std::vector<float> kept_, host_;  // host_ holds one row
};

/// kept = the tokens that `settings` may draw from a row of logits, by descending probability, ties by id, with the
/// log-probs of the draw: softmax(logits / temperature) over the tokens left by min_p, top_k and then top_p, in double.
/// Greedy: all of softmax(logits). On the host and in double, so a token at the edge may be kept that op::sample drops.
void kept_tokens(const sampling& settings, std::span<const float> logits, std::vector<token_logprob>& kept);

/// Sampling masks of rows of logits, on the threads of the host, and copies of the rows without the tokens outside of
/// them. Keeps its memory between calls.
template <rlcore::device Device>
class masked_logits {
 public:
  /// Appends to `masks` the tokens that `settings` may draw from each row of logits [rows, vocabulary] (device memory),
  /// ascending; none if those are all tokens or if a logit is not a number.
  void add_masks(Device& device, const sampling& settings, const float* logits, extent_t rows, extent_t vocabulary,
                 ragged<std::int32_t>& masks) {
    const auto n = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(vocabulary);
    const float* const values = read(device, logits, n * width);
    if (ids_.size() < n) ids_.resize(n);
    const std::size_t parts = std::min(n, pool_.concurrency());
    pool_.for_each(parts, [&](std::size_t part) {
      std::vector<token_logprob> kept;
      for (std::size_t r = part; r < n; r += parts) find_mask(settings, {values + r * width, width}, kept, ids_[r]);
    });
    for (std::size_t r = 0; r < n; ++r) masks.push_back(ids_[r]);
  }
  /// A copy of logits [rows, vocabulary] (device memory), -infinity outside of the masks first, first + 1, ..., valid
  /// until the next call.
  const float* operator()(Device& device, const float* logits, extent_t rows, extent_t vocabulary,
                          const ragged<std::int32_t>& masks, std::size_t first) {
    const auto n = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(vocabulary);
    const float* const values = read(device, logits, n * width);
    if (copy_.size() < n * width) copy_ = {device, n * width};
    masked_.resize(n * width);
    pool_.for_each(n, [&](std::size_t r) {
      const std::span<const float> row(values + r * width, width);
      const std::span<float> to(masked_.data() + r * width, width);
      const std::span<const std::int32_t> mask = masks.row(first + r);
      if (mask.empty()) return static_cast<void>(std::ranges::copy(row, to.begin()));
      std::ranges::fill(to, -std::numeric_limits<float>::infinity());
      for (const std::int32_t id : mask) to[static_cast<std::size_t>(id)] = row[static_cast<std::size_t>(id)];
    });
    device.upload(copy_.data(), masked_.data(), n * width * sizeof(float));
    return copy_.data();
  }

 private:
  static void find_mask(const sampling& settings, std::span<const float> row, std::vector<token_logprob>& kept,
                        std::vector<std::int32_t>& ids) {
    ids.clear();
    if (std::ranges::any_of(row, [](float x) { return !(x < std::numeric_limits<float>::infinity()); })) return;
    kept_tokens(settings, row, kept);
    if (kept.size() == row.size()) return;
    for (const token_logprob& t : kept) ids.push_back(t.token);
    std::ranges::sort(ids);
  }
  /// n values of device memory on the host.
  const float* read(Device& device, const float* logits, std::size_t n) {
    if constexpr (Device::host_readable) {
      device.wait();
      return logits;
    } else {
      host_.resize(n);
      device.download(host_.data(), logits, n * sizeof(float));
      return host_.data();
    }
  }

  rlcore::threads pool_;
  std::vector<float> host_, masked_;
  std::vector<std::vector<std::int32_t>> ids_;  // of each row
  buffer<float, Device> copy_;
};

}  // namespace rollout
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_ROLLOUT)
RLCORE_BEGIN
namespace rollout {

RLCORE_INLINE void token_history::start(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated) {
  places_.clear();
  distinct_ = 0;
  for (const std::int32_t token : prompt) place_of(token);
  for (const std::int32_t token : generated) add(token);
}

RLCORE_INLINE std::size_t token_history::find(std::int32_t token) const noexcept {
  const std::size_t mask = places_.size() - 1;
  const std::uint64_t mixed = static_cast<std::uint64_t>(token) * 0x9e3779b97f4a7c15u;
  std::size_t at = static_cast<std::size_t>(mixed >> 32) & mask;
  while (places_[at].token != token && places_[at].token != empty) at = (at + 1) & mask;
  return at;
}

RLCORE_INLINE auto token_history::place_of(std::int32_t token) -> place& {
  if (2 * (distinct_ + 1) > places_.size()) grow();
  place& p = places_[find(token)];
  if (p.token == empty) p.token = token, ++distinct_;
  return p;
}

RLCORE_INLINE void token_history::grow() {
  const std::vector<place> before =
      std::exchange(places_, std::vector<place>(places_.empty() ? 64 : 2 * places_.size()));
  for (const place& p : before)
    if (p.token != empty) places_[find(p.token)] = p;
}

}  // namespace rollout

namespace rollout::detail {

RLCORE_INLINE void keep_allowed(std::span<const std::int32_t> allowed, std::span<float> logits,
                                std::vector<float>& kept) {
  kept.clear();
  for (const std::int32_t token : allowed) kept.push_back(logits[static_cast<std::size_t>(token)]);
  std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < allowed.size(); ++i) logits[static_cast<std::size_t>(allowed[i])] = kept[i];
}

RLCORE_INLINE void penalise(const logit_rules& rules, const token_history& history, std::span<float> logits) {
  history.for_each([&](std::int32_t token, std::int64_t times) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / rules.repetition_penalty : logit * rules.repetition_penalty;
    if (times == 0) return;
    logit -= rules.frequency_penalty * static_cast<float>(times);
    logit -= rules.presence_penalty;
  });
}

}  // namespace rollout::detail

namespace rollout {

RLCORE_INLINE void apply_rules(const ruled_row& row, std::span<float> logits, std::vector<float>& kept) {
  if (row.neutral()) return;
  const logit_rules& rules = *row.rules;
  constexpr float excluded = -std::numeric_limits<float>::infinity();
  if (!rules.allowed_token_ids.empty()) detail::keep_allowed(rules.allowed_token_ids, logits, kept);
  for (const auto& word : rules.bad_words) detail::exclude_bad_word(word, row.generated, logits);
  if (std::ssize(row.generated) < rules.min_tokens)
    for (const std::int32_t token : rules.ending_ids) logits[static_cast<std::size_t>(token)] = excluded;
  for (const token_bias& b : rules.logit_bias)
    logits[static_cast<std::size_t>(b.token)] += std::clamp(b.bias, -100.0f, 100.0f);
  if (rules.penalises()) detail::penalise(rules, *row.history, logits);
  if (std::ranges::none_of(logits, [](float logit) { return logit != excluded; }))
    throw error("allowed_token_ids, bad_words and min_tokens leave no token to draw");
}

RLCORE_INLINE void kept_tokens(const sampling& settings, std::span<const float> logits,
                               std::vector<token_logprob>& kept) {
  const sampling how = settings.greedy() ? sampling{} : settings;
  kept.clear();
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > -std::numeric_limits<float>::infinity())) continue;
    kept.push_back({static_cast<std::int32_t>(i), logits[i]});
    largest = std::max(largest, logits[i]);
  }
  const auto below = [&](const token_logprob& t) {
    return (static_cast<double>(t.logp) - static_cast<double>(largest)) / static_cast<double>(how.temperature);
  };
  if (how.min_p > 0) {
    const double least = elementary::log(static_cast<double>(how.min_p));
    std::erase_if(kept, [&](const token_logprob& t) { return below(t) < least; });
  }
  const auto likelier = [](const token_logprob& a, const token_logprob& b) {
    return a.logp > b.logp || (a.logp == b.logp && a.token < b.token);
  };
  if (how.top_k > 0 && how.top_k < std::ssize(kept)) {
    std::ranges::nth_element(kept, kept.begin() + how.top_k, likelier);
    kept.resize(static_cast<std::size_t>(how.top_k));
    std::ranges::sort(kept, likelier);  // nth_element leaves an order of its own
  }
  double total = 0;
  for (const token_logprob& t : kept) total += elementary::exp(below(t));
  if (how.top_p < 1) {
    const double enough = total * static_cast<double>(how.top_p);
    // The tokens below this sum to less than 1 - top_p of the total: nothing to sort.
    const double least = elementary::log((total - enough) / static_cast<double>(kept.size())) - 1;
    std::erase_if(kept, [&](const token_logprob& t) { return below(t) < least; });
    std::ranges::sort(kept, likelier);
    std::size_t n = 0;
    for (total = 0; n < kept.size() && total < enough; ++n) total += elementary::exp(below(kept[n]));
    kept.resize(n);
  } else {
    std::ranges::sort(kept, likelier);
  }
  const double log_total = elementary::log(total);
  for (token_logprob& t : kept) t.logp = static_cast<float>(below(t) - log_total);
}

}  // namespace rollout
RLCORE_END
#endif
