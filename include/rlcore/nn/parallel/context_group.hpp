// The ranks that work on the same sequences together.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/context_kind.hpp"

RLCORE_BEGIN
namespace nn {

/// Given to a workspace: passes over packed sequences (forward_backward, value_forward_backward, log_probs, values) are
/// then made by all ranks of the group together. Every rank hands in the same sequences and targets, and is handed the
/// same results; the gradients of weights that it holds afterwards are its part of the sum over the ranks.
struct context_group {
  parallel::any_communicator* ranks = nullptr;
  parallel::context_kind how = parallel::context_kind::gather_kv;

  bool shares() const { return ranks != nullptr && ranks->size() > 1; }
};

}  // namespace nn
RLCORE_END
