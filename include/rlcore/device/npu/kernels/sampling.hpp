// Token sampling from logits on the NPU: temperature, top-k, top-p, min-p.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// See op::sample. The inverse CDF is computed in float. A draw within about 1e-6 of the boundary between two
/// tokens may give a different token than on the CPU.
class sampler {
 public:
  /// tokens[t] from logits [t, vocabulary] and t numbers `uniform` in [0, 1), all in device memory.
  void operator()(context& c, const sampling_arguments& arguments, const float* logits, extent_t t, extent_t vocabulary,
                  const double* uniform, std::int32_t* tokens);

 private:
  static void most_likely(const context& c, tensor_ref rows, extent_t n, tensor_ref to) {
    const auto chosen = c.take<std::int64_t>(n);
    c.run(c.op().aclnnArgMax, rows, std::int64_t{1}, true, c.view(chosen.data(), {n, 1}));
    c.cast(c.view(chosen.data(), {n, 1}), to);
  }
  /// p [n, w] from logits of the same shape.
  static void softmax(const context& c, tensor_ref logits, float temperature, float* p, extent_t n, extent_t w) {
    const auto values = c.take<float>(n * w);
    c.mul(logits, 1 / temperature, c.rows(values.data(), n, w));
    c.run(c.op().aclnnSoftmax, c.rows(values.data(), n, w), std::int64_t{-1}, c.rows(p, n, w));
  }
  static void cumulate(const context& c, const float* p, extent_t n, extent_t w, float* to) {
    c.run(c.op().aclnnCumsum, c.rows(p, n, w), std::int64_t{1}, data_type::float32, c.rows(to, n, w));
  }

  /// The first column of p [n, w] at which the sum of the columns so far exceeds u times the sum of all and p > 0; the
  /// last one with p > 0 if rounding leaves none. Ranks columns by distinct numbers and takes the largest.
  void choose(context& c, const float* p, extent_t n, extent_t w, tensor_ref u, tensor_ref chosen) const;

  void draw_top(context& c, const sampling_arguments& arguments, tensor_ref rows, extent_t n, extent_t v, tensor_ref u,
                tensor_ref to) const;

  /// The device computes in float; the host rounds, and keeps the numbers below 1.
  void upload_uniform(context& c, const double* uniform, extent_t t, float* to);
  void prepare(context& c, extent_t vocabulary);

