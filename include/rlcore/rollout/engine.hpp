// Continuous batching: finished sequences leave the batch and waiting ones take their place in the next pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/rollout/pass_results.hpp"
#include "rlcore/rollout/prefix_cache.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/rollout/session_memory.hpp"

RLCORE_BEGIN
namespace rollout {

/// Statistics of one generate() call.
struct engine_usage {
  std::size_t passes = 0, tokens_fed = 0, preemptions = 0;
  std::int32_t pages_used = 0;  ///< peak
  std::size_t images_read = 0;  ///< by the vision tower
};

/// Takes the number of finished sequences and does nothing.
struct no_progress {
  void operator()(std::size_t) const noexcept {}
};

/// Generates with a paged KV cache. The engine keeps the cache and all other memory between calls: a call that needs no
/// more than an earlier one allocates nothing on the device. One engine serves one model at a time; weights may change
/// between calls. See docs/rollout.md.
template <rlcore::device Device>
class engine {
 public:
  /// Returns one response per request. `key` addresses this call (seed and step). Calls progress(done) whenever
  /// sequences finish. With `turns`, responses have several turns, max_new_tokens long together with what `turns`
  /// appends, and the logit rules count each turn as a new text. `pauses` may end the call early: a later one, with
  /// other weights too, continues its responses by request::written and turn. Temperature 0 records log-probs at
  /// temperature 1. Throws config_error if a sequence does not fit into max_cache_bytes, std::invalid_argument for
  /// images that do not match the model or the image tokens, not_finite_error if logits are not finite, and error if
  /// the logit rules exclude every token of a request.
  template <class Progress = no_progress>
  std::vector<response> generate(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                                 std::span<const request> requests, const generation& settings, random_key key,
                                 Progress&& progress = {}, turn_source* turns = nullptr,
                                 pause_points* pauses = nullptr) {
    check(model.settings(), requests, settings);
    std::vector<response> responses(requests.size());
    std::int64_t window = pauses == nullptr ? 0 : pauses->next(responses);
    while (requests.empty() && window > 0) window = pauses->next(responses);
    if (pauses != nullptr && window == 0)
      for (response& r : responses) r.reason = finish::paused;
    if (requests.empty() || (pauses != nullptr && window == 0)) return responses;
    schedule_limits limits = prepare(model, space, requests, settings, pauses != nullptr);
    // What follows a turn or a pause finds the pages before it.
    limits.share_prefixes = (turns != nullptr || pauses != nullptr) && settings.share_prompts;
    session<Device> open(model, space, limits, settings.share_prompts, settings.weights, memory_);
    const std::shared_ptr<const logit_rules> rules = settings.rules.neutral() && settings.rules.min_tokens == 0
                                                         ? nullptr
                                                         : std::make_shared<const logit_rules>(settings.rules);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      try {
        job asked = job_of(requests[i], settings, rules, key);
        asked.keep_open = turns != nullptr || pauses != nullptr;
        asked.pause_after = window;
        open.submit(std::move(asked));
      } catch (const config_error& e) {
        throw std::invalid_argument(std::string(e.what()) + " (generate: request " + std::to_string(i) + ")");
      }
    }
    recorder record{{},
                    responses,
                    static_cast<std::size_t>(std::min<std::int64_t>(settings.max_new_tokens, 1024)),
                    settings.keep_sampling_mask && settings.sampling.truncates()};
    if (turns != nullptr) turns->begin(requests);
    std::vector<stretch> stretches;
    for (const request& r : requests) stretches.push_back({std::ssize(r.written), 0, window});
    draw(open, record, stretches, turns, pauses, settings.max_new_tokens, progress);
    const session_statistics done = open.statistics();
    usage_ = {done.passes, done.tokens_fed, done.preemptions, memory_.pool.most_used(), done.images_read};
    return responses;
  }

  /// Frees KV cache and logits, until the next call of generate().
  void release() { memory_.release(); }
  /// Current bytes of the KV cache and image rows; at most the last call's max_cache_bytes.
  std::size_t cache_bytes() const noexcept { return memory_.bytes(); }
  /// The usage of the last call.
  engine_usage usage() const noexcept { return usage_; }
  /// The pages of the cache; none is in use between calls.
  const page_pool& pages() const noexcept { return memory_.pool; }

