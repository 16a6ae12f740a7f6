// Scoring with a score model: one number per chosen row, without gradients, in little memory.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/nn/model/normed_rows.hpp"

RLCORE_BEGIN
namespace nn {

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
  if (rows.empty()) return;
  float* value = space.template take<float>(body.count);
  model.head().forward(body.pass, value, body.normed, body.count);
  body.download(out, value);
}

}  // namespace nn
RLCORE_END