  std::optional<scratch<float>> ranks_;
  extent_t vocabulary_ = 0;
  std::vector<double> drawn_;
  std::vector<float> rounded_;
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void sampler::operator()(context& c, const sampling_arguments& arguments, const float* logits, extent_t t,
                                       extent_t vocabulary, const double* uniform, std::int32_t* tokens) {
  if (t == 0 || vocabulary == 0) return;
  const bool greedy = arguments.temperature == 0, no_top_k = arguments.top_k <= 0 || arguments.top_k >= vocabulary;
  const auto numbers = c.take<float>(t);
  if (!greedy) {
    upload_uniform(c, uniform, t, numbers.data());
    prepare(c, vocabulary);
  }
  for_pieces(t, vocabulary, most_temporary, [&](extent_t begin, extent_t n) {
    const auto rows = c.rows(logits + begin * vocabulary, n, vocabulary);
    const auto u = c.view(numbers.data() + begin, {n, 1});
    const auto to = c.view(tokens + begin, {n, 1});
    if (greedy) return most_likely(c, rows, n, to);
    if (no_top_k && arguments.top_p >= 1 && arguments.min_p <= 0) {
      const auto p = c.take<float>(n * vocabulary);
      softmax(c, rows, arguments.temperature, p.data(), n, vocabulary);
      const auto chosen = c.take<std::int64_t>(n);
      choose(c, p.data(), n, vocabulary, u, c.view(chosen.data(), {n, 1}));
      return c.cast(c.view(chosen.data(), {n, 1}), to);
    }
    draw_top(c, arguments, rows, n, vocabulary, u, to);
  });
}

RLCORE_INLINE void sampler::choose(context& c, const float* p, extent_t n, extent_t w, tensor_ref u,
                                   tensor_ref chosen) const {
  const auto sums = c.take<float>(n * w), goal = c.take<float>(n);
  const auto mask = c.take<bool>(n * w);
  cumulate(c, p, n, w, sums.data());
  const auto reached = c.rows(sums.data(), n, w), limit = c.view(goal.data(), {n, 1}), flag = c.rows(mask.data(), n, w);
  c.mul(c.view(sums.data() + w - 1, {n, 1}, {w, 1}), u, limit);
  c.run(c.op().aclnnLtTensor, limit, reached, flag);
  // 2 vocabulary - j if reached, j if not: reached columns always rank higher
  c.where(flag, c.view(ranks_->data(), {1, w}), c.view(ranks_->data() + vocabulary_, {1, w}), reached);
  c.run(c.op().aclnnEqScalar, c.rows(p, n, w), c.q.scalar(0.0f), flag);
  c.run(c.op().aclnnInplaceMaskedFillScalar, reached, flag, c.q.scalar(-1.0f));
  c.run(c.op().aclnnArgMax, reached, std::int64_t{1}, true, chosen);
}

RLCORE_INLINE void sampler::draw_top(context& c, const sampling_arguments& arguments, tensor_ref rows, extent_t n,
                                     extent_t v, tensor_ref u, tensor_ref to) const {
  const extent_t k = arguments.top_k > 0 ? std::min(arguments.top_k, v) : v;
  const auto order = c.take<std::int64_t>(n * v);
  const auto ids = c.rows(order.data(), n, v);
  const auto p = c.take<float>(n * k);
  {
    const auto sorted = c.take<float>(n * v);
    c.run(c.op().aclnnSort, rows, true, std::int64_t{1}, true, c.rows(sorted.data(), n, v), ids);
    softmax(c, c.rows(sorted.data(), n, k, v), arguments.temperature, p.data(), n, k);
  }
  if (arguments.min_p > 0) {
    const auto least = c.take<float>(n);
    const auto dropped = c.take<bool>(n * k);
    const auto limit = c.view(least.data(), {n, 1}), flag = c.rows(dropped.data(), n, k);
    c.mul(c.view(p.data(), {n, 1}, {k, 1}), arguments.min_p, limit);
    c.run(c.op().aclnnLtTensor, c.rows(p.data(), n, k), limit, flag);
    c.run(c.op().aclnnInplaceMaskedFillScalar, c.rows(p.data(), n, k), flag, c.q.scalar(0.0f));
  }
  if (arguments.top_p < 1 && k > 1) {  // drops the tokens after the mass top_p has been reached
    const auto sums = c.take<float>(n * k), enough = c.take<float>(n);
    const auto dropped = c.take<bool>(n * (k - 1));
    cumulate(c, p.data(), n, k, sums.data());
    const auto limit = c.view(enough.data(), {n, 1}), flag = c.rows(dropped.data(), n, k - 1);
    c.mul(c.view(sums.data() + k - 1, {n, 1}, {k, 1}), arguments.top_p, limit);
    c.run(c.op().aclnnLeTensor, limit, c.rows(sums.data(), n, k - 1, k), flag);
    c.run(c.op().aclnnInplaceMaskedFillScalar, c.rows(p.data() + 1, n, k - 1, k), flag, c.q.scalar(0.0f));
  }
  const auto chosen = c.take<std::int64_t>(2 * n);
  const auto place = c.view(chosen.data(), {n, 1}), id = c.view(chosen.data() + n, {n, 1});
  choose(c, p.data(), n, k, u, place);
  c.run(c.op().aclnnGather, ids, std::int64_t{1}, place, id);
  c.cast(id, to);
}

RLCORE_INLINE void sampler::upload_uniform(context& c, const double* uniform, extent_t t, float* to) {
  drawn_.resize(static_cast<std::size_t>(t));
  rounded_.clear();
  c.q.download(drawn_.data(), uniform, drawn_.size() * sizeof(double));
  for (const double u : drawn_) rounded_.push_back(std::min(static_cast<float>(u), std::nextafter(1.0f, 0.0f)));
  c.q.upload(to, rounded_.data(), rounded_.size() * sizeof(float));
}

RLCORE_INLINE void sampler::prepare(context& c, extent_t vocabulary) {
  if (ranks_ && vocabulary_ == vocabulary) return;
  std::vector<float> host;
  for (extent_t j = 0; j < vocabulary; ++j) host.push_back(static_cast<float>(2 * vocabulary - j));
  for (extent_t j = 0; j < vocabulary; ++j) host.push_back(static_cast<float>(j));
  ranks_.reset();
  ranks_ = c.take<float>(2 * vocabulary);
  c.q.upload(ranks_->data(), host.data(), host.size() * sizeof(float));
  vocabulary_ = vocabulary;
}

}  // namespace ascend::kernels
RLCORE_END
#endif
