// Log-probs and entropies of given tokens, argmax tokens, values, on the host or in device memory; slopes of a loss
// there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/normed_rows.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/tensor/view.hpp"

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

/// With z the logits at row[i] divided by `temperature`, of the tokens in the sampling mask, and p = softmax(z):
/// logp[i] = z[token[i]] - logsumexp(z) and, unless `entropy` is empty, entropy[i] = logsumexp(z) - sum p z. Keeps the
/// activations of one layer and a tile of logits, at most workspace::logits_bytes() and 8 MiB. Only the last stage of a
/// pipeline writes results.
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
  const head_rows<Device> scores(body.pass, model.head(), temperature, n, space.logits_bytes(), false,
                                 &body.local(wanted.sampling_mask));
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

/// log_probs() into a vector of the model's device, such as a tensor<float, 1, Device>, for losses on the device.
/// Throws what log_probs() throws, and std::invalid_argument under context parallelism if the host cannot read device
/// memory, since each rank then has only the log-probs of its own targets.
template <class Device>
void log_probs(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences, const targets& wanted,
               float temperature, std::type_identity_t<device_view<float, 1, Device>> logp) {
  const std::size_t room = static_cast<std::size_t>(logp.shape[0]);
  if constexpr (Device::host_readable) {
    log_probs(model, space, sequences, wanted, temperature, std::span<float>(logp.data, room), std::span<float>());
  } else {
    check_temperature(temperature);
    if (room != wanted.row.size())
      throw std::invalid_argument("rlcore: log_probs: " + std::to_string(wanted.row.size()) + " targets, room for " +
                                  std::to_string(room) + " log-probs");
    check_output(model, model_output::logits, "log_probs");
    check_targets(wanted, model.settings());
    normed_rows<Device> body(model, space, sequences, wanted.row);
    if (static_cast<std::size_t>(body.count) != room)
      throw std::invalid_argument(
          "rlcore: log_probs on a device under context parallelism: each rank has the log-probs of its own targets; "
          "pass spans of the host, which get those of all targets");
    if (room == 0) return;
    const head_rows<Device> scores(body.pass, model.head(), temperature, body.count, space.logits_bytes(), false,
                                   &body.local(wanted.sampling_mask));
    const std::int32_t* tokens = scores.take_tokens(space, body.local(wanted.token));
    scores.forward(body.pass, body.normed, tokens, body.count, logp.data, nullptr, nullptr);
  }
}

/// Computes slopes on the model's device: f(logp, entropy, dlogp, dentropy), for score models f(value, dvalue), gets
/// device vectors, as in the fields of token_batch<float, Device> and token_gradients<float, Device>. If the host
/// cannot read device memory, they are not copied to the host, and context parallelism throws std::invalid_argument.
/// The host then does not know which slopes are 0: the backward runs for every target, or, if `needed` (one host number
/// per target) is not empty, for those with nonzero `needed`. The other slopes must be 0.
template <class F>
struct slopes_on_device {
  F f;
  std::span<const float> needed = {};
};
template <class F>
slopes_on_device(F) -> slopes_on_device<F>;
template <class F>
slopes_on_device(F, std::span<const float>) -> slopes_on_device<F>;

namespace detail {

template <class>
inline constexpr bool on_device = false;
template <class F>
inline constexpr bool on_device<slopes_on_device<F>> = true;

/// Sets `marks` to nonzero for targets that take part in the backward.
inline void mark_needed(std::vector<float>& marks, std::span<const float> needed, std::size_t targets) {
  if (!needed.empty() && needed.size() != targets)
    throw std::invalid_argument("rlcore: slopes_on_device: " + std::to_string(targets) + " targets, " +
                                std::to_string(needed.size()) + " numbers of those that are needed");
  marks.assign(targets, 1.0f);
  std::copy(needed.begin(), needed.end(), marks.begin());
}

/// Device memory for the slopes of n targets, all 0. Throws std::invalid_argument unless n is the number of all
/// targets.
template <class Device>
float* take_slope_on_device(Device& device, workspace<Device>& space, extent_t n, std::size_t wanted) {
  if (static_cast<std::size_t>(n) != wanted)
    throw std::invalid_argument(
        "rlcore: slopes_on_device under context parallelism: each rank has the log-probs of its own targets; pass the "
        "function itself, which gets those of all targets on the host");
  float* slope = space.template take<float>(n);
  if (n > 0) device.fill_zero(slope, wanted * sizeof(float));
  return slope;
}

}  // namespace detail

}  // namespace nn
RLCORE_END