 private:
  /// Records the events of a session; tickets count from 1.
  struct recorder : session_listener {
    std::span<response> responses;
    std::size_t most = 0;  ///< tokens to reserve memory for
    bool keeps_mask = false;
    std::vector<std::size_t> ended = {};  ///< responses with an ended turn

    void on_token(const drawn_token& drawn) {
      response& text = responses[drawn.of - 1];
      if (text.tokens.empty()) text.tokens.reserve(most), text.logp.reserve(most), text.entropy.reserve(most);
      text.tokens.push_back(drawn.token);
      text.logp.push_back(drawn.logp);
      text.entropy.push_back(drawn.entropy);
      if (keeps_mask) text.sampling_mask.push_back(drawn.sampling_mask);
    }
    void on_failure(ticket number, const std::string& why) {
      const std::string message = "generate: request " + std::to_string(number - 1) + ": " + why;
      if (why.ends_with(not_finite_text)) throw not_finite_error(message);
      throw error(message);
    }
    void on_end(ticket number, finish reason) {
      responses[number - 1].reason = reason;
      ended.push_back(number - 1);
    }
  };

  /// How far a response is.
  struct stretch {
    std::int64_t written = 0;    ///< tokens of earlier calls; the others count those of this call
    std::size_t turn = 0;        ///< where its current turn begins
    std::int64_t pauses_at = 0;  ///< if there are pauses
  };
  /// Steps `open` until every response is complete, or `pauses` end the call.
  template <class Progress>
  static void draw(session<Device>& open, recorder& record, std::span<stretch> stretches, turn_source* turns,
                   pause_points* pauses, std::int64_t max_new_tokens, Progress& progress) {
    std::size_t complete = 0;
    std::vector<std::size_t> paused;
    for (;;) {
      std::size_t asked = 0;  // turns whose continuation is awaited
      for (bool drew = true; drew || asked > 0;) {
        drew = open.step(record);
        for (const std::size_t i : std::exchange(record.ended, {})) {
          if (record.responses[i].reason == finish::paused) {
            paused.push_back(i);
          } else if (turns == nullptr) {
            progress(++complete);
          } else {
            turns->end_turn(i, record.responses[i], stretches[i].turn);
            ++asked;
          }
        }
        while (turns != nullptr) {
          const auto next = turns->next(!drew && asked > 0);
          if (!next) break;
          --asked, drew = true;
          if (next->context.empty())
            progress(++complete);
          else
            take_reply(open, record.responses[next->request], stretches[next->request], *next, max_new_tokens, pauses);
        }
      }
      if (pauses == nullptr) return;
      const std::int64_t window = pauses->next(record.responses);
      if (window == 0) return;
      for (const std::size_t i : std::exchange(paused, {})) {
        stretches[i].pauses_at = std::ssize(record.responses[i].tokens) + window;
        open.go_on(i + 1, window);
      }
    }
  }
  /// Appends a reply and begins the next turn, which draws a token at least before it pauses.
  static void take_reply(session<Device>& open, response& r, stretch& of, const turn_source::continuation& reply,
                         std::int64_t max_new_tokens, const pause_points* pauses) {
    r.context.push_back({static_cast<std::int32_t>(r.tokens.size()), static_cast<std::int32_t>(reply.context.size())});
    r.tokens.insert(r.tokens.end(), reply.context.begin(), reply.context.end());
    of.turn = r.tokens.size();
    const std::int64_t length = std::ssize(r.tokens);
    open.extend(reply.request + 1, reply.context, max_new_tokens - of.written - length,
                pauses == nullptr ? 0 : std::max<std::int64_t>(1, of.pauses_at - length));
  }

  static void check(const nn::config& c, std::span<const request> requests, const generation& settings) {
    settings.sampling.validate();
    settings.rules.validate(c.vocab_size, settings.max_new_tokens, c.never_sampled());
    require(settings.max_new_tokens > 0 && settings.max_sequences > 0 && settings.max_batched_tokens > 0,
            "generate: max_new_tokens, max_sequences and max_batched_tokens must be positive");
    for (const request& r : requests) {
      require(!r.prompt.empty(), "generate: a prompt has no token");
      if (!c.vision && !r.images.empty())
        throw std::invalid_argument("rlcore: generate: request " + std::to_string(&r - requests.data()) +
                                    " has images, and the model reads none (no vision_config)");
    }
  }

