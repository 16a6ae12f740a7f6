// A tensor group that breaks, for tests.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

/// Fails at its sum number `fails_at`, counted from 1.
class failing_group final : public rlcore::nn::tensor_group {
 public:
  explicit failing_group(rlcore::nn::tensor_group& inside) : tensor_group(false), inside_(inside) {}
  int rank() const override { return inside_.rank(); }
  int size() const override { return inside_.size(); }
  void sum(std::span<float> x) override {
    if (++sums == fails_at) throw std::runtime_error("card " + std::to_string(rank()) + " is gone");
    inside_.sum(x);
  }
  void sum_parts(std::span<const float> x, std::span<const std::size_t> counts, std::span<float> local) override {
    inside_.sum_parts(x, counts, local);
  }
  void gather(std::span<const float> local, std::span<const std::size_t> counts, std::span<float> gathered) override {
    inside_.gather(local, counts, gathered);
  }
  void gather(std::span<const rlcore::log_prob_state> local, std::span<rlcore::log_prob_state> gathered) override {
    inside_.gather(local, gathered);
  }
  void broadcast(std::span<float> x, int root) override { inside_.broadcast(x, root); }

  int sums = 0, fails_at = 0;

 private:
  rlcore::nn::tensor_group& inside_;
};
