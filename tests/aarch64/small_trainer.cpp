// small_trainer [SET OF KERNELS]: GRPO on a model of two layers: 32 answers of 3 tokens a step, rewarded for repeating
// the prompt's token. Prints
//   <namespace of the packs> <hash of the weights, both moments, tokens and log-probs>
// and ends with 0 if the model has learned it. The set is "portable" by default, "best" is the processor's best.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/tensor/span.hpp"

#define RLCORE_TEXT_OF(x) #x
#define RLCORE_TEXT(x) RLCORE_TEXT_OF(x)

namespace {

using namespace rlcore;

constexpr std::size_t prompts = 4, answers = 8, rows = prompts * answers, length = 3, vocabulary = 12;
constexpr std::int64_t steps = 40;

/// FNV-1a over bytes.
struct hash {
  std::uint64_t state = 0xcbf29ce484222325u;
  template <class T>
  void add(std::span<const T> values) {
    for (const T& x : values) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &x, sizeof(T));
      for (const unsigned char b : bytes) state = (state ^ b) * 0x100000001b3u;
    }
  }
};

nn::config tiny() {
  nn::config c;
  c.vocab_size = static_cast<std::int64_t>(vocabulary);
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.initializer_range = 0.1;
  return c;
}

/// Inverse transform sampling of softmax(logits).
std::int32_t drawn(std::span<const float> logits, double u) {
  std::array<double, vocabulary> p{};
  for (std::size_t k = 0; k < vocabulary; ++k) p[k] = elementary::exp(static_cast<double>(logits[k]));
  double left = u * std::accumulate(p.begin(), p.end(), 0.0);
  for (std::size_t k = 0; k + 1 < vocabulary; ++k)
    if ((left -= p[k]) < 0) return static_cast<std::int32_t>(k);
  return static_cast<std::int32_t>(vocabulary - 1);
}

struct trainer {
  cpu device;
  nn::causal_lm<cpu> model{device, tiny()};
  nn::workspace<cpu> space{device};
  nn::gradients<cpu> gradients{model};
  optim::adamw<cpu> optimizer{device, model.size()};
  optim::schedule schedule{.kind = optim::schedule_kind::cosine, .total_steps = 2 * steps, .warmup_steps = 4};
  random_key random{42};
  hash bits;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(rows * (length + 1));
  std::vector<float> old_logp = std::vector<float>(rows * length);

  explicit trainer(std::string_view set) : device(1, set) { model.initialize(7); }

  /// Each row: its prompt, then what the model says, token by token through the cache.
  void generate(std::int64_t step) {
    nn::kv_cache<cpu> cache(device, model.settings(), static_cast<std::int64_t>(rows));
    std::vector<std::int32_t> pages(rows), next(rows);
    std::iota(pages.begin(), pages.end(), 0);
    std::vector<float> logits(rows * vocabulary), logp(rows);
    for (std::size_t r = 0; r < rows; ++r)
      tokens[r * (length + 1)] =
          static_cast<std::int32_t>((static_cast<std::size_t>(step) + r / answers * 3) % vocabulary);
    for (std::size_t t = 0; t < length; ++t) {
      std::vector<nn::decode_chunk> chunks;
      for (std::size_t r = 0; r < rows; ++r)
        chunks.push_back({std::span(tokens).subspan(r * (length + 1) + t, 1), static_cast<std::int64_t>(t),
                          std::span(pages).subspan(r, 1), true});
      nn::decode(model, space, cache, chunks, logits.data());
      for (std::size_t r = 0; r < rows; ++r)
        next[r] = tokens[r * (length + 1) + t + 1] =
            drawn(std::span(logits).subspan(r * vocabulary, vocabulary),
                  random.uniform(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(r),
                                 static_cast<std::uint32_t>(t)));
      nn::log_prob_of(device, logits, next, 1, logp, {});
      for (std::size_t r = 0; r < rows; ++r) old_logp[r * length + t] = logp[r];
    }
    bits.add<std::int32_t>(tokens), bits.add<float>(old_logp);
  }

  /// The mean reward of the answers that the step learned from.
  float step(std::int64_t number) {
    generate(number);
    ragged<std::int32_t> sequences;
    nn::targets targets;
    std::vector<float> reward(rows), advantage(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const std::int32_t> row = std::span(tokens).subspan(r * (length + 1), length + 1);
      for (std::size_t t = 0; t < length; ++t) {
        targets.row.push_back(static_cast<std::int32_t>(r * (length + 1) + t));
        targets.token.push_back(row[t + 1]);
        reward[r] += row[t + 1] == row[0] ? 1.0f : 0.0f;
      }
      sequences.push_back(row);
    }
    const auto grpo = paper::grpo();
    grpo.advantage(reward, answers, advantage);
    const auto shaped = [](auto* values) {
      return matrix_view<std::remove_pointer_t<decltype(values)>>{values, {extent_t{rows}, extent_t{length}}};
    };
    for (int epoch = 0; epoch < 2; ++epoch) {  // in the second, ratios are no longer 1
      gradients.zero();
      nn::forward_backward(model, space, gradients, sequences, targets, 1, false,
                           [&](std::span<const float> logp, auto, std::span<float> dlogp, auto) {
                             const auto old = shaped(static_cast<const float*>(old_logp.data()));
                             const token_batch<float> batch{
                                 .logp = shaped(logp.data()), .old_logp = old, .ref_logp = old, .advantage = advantage};
                             evaluate(serial{}, grpo, batch, loss_counts(batch), {.logp = shaped(dlogp.data())});
                           });
      const double rate = 2e-2 * schedule.factor(optimizer.steps());
      optimizer.step(model.weights(), gradients, rate, optim::clip_scale(optim::global_norm(device, gradients), 1));
    }
    return std::accumulate(reward.begin(), reward.end(), 0.0f) / static_cast<float>(rows * length);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view set = argc > 1 ? argv[1] : "portable";
  trainer t(set == "best" ? "" : set);
  float first = 0, last = 0;
  for (std::int64_t k = 0; k < steps; ++k) {
    const float reward = t.step(k);
    (k < 5 ? first : last) += reward / 5 * (k < 5 || k >= steps - 5 ? 1.0f : 0.0f);
  }
  for (const float* values : {t.model.weights().data(), t.optimizer.m().data(), t.optimizer.v().data()})
    t.bits.add(std::span(values, t.model.size()));
  std::printf("%s %016llx\n", RLCORE_TEXT(RLCORE_ISA), static_cast<unsigned long long>(t.bits.state));
  std::fprintf(stderr, "mean reward %.3f, then %.3f\n", static_cast<double>(first), static_cast<double>(last));
  return first < 0.3f && last > 0.7f ? 0 : 1;
}