  static job job_of(const request& r, const generation& settings, const std::shared_ptr<const logit_rules>& rules,
                    random_key key) {
    job asked;
    asked.prompt.assign(r.prompt.begin(), r.prompt.end());
    asked.written.assign(r.written.begin(), r.written.end()), asked.turn = r.turn;
    asked.images.assign(r.images.begin(), r.images.end());
    asked.sampling = settings.sampling, asked.rules = rules;
    asked.max_new_tokens = settings.max_new_tokens - static_cast<std::int64_t>(r.turn);
    asked.stop_ids = settings.eos_ids;
    asked.keep_sampling_mask = settings.keep_sampling_mask;
    asked.key = r.key.value_or(r.call.value_or(key)), asked.prompt_number = r.key ? 0 : r.prompt_number;
    asked.sample = r.sample;
    return asked;
  }

  /// Reserves memory for all sequences, or as much as the limits allow: pages, logits rows, and image rows for a pass,
  /// for the prompts that it begins or ends, and for one prompt that waits for its samples. Responses that pause keep
  /// their pages meanwhile, as far as these go.
  schedule_limits prepare(const nn::causal_lm<Device>& model, const nn::workspace<Device>& space,
                          std::span<const request> requests, const generation& settings, bool pauses) {
    const nn::config& c = model.settings();
    const std::int64_t slots = std::min({settings.max_sequences, std::ssize(requests),
                                         std::int64_t{nn::logit_rows(model, space, std::ssize(requests))}});
    std::int64_t pages = 0, rows = 0, most_rows = 0, longest_prompt = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::int64_t prompt = std::ssize(requests[i].prompt);
      const bool same = i > 0 && same_prompt(requests[i], requests[i - 1]);
      pages += schedule::pages_of(prompt + settings.max_new_tokens);
      if (same && settings.share_prompts) pages -= prompt / kv_page;
      longest_prompt = std::max(longest_prompt, prompt);
      if (!c.vision || same) continue;
      const std::int64_t shown = std::ranges::count(requests[i].prompt, c.image_token_id);
      rows += shown, most_rows = std::max(most_rows, shown);
    }
    const std::int64_t longest = longest_prompt + settings.max_new_tokens, needed = schedule::pages_of(longest);
    rows = std::min(rows, std::min(rows, settings.max_batched_tokens) + 3 * most_rows);
    memory_.images.start(model, rows);
    std::int64_t allowed = memory_.pages_within(model, settings.max_cache_bytes);
    if (needed > allowed) memory_.images.shrink(), allowed = memory_.pages_within(model, settings.max_cache_bytes);
    if (needed > allowed) refuse(model, longest_prompt, settings);
    const std::int64_t decoded = slots * needed + kv_pages(longest_prompt);
    memory_.prepare(model, std::min({allowed, pages, pauses ? pages : decoded}), allowed, slots);
    return {slots, settings.max_batched_tokens, longest, 0, rows, false, settings.chunk_prompts};
  }
  [[noreturn]] void refuse(const nn::causal_lm<Device>& model, std::int64_t prompt, const generation& settings) const {
    const std::size_t page = nn::kv_cache<Device>::page_bytes(model.device(), model.settings(), model.part());
    const auto pages = static_cast<std::size_t>(schedule::pages_of(prompt + settings.max_new_tokens));
    const std::size_t shown = std::min(memory_.images.bytes(), settings.max_cache_bytes);
    throw config_error("generate: a prompt of " + std::to_string(prompt) + " tokens with up to " +
                       std::to_string(settings.max_new_tokens) + " new ones needs " + std::to_string(pages * page) +
                       " bytes of keys and values" +
                       (shown > 0 ? " beside " + std::to_string(shown) + " bytes of images" : "") + ", the limit is " +
                       std::to_string(settings.max_cache_bytes) +
                       "; raise max_cache_bytes (actor_rollout_ref.rollout.gpu_memory_utilization)");
  }

  session_memory<Device> memory_;
  engine_usage usage_;
};

/// Generates with a temporary engine, for a single call.
template <class Device, class Progress = no_progress>
std::vector<response> generate(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                               std::span<const request> requests, const generation& settings, random_key key,
                               Progress&& progress = {}) {
  engine<Device> once;
  return once.generate(model, space, requests, settings, key, progress);
}

}  // namespace rollout
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace rollout {
extern template class engine<cpu>;
extern template class engine<any_device>;
}  // namespace rollout
RLCORE_END
#endif
