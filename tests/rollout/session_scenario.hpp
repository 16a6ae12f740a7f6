// What tests of sessions share: a tiny model, jobs, a listener that writes down, and texts by whole forward passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/attention/kv_cache.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "rlcore/rollout/session.hpp"

namespace session_scenario {

using namespace rlcore;

inline nn::config tiny() {
  nn::config c;
  c.vocab_size = 50, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 160;
  c.initializer_range = 0.3;  // far from uniform, so that a wrong position or page shows
  return c;
}

struct fixture {
  explicit fixture(int threads = 1, const nn::config& settings = tiny())
      : device(threads), model(device, settings), space(device) {
    model.initialize(11);
  }
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
};

inline std::vector<std::int32_t> words(std::uint32_t seed, std::uint32_t count) {
  std::vector<std::int32_t> all;
  for (std::uint32_t t = 0; t < count; ++t) all.push_back(static_cast<std::int32_t>(random_key{3}.below(50, seed, t)));
  return all;
}

/// `samples` requests for each prompt.
inline std::vector<rollout::request> requests(const std::vector<std::vector<std::int32_t>>& prompts,
                                              std::uint32_t samples) {
  std::vector<rollout::request> all;
  for (std::uint32_t i = 0; i < prompts.size(); ++i)
    for (std::uint32_t k = 0; k < samples; ++k) all.push_back({prompts[i], i, k});
  return all;
}

inline rollout::session_limits limits() { return {.max_sequences = 8, .max_batched_tokens = 64}; }
inline rollout::session_limits with_pages(rollout::session_limits l, std::size_t pages) {
  l.max_cache_bytes = pages * nn::kv_cache<cpu>::page_bytes(cpu(1), tiny());
  return l;
}

/// One of five ways to sample and to end.
inline rollout::job job_of(std::vector<std::int32_t> prompt, std::uint32_t number, std::uint32_t sample = 0) {
  rollout::job j;
  j.prompt = std::move(prompt);
  j.max_new_tokens = 4 + number % 23;
  j.stop_ids = {static_cast<std::int32_t>(number % 7), 30};
  j.key = {5 + number % 3}, j.prompt_number = number, j.sample = sample;
  const rollout::sampling kinds[] = {{.temperature = 0.8f},
                                     {.temperature = 1.1f},
                                     {.temperature = 1, .top_k = 7},
                                     {.temperature = 0.9f, .top_k = -1, .top_p = 0.8f},
                                     {.temperature = 0}};
  j.sampling = kinds[number % 5];
  return j;
}

struct heard_text {
  std::vector<std::int32_t> tokens;
  std::vector<float> logp, entropy;
  std::vector<rollout::finish> ends;
  bool operator==(const heard_text&) const = default;
};

/// Continues `row`, whose next token has `number`, by whole forward passes of one sequence without any schedule.
inline void continue_row(fixture& f, const rollout::job& j, std::vector<std::int32_t> row, std::uint32_t number,
                         std::int64_t most, heard_text& out) {
  const auto pages = static_cast<std::size_t>(kv_pages(std::ssize(row) + most));
  nn::kv_cache<cpu> cache(f.device, f.model.settings(), static_cast<std::int64_t>(pages));
  std::vector<std::int32_t> order;
  for (std::size_t p = 0; p < pages; ++p) order.push_back(static_cast<std::int32_t>(pages - 1 - p));
  std::vector<float> logits(static_cast<std::size_t>(f.model.settings().vocab_size));
  rollout::sampler<cpu> draw;
  for (std::int64_t n = 0; n < most; ++n, ++number) {
    const std::vector<nn::decode_chunk> whole{{row, 0, order, true}};
    nn::decode(f.model, f.space, cache, whole, logits.data());
    const std::vector<double> uniform{j.key.uniform(j.prompt_number, j.sample, j.first_token + number)};
    std::int32_t token = 0;
    float logp = 0, entropy = 0;
    draw(f.device, j.sampling, f.model.head().chunks, logits.data(), static_cast<extent_t>(logits.size()), uniform,
         std::span(&token, 1), std::span(&logp, 1), std::span(&entropy, 1));
    row.push_back(token);
    out.tokens.push_back(token), out.logp.push_back(logp), out.entropy.push_back(entropy);
    if (std::ranges::find(j.stop_ids, token) == j.stop_ids.end()) continue;
    return out.ends.push_back(rollout::finish::eos);
  }
  out.ends.push_back(rollout::finish::length);
}
inline heard_text alone(fixture& f, const rollout::job& j) {
  heard_text out;
  continue_row(f, j, j.prompt, 0, j.max_new_tokens, out);
  return out;
}
/// What the closed engine makes of the job.
inline heard_text closed(fixture& f, const rollout::job& j) {
  rollout::generation how;
  how.sampling = j.sampling, how.max_new_tokens = j.max_new_tokens, how.eos_ids = j.stop_ids;
  if (j.rules) how.rules = *j.rules;
  const std::vector<rollout::request> asked{{j.prompt, j.prompt_number, j.sample, j.images}};
  auto answers = rollout::generate(f.model, f.space, asked, how, j.key, [](std::size_t) {});
  return {answers[0].tokens, answers[0].logp, answers[0].entropy, {answers[0].reason}};
}

/// Writes down what a session says.
struct notes : rollout::session_listener {
  std::map<rollout::ticket, heard_text> of;

  void on_token(const rollout::drawn_token& d) {
    heard_text& t = of[d.of];
    t.tokens.push_back(d.token), t.logp.push_back(d.logp), t.entropy.push_back(d.entropy);
  }
  void on_end(rollout::ticket number, rollout::finish reason) { of[number].ends.push_back(reason); }
};

template <class Device, class Listener>
void finish_all(rollout::session<Device>& s, Listener& listener) {
  while (s.step(listener)) {
  }
}

}  // namespace session_scenario
