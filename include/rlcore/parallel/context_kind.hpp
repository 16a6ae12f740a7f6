// Kinds of context parallelism: all-gather of keys and values, ring attention, Ulysses.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// - gather_kv: every rank all-gathers all keys and values (Llama 3).
/// - ring: keys and values travel around the ring, the softmax state stays (Liu et al. 2023, arXiv:2310.01889).
/// - ulysses: all rows of some heads instead of some rows of all heads (Jacobs et al. 2023, arXiv:2309.14509).
enum class context_kind { gather_kv, ring, ulysses };

/// In the order of the values.
inline constexpr const char* context_kind_names[] = {"gather_kv", "ring", "ulysses"};

}  // namespace parallel
RLCORE_END
