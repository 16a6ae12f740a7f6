// The communication of a reduce-scatter: sends the parts of every rank's vector to their owners.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/communicator/any.hpp"

RLCORE_BEGIN
namespace parallel {

/// Reusable buffers of an exchange.
struct exchange_scratch {
  std::vector<std::size_t> sent, received;
  std::vector<float> floats;
  std::vector<bf16> halves, sent_halves;
  std::vector<std::int64_t> fixed;

  template <class T>
  std::vector<T>& of() {
    if constexpr (std::is_same_v<T, float>)
      return floats;
    else if constexpr (std::is_same_v<T, bf16>)
      return halves;
    else
      return fixed;
  }
};

/// Rank r owns counts[r] values of `mine`, parts in rank order. `mine` is null if this rank sends nothing; `sends(r)`
/// says whether rank r sends. Calls push(rank, const T*) with each rank's values of this rank's part, in rank order.
template <class T, class Sends, class Push>
void exchange(any_communicator& c, const T* mine, std::span<const std::size_t> counts, exchange_scratch& scratch,
              Sends&& sends, Push&& push) {
  const auto self = static_cast<std::size_t>(c.rank()), local_count = counts[self];
  if (c.size() == 1) {
    if (mine) push(std::size_t{0}, mine);
    return;
  }
  scratch.sent.assign(counts.size(), 0), scratch.received.assign(counts.size(), 0);
  if (mine) scratch.sent.assign(counts.begin(), counts.end());
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (sends(r)) scratch.received[r] = local_count;
  const auto total = [](const std::vector<std::size_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::size_t{0});
  };
  std::vector<T>& in = scratch.of<T>();
  in.resize(total(scratch.received));
  c.all_to_all_v(std::span<const T>(mine, total(scratch.sent)), std::span<const std::size_t>(scratch.sent),
                 std::span<T>(in), std::span<const std::size_t>(scratch.received));
  const T* at = in.data();
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (sends(r)) push(r, at), at += local_count;
}

/// The same for floats sent as bfloat16. A rank's own part is rounded too, so that the sum does not depend on the
/// owner.
template <class Sends, class Push>
void exchange_halves(any_communicator& c, const float* mine, std::span<const std::size_t> counts,
                     exchange_scratch& scratch, Sends&& sends, Push&& push) {
  const bf16* sent = nullptr;
  if (mine) {
    const std::size_t n = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    scratch.sent_halves.resize(n + 1);
    for (std::size_t i = 0; i < n; ++i) scratch.sent_halves[i] = bf16(mine[i]);
    sent = scratch.sent_halves.data();
  }
  exchange(c, sent, counts, scratch, sends, [&](std::size_t r, const bf16* x) {
    scratch.floats.resize(counts[static_cast<std::size_t>(c.rank())] + 1);
    for (std::size_t i = 0; i + 1 < scratch.floats.size(); ++i) scratch.floats[i] = static_cast<float>(x[i]);
    push(r, static_cast<const float*>(scratch.floats.data()));
  });
}

}  // namespace parallel
RLCORE_END
