// The token loop of a device: the objective's program over arrays that stay there, and one transfer for the report.
#pragma once

#include <type_traits>
#include <utility>

#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/fields_used.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Loss of an objective over fields in the memory of a device, where its gradients are written: the objective's pieces
/// run there as traced programs, values, metrics and gradients as by evaluate() on the host up to rounding in float.
/// Masked slots do not reach a result. The report comes back in one transfer; nothing else does. Throws what evaluate()
/// throws on the host, and what the device throws.
template <loss_device Device, class Objective, class Aggregation, class T, class Counts>
report_of<Objective> evaluate(Device& device, const Objective& objective, const Aggregation& aggregation,
                              const token_batch<T, Device>& batch, const Counts& step,
                              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  static_assert(std::is_same_v<T, float>, "rlcore: a device computes losses in float: token_batch<float, Device>");
  static_assert(
      std::is_same_v<Counts, global_counts>,
      "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts of one "
      "batch; add every row of the step with global_counts::add_row");
  static_assert(rlcore::aggregation<Aggregation>,
                "rlcore: an aggregation has double weight(row_info row, const global_counts& step) const noexcept");
  static_assert(detail::check_objective<Objective, Aggregation>(std::make_index_sequence<piece_count<Objective>>{}));
  detail::check_reads_of_all(objective, std::make_index_sequence<piece_count<Objective>>{});
  step_loss<Device, Objective, Aggregation> loss(device, objective, aggregation, step);
  loss.add(addresses_of(batch), addresses_of(gradients));
  return loss.report();
}

/// Loss, gradient and report of a named algorithm on a device.
template <loss_device Device, class Advantage, class Objective, class Aggregation, class T, class Counts>
auto evaluate(Device& device, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named.objective, named.aggregation, batch, step, gradients);
}
/// The same with another aggregation.
template <loss_device Device, class Advantage, class Objective, class Replaced, class Aggregation, class T,
          class Counts>
auto evaluate(Device& device, const algorithm<Advantage, Objective, Replaced>& named, const Aggregation& aggregation,
              const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named.objective, aggregation, batch, step, gradients);
}

RLCORE_ALGORITHM_END
RLCORE_END
