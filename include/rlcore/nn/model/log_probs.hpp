// Inference: log-probs and entropies of given tokens, argmax tokens, values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/head/all_logits.hpp"
#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/normed_rows.hpp"

RLCORE_BEGIN
namespace nn {

/// Rows of logits that fit the workspace's limit.
template <class Device>
extent_t logit_rows(const causal_lm<Device>& model, const workspace<Device>& space, extent_t rows) {
  const auto row_bytes = static_cast<std::size_t>(model.settings().vocab_size) * sizeof(float);
  return std::max<extent_t>(1, std::min(rows, static_cast<extent_t>(space.logits_bytes() / row_bytes)));
}

/// Throws std::invalid_argument unless the temperature is positive.
inline void check_temperature(float temperature) {
  if (!(temperature > 0))
    throw std::invalid_argument("rlcore: temperature must be positive, got " + std::to_string(temperature));
}

/// With z the logits at row[i] divided by `temperature` and p = softmax(z): logp[i] = z[token[i]] - logsumexp(z) and,
/// unless `entropy` is empty, entropy[i] = logsumexp(z) - sum p z. Keeps the activations of one layer and a tile of
/// logits, at most workspace::logits_bytes() and 8 MiB. Only the last stage of a pipeline writes results.
template <class Device>
void log_probs(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences, const targets& wanted,
               float temperature, std::span<float> logp, std::span<float> entropy) {
  const auto count = static_cast<extent_t>(wanted.row.size());
  check_temperature(temperature);
  if (std::ssize(logp) != count || (std::ssize(entropy) != count && !entropy.empty()))
    throw std::invalid_argument("rlcore: log_probs: " + std::to_string(count) + " targets, room for " +
                                std::to_string(logp.size()) + " log-probs and " + std::to_string(entropy.size()) +
                                " entropies");
  check_output(model, model_output::logits, "log_probs");
  check_targets(wanted, model.settings());
  normed_rows<Device> body(model, space, sequences, wanted.row);
  if (count == 0 || body.passed_on()) return;
  const extent_t n = body.count;
  float* results = space.template take<float>(2 * n);
  const head_rows<Device> scores(body.pass, model.head(), temperature, n, space.logits_bytes(), false);
  const std::int32_t* tokens = scores.take_tokens(space, body.local(wanted.token));
  scores.forward(body.pass, body.normed, tokens, n, results, entropy.empty() ? nullptr : results + n, nullptr);
  body.download(logp, results);
  if (!entropy.empty()) body.download(entropy, results + n);
}

/// out[i] = argmax of the logits at row rows[i] of the packed batch; ties: the first.
template <class Device>
void most_likely(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
                 std::span<const std::int32_t> rows, std::span<std::int32_t> out) {
  check_output(model, model_output::logits, "most_likely");
  if (out.size() != rows.size())
    throw std::invalid_argument("rlcore: most_likely: " + std::to_string(rows.size()) + " rows, room for " +
                                std::to_string(out.size()) + " tokens");
  normed_rows<Device> body(model, space, sequences, rows);
  if (rows.empty() || body.passed_on()) return;
  const extent_t n = body.count, h = static_cast<extent_t>(model.settings().hidden_size);
  const extent_t at_once = logit_rows(model, space, n);
  const auto vocabulary = static_cast<std::size_t>(model.settings().vocab_size);
  float* logits = space.template take<float>(at_once * static_cast<extent_t>(vocabulary));
  std::vector<float> host;
  for (extent_t first = 0; first < n; first += at_once) {
    const extent_t count = std::min(at_once, n - first);
    all_logits(model, body.pass, logits, body.normed + first * h, count);
    host.resize(static_cast<std::size_t>(count) * vocabulary);
    model.device().download(host.data(), logits, host.size() * sizeof(float));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto row = host.begin() + static_cast<std::ptrdiff_t>(i * vocabulary);
      out[static_cast<std::size_t>(first) + i] =
          static_cast<std::int32_t>(std::max_element(row, row + static_cast<std::ptrdiff_t>(vocabulary)) - row);
    }
  }
  body.gather(out);
}

/// out[i] = score . h (+ bias), h the normed last hidden state of row rows[i] of the packed batch. Keeps the
/// activations of one layer. The bits are those of value_forward_backward and do not depend on the rest of the batch.
template <class Device>
void values(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
            std::span<const std::int32_t> rows, std::span<float> out) {
  check_output(model, model_output::score, "values");
  if (out.size() != rows.size())
    throw std::invalid_argument("rlcore: values: " + std::to_string(rows.size()) + " rows, room for " +
                                std::to_string(out.size()) + " values");
  normed_rows<Device> body(model, space, sequences, rows);
  if (rows.empty() || body.passed_on()) return;
  float* value = space.template take<float>(body.count);
  model.head().forward(body.pass, value, body.normed, body.count);
  body.download(out, value);
}

}  // namespace nn

RLCORE_END
