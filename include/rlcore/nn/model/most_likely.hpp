// The next token that a model holds most likely, without gradients, in little memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/head/all_logits.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/model/normed_rows.hpp"

RLCORE_BEGIN
namespace nn {

/// out[i] = the token with the largest logit at row rows[i] of the packed batch, the first of several.
template <class Device>
void most_likely(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
                 std::span<const std::int32_t> rows, std::span<std::int32_t> out) {
  check_output(model, model_output::logits, "most_likely");
  if (out.size() != rows.size())
    throw std::invalid_argument("rlcore: most_likely: " + std::to_string(rows.size()) + " rows, room for " +
                                std::to_string(out.size()) + " tokens");
  normed_rows<Device> body(model, space, sequences, rows);
  if (rows.empty()) return;
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

}  // namespace nn
RLCORE_END
