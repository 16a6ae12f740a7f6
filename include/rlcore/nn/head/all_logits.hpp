// All-gathers the logits of the whole vocabulary under tensor parallelism.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// out [n, vocabulary] for normed rows, bit-identical in all ranks. Uses workspace memory during the call.
template <class Device>
void all_logits(const causal_lm<Device>& model, const pass<Device>& p, float* out, const float* normed, extent_t n) {
  if (!p.tensor) return model.head().forward(p, out, normed, n);
  const typename workspace<Device>::scope scope(p.space);
  const auto local = static_cast<extent_t>(model.vocabulary().size()),
             vocabulary = static_cast<extent_t>(model.settings().vocab_size);
  float *mine = p.space.template take<float>(n * local), *parts = p.space.template take<float>(n * vocabulary);
  model.head().forward(p, mine, normed, n);
  pass<Device> gathered = p;  // [local, n] of every rank, concatenated
  row_share share;
  const int ranks = p.tensor->size();
  for (int r = 0; r < ranks; ++r)
    share.counts.push_back(static_cast<std::size_t>(vocabulary_part(model.settings().vocab_size, r, ranks).size()));
  share.rows = local;
  gathered.tokens = vocabulary, gathered.share = &share;
  all_rows(gathered, mine, parts, n);
  extent_t first = 0;
  for (const std::size_t columns : share.counts) {
    const auto width = static_cast<extent_t>(columns);
    p.device.run(op::copy_rows{
        .y = out + first, .y_row = vocabulary, .x = parts + first * n, .x_row = width, .count = n, .width = width});
    first += width;
  }
}

}  // namespace nn
RLCORE_END
