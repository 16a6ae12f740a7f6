// Batched generation: sequences leave when they finish and waiting ones take their place in the next pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/page_pool.hpp"
#include "rlcore/rollout/prompt_pictures.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/request_rules.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "rlcore/rollout/schedule.hpp"

RLCORE_BEGIN
namespace rollout {

/// The work of a call of generate().
struct engine_usage {
  std::size_t passes = 0, tokens_fed = 0, preemptions = 0;
  std::int32_t pages_used = 0;    ///< the largest number at one time
  std::size_t pictures_read = 0;  ///< by the vision tower
};

/// Generates with a paged cache of keys and values. It keeps the cache and all other memory from call to call: a call
/// that needs no more than an earlier one allocates nothing on the device. One engine serves one model at a time;
/// weights may change between calls. See docs/rollout.md.
template <rlcore::device Device>
class engine {
 public:
  /// Returns one response per request. `key` addresses this call (seed and step). Calls progress(done) whenever
  /// sequences finish. Temperature 0 records log-probs at temperature 1. Throws config_error if one of the sequences
  /// does not fit into max_cache_bytes, std::invalid_argument for pictures that do not fit the model or the image
  /// tokens, and error if logits are not finite.
  template <class Progress>
  std::vector<response> generate(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                                 std::span<const request> requests, const generation& settings, random_key key,
                                 Progress&& progress) {
    check(model.settings(), requests, settings);
    std::vector<response> responses(requests.size());
    if (requests.empty()) return responses;
    const std::int64_t slots = std::min({settings.max_sequences, std::ssize(requests),
                                         std::int64_t{nn::logit_rows(model, space, std::ssize(requests))}});
    pictures_.start(model, requests, settings.max_batched_tokens);
    prepare(model, requests, settings, slots);
    schedule_.start(requests, responses, settings, slots, pool_);
    rules_.start(settings.rules, requests);
    Device& device = model.device();
    const auto vocabulary = static_cast<extent_t>(model.settings().vocab_size);
    while (!schedule_.done()) {
      schedule_.plan();
      for (const page_copy& c : schedule_.copies_before()) cache_->copy_page(c.to, c.from);
      nn::decode(model, space, *cache_, pictures_.show(model, space, schedule_, settings.weights), logits_.data(),
                 settings.weights);
      pictures_.forget(schedule_);
      for (const page_copy& c : schedule_.copies_after()) cache_->copy_page(c.to, c.from);

      const std::span<const scheduled_draw> draws = schedule_.draws();
      uniform_.clear();
      for (const scheduled_draw& d : draws)
        uniform_.push_back(key.uniform(requests[d.request].prompt_number, requests[d.request].sample, d.token));
      const std::span<const ruled_row> rules = rules_.of(draws, responses);
      tokens_.resize(draws.size()), logp_.resize(draws.size()), entropy_.resize(draws.size());
      for (std::size_t begin = 0, end; begin < draws.size(); begin = end) {
        for (end = begin + 1; end < draws.size() && draws[end].row == draws[end - 1].row + 1;) ++end;
        const std::size_t n = end - begin;
        draw_(device, settings.sampling, model.head().chunks, logits_.data() + draws[begin].row * vocabulary,
              vocabulary, std::span(uniform_).subspan(begin, n), std::span(tokens_).subspan(begin, n),
              std::span(logp_).subspan(begin, n), std::span(entropy_).subspan(begin, n),
              rules.empty() ? rules : rules.subspan(begin, n));
      }
      for (std::size_t i = 0; i < draws.size(); ++i)
        if (!std::isfinite(logp_[i]))
          throw error("generate: the logits of request " + std::to_string(draws[i].request) + ", token " +
                      std::to_string(draws[i].token) + ", are not finite: the model's weights are broken");
      const std::size_t before = schedule_.finished();
      rules_.accept(draws, tokens_);
      schedule_.accept(tokens_, logp_, entropy_);
      if (schedule_.finished() != before) progress(schedule_.finished());
    }
    return responses;
  }

  /// Bytes of keys, values and rows of pictures held now; never more than the last call's max_cache_bytes.
  std::size_t cache_bytes() const noexcept { return (cache_ ? cache_->bytes() : 0) + pictures_.bytes(); }
  /// The usage of the last call.
  engine_usage usage() const noexcept {
    return {schedule_.passes(), schedule_.tokens_fed(), schedule_.preemptions(), pool_.most_used(),
            pictures_.pictures_read()};
  }
  /// The pages of the cache; none is in use between calls.
  const page_pool& pages() const noexcept { return pool_; }

