// The ranks that work on the same sequences together.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/context_kind.hpp"

RLCORE_BEGIN
namespace nn {

/// A workspace with a context group makes passes over packed sequences (forward_backward, value_forward_backward,
/// log_probs, values) together with all ranks of the group. Every rank passes the same sequences and targets and gets
/// the same results. Each rank's gradients of weights are its part of the sum over the ranks.
struct context_group {
  parallel::any_communicator* ranks = nullptr;
  parallel::context_kind kind = parallel::context_kind::gather_kv;

  bool shares() const { return ranks != nullptr && ranks->size() > 1; }
};

}  // namespace nn
RLCORE_END
