// Batched generation: sequences leave when they finish and waiting ones take their place in the same pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/decode.hpp"
#include "rlcore/nn/kv_cache.hpp"
#include "rlcore/nn/log_prob_of.hpp"
#include "rlcore/rollout/sampler.hpp"

RLCORE_BEGIN
namespace rollout {

/// One continuation to generate. (prompt_number, sample) address its random numbers: equal addresses, equal text,
/// whatever else is generated beside it.
struct request {
  std::span<const std::int32_t> prompt;
  std::uint32_t prompt_number = 0, sample = 0;
};

enum class finish { eos, length };

/// The generated tokens, the EOS included if one was drawn, with log-prob and entropy under the *untruncated* tempered
/// distribution: the same bits that training computes for the same tokens.
struct response {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;
  finish reason = finish::length;
};

struct generation {
  sampling how;
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> eos_ids;
  std::int64_t max_sequences = 64;         ///< decoded together (verl's rollout.max_num_seqs)
  std::int64_t max_batched_tokens = 2048;  ///< tokens of one forward pass (verl's rollout.max_num_batched_tokens)
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< keys and values of all running sequences
};

/// Generates one response per request. `key` addresses this call (seed and step); `progress(done)` is called whenever
/// sequences finish. Temperature 0 records log-probs at temperature 1.
template <class Device, class Progress>
std::vector<response> generate(nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                               std::span<const request> requests, const generation& settings, random_key key,
                               Progress&& progress) {
  settings.how.validate();
  require(settings.max_new_tokens > 0 && settings.max_sequences > 0 && settings.max_batched_tokens > 0,
          "generate: max_new_tokens, max_sequences and max_batched_tokens must be positive");
  std::int64_t longest = 0;
  for (const request& r : requests) {
    require(!r.prompt.empty(), "generate: a prompt has no token");
    longest = std::max<std::int64_t>(longest, std::ssize(r.prompt));
  }
  const nn::config& config = model.settings();
  const std::int64_t capacity = longest + settings.max_new_tokens;
  const std::int64_t slot_pages = nn::kv_cache<Device>::pages_for(capacity);
  const std::size_t bytes_per_slot = static_cast<std::size_t>(slot_pages) * nn::kv_cache<Device>::page_bytes(config);
  const std::size_t slots = std::min({static_cast<std::size_t>(settings.max_sequences), requests.size(),
                                      std::max<std::size_t>(1, settings.max_cache_bytes / bytes_per_slot)});
  const auto vocabulary = static_cast<std::size_t>(config.vocab_size);
  nn::kv_cache<Device> cache(model.device(), config, static_cast<std::int64_t>(slots) * slot_pages);
  std::vector<std::int32_t> pages(static_cast<std::size_t>(cache.pages()));
  std::iota(pages.begin(), pages.end(), 0);

  struct running {
    std::size_t request = 0;
    std::size_t fed = 0;  // tokens of prompt + response whose keys and values are in the cache
    bool busy = false;
  };
  std::vector<running> slot(slots);
  std::vector<response> responses(requests.size());
  std::vector<std::int32_t> ids, drawn;
  std::vector<nn::decode_chunk> chunks;
  std::vector<std::size_t> owner;
  std::vector<float> logits, logp, entropy;
  sampler draw;
  const float temperature = settings.how.greedy() ? 1.0f : settings.how.temperature;

  std::size_t next = 0, done = 0;
  while (done < requests.size()) {
    ids.clear(), chunks.clear(), owner.clear();
    ids.reserve(std::min(static_cast<std::size_t>(settings.max_batched_tokens),
                         slots * static_cast<std::size_t>(capacity)));  // chunks point into it
    for (std::size_t s = 0; s < slots; ++s) {
      running& run = slot[s];
      if (!run.busy) {
        if (next == requests.size()) continue;
        run = {next++, 0, true};
      }
      const request& r = requests[run.request];
      const response& text = responses[run.request];
      const std::size_t length = r.prompt.size() + text.tokens.size();
      const auto room =
          static_cast<std::size_t>(std::max<std::int64_t>(0, settings.max_batched_tokens - std::ssize(ids)));
      const std::size_t take = std::min(length - run.fed, room);  // a long prompt enters in chunks
      if (take == 0) continue;
      const std::size_t first = run.fed, begin = ids.size();
      for (; run.fed < first + take; ++run.fed)
        ids.push_back(run.fed < r.prompt.size() ? r.prompt[run.fed] : text.tokens[run.fed - r.prompt.size()]);
      chunks.push_back(
          {std::span(ids).subspan(begin, take), static_cast<std::int64_t>(first),
           std::span(pages).subspan(s * static_cast<std::size_t>(slot_pages), static_cast<std::size_t>(slot_pages)),
           run.fed == length});
      if (run.fed == length) owner.push_back(s);
    }
    logits.resize(owner.size() * vocabulary);
    nn::decode(model, space, cache, chunks, logits.data());

    drawn.resize(owner.size());
    for (std::size_t i = 0; i < owner.size(); ++i) {
      const request& r = requests[slot[owner[i]].request];
      const auto position = static_cast<std::uint32_t>(responses[slot[owner[i]].request].tokens.size());
      const double u = key.uniform(r.prompt_number, r.sample, position);
      drawn[i] = draw({logits.data() + i * vocabulary, vocabulary}, settings.how, u);
    }
    logp.resize(owner.size());
    entropy.resize(owner.size());
    nn::log_prob_of(model.device(), logits, drawn, temperature, logp, entropy);

    const std::size_t before = done;
    for (std::size_t i = 0; i < owner.size(); ++i) {
      running& run = slot[owner[i]];
      response& text = responses[run.request];
      text.tokens.push_back(drawn[i]);
      text.logp.push_back(logp[i]);
      text.entropy.push_back(entropy[i]);
      const bool ended =
          std::find(settings.eos_ids.begin(), settings.eos_ids.end(), drawn[i]) != settings.eos_ids.end();
      if (ended || std::ssize(text.tokens) == settings.max_new_tokens) {
        text.reason = ended ? finish::eos : finish::length;
        run.busy = false;
        ++done;
      }
    }
    if (done != before) progress(done);
  }
  return responses;
}

}  // namespace rollout
RLCORE_END