 private:
  static void check(const nn::config& model, std::span<const request> requests, const generation& settings) {
    settings.sampling.validate();
    settings.rules.validate(model.vocab_size, settings.max_new_tokens, model.never_sampled());
    require(settings.max_new_tokens > 0 && settings.max_sequences > 0 && settings.max_batched_tokens > 0,
            "generate: max_new_tokens, max_sequences and max_batched_tokens must be positive");
    for (const request& r : requests) require(!r.prompt.empty(), "generate: a prompt has no token");
  }

  /// Allocates cache, pages and logits for all sequences, or as much as the limits allow.
  void prepare(const nn::causal_lm<Device>& model, std::span<const request> requests, const generation& settings,
               std::int64_t slots) {
    const nn::config& c = model.settings();
    const std::size_t page_bytes = nn::kv_cache<Device>::page_bytes(c, model.part());
    std::size_t shown = 0;  // bytes of rows of pictures
    const auto pages_beside_pictures = [&] {
      shown = std::min(pictures_.bytes(), settings.max_cache_bytes);
      return static_cast<std::int64_t>(
          std::min<std::size_t>((settings.max_cache_bytes - shown) / page_bytes, 0x7fffffff));
    };
    std::int64_t allowed = pages_beside_pictures();
    std::int64_t total = 0, longest = 0, longest_prompt = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::int64_t needed = schedule::pages_of(requests[i], settings), prompt = std::ssize(requests[i].prompt);
      const bool shares = settings.share_prompts && i > 0 && same_prompt(requests[i], requests[i - 1]);
      total += shares ? needed - prompt / kv_page : needed;
      longest = std::max(longest, needed);
      longest_prompt = std::max(longest_prompt, prompt);
    }
    if (longest > allowed) pictures_.shrink(), allowed = pages_beside_pictures();
    if (longest > allowed)
      throw config_error("generate: a prompt of " + std::to_string(longest_prompt) + " tokens with up to " +
                         std::to_string(settings.max_new_tokens) + " new ones needs " +
                         std::to_string(static_cast<std::size_t>(longest) * page_bytes) + " bytes of keys and values" +
                         (shown > 0 ? " beside " + std::to_string(shown) + " bytes of pictures" : "") +
                         ", the limit is " + std::to_string(settings.max_cache_bytes) +
                         "; raise max_cache_bytes (actor_rollout_ref.rollout.gpu_memory_utilization)");
    const std::int64_t pages = std::min({allowed, total, slots * longest + kv_pages(longest_prompt)});
    const bool fits =
        cache_ && device_ == &model.device() && page_bytes_ == page_bytes && layers_ == c.num_hidden_layers;
    if (!fits || cache_->pages() < pages || cache_->pages() > allowed) {
      cache_.reset();  // before the new one is allocated
      cache_ = std::make_unique<nn::kv_cache<Device>>(model.device(), c, pages, model.part());
      device_ = &model.device(), page_bytes_ = page_bytes, layers_ = c.num_hidden_layers;
    }
    pool_.reset(static_cast<std::int32_t>(cache_->pages()));
    const auto logits = static_cast<std::size_t>(slots * c.vocab_size);
    if (!fits || logits_.size() < logits) {
      logits_ = {};
      logits_ = {model.device(), logits};
    }
  }

  schedule schedule_;
  prompt_pictures<Device> pictures_;
  page_pool pool_;
  std::unique_ptr<nn::kv_cache<Device>> cache_;
  buffer<float, Device> logits_;
  sampler<Device> draw_;
  request_rules rules_;
  Device* device_ = nullptr;  ///< with the next two: the device, page size and layers of the cache
  std::size_t page_bytes_ = 0;
  std::int64_t layers_ = 0;
  std::vector<double> uniform_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logp_, entropy_;
};

/// Generates with a temporary engine, for a single call.
template <class Device, class Progress>
std::vector<response> generate(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                               std::span<const request> requests, const generation& settings, random_key key,
                               Progress&& progress) {
  engine<Device> once;
  return once.generate(model, space, requests, settings, key, progress);
}

}  // namespace rollout
RLCORE_END
