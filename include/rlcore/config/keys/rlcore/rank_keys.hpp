// The keys of every program about ranks: how many, and what they share.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key ranks[] = {
    {"trainer.nnodes", integer, "1", honoured,
     "machines; more than 1 needs mpirun, whose ranks they are then checked against", at_least(1)},
    {"trainer.n_gpus_per_node", integer, "8", honoured,
     "ranks on each machine: without mpirun as many threads of this process; not given: 1", at_least(1)},
    {"rlcore.deadline_s", real, "600", honoured, "seconds that a rank waits for another before the run is given up",
     at_least(1)},
    {"rlcore.compare_collectives", boolean, "False", honoured,
     "ranks of MPI compare each collective before it, to find the first that differs; threads always do"},
};

inline constexpr key row_chunks{
    "rlcore.row_chunks",
    integer,
    "0",
    honoured,
    "parts of what tensor parallel ranks add up: with 8, say, 1, 2, 4 and 8 ranks have the same bits; 0: not cut",
    between(0, 64)};

/// What ranks that train share.
inline constexpr key sharing[] = {
    {"rlcore.zero_stage", integer, "null", honoured,
     "what ranks share: 0 nothing (DDP), 1 moments, 2 and gradients, 3 and weights (FSDP); null: by strategy",
     between(0, 3)},
    {"rlcore.tensor_parallel_size", integer, "null", honoured,
     "ranks that share each matrix; null: as the strategy's own keys have it", at_least(1)},
    {"rlcore.context_parallel_size", integer, "null", honoured, "the same for ranks that share each sequence",
     at_least(1)},
    {"rlcore.expert_parallel_size", integer, "null", honoured, "the same for ranks that share the experts",
     at_least(1)},
    {"rlcore.context_kind", text, "null", honoured,
     "how ranks share a sequence: keys gathered, carried around a ring, or heads exchanged; null: by strategy",
     words("gather_kv|ring|ulysses")},
    {"rlcore.reduction", text, "tree", honoured,
     "how gradients are added: tree, exact: same bits for any number of ranks; ranked, fast: for equal runs",
     words("fast|ranked|tree|exact")},
    {"rlcore.gradient_leaves", integer, "8", honoured,
     "parts that an update's rows are dealt to, on one rank as on many; the bits depend on it, not on the ranks",
     between(1, 4096)},
    row_chunks,
    {"rlcore.reduce_dtype", text, "null", honoured,
     "type of gradients between ranks, the sums are float32; null: float32, or fsdp_config.mixed_precision's",
     words("float32|bfloat16")},
};

}  // namespace trainer::keys
RLCORE_END
