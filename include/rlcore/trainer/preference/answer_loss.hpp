// A loss of judged answers chosen at run time: the trainers of preferences are compiled once for all of them.
#pragma once

#include <functional>
#include <type_traits>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/evaluate.hpp"

RLCORE_BEGIN
namespace trainer {

/// Any named algorithm of pairs or of single answers that reports a loss and three means: answer_loss{paper::dpo()},
/// {openrlhf::ipo()}, {paper::kto(link)}, {paper::rm()}. One indirect call per micro-batch.
class answer_loss {
 public:
  using report_type = rlcore::report<1, 3>;

  /// A copy of the algorithm.
  template <class Advantage, class Objective, class Aggregation>
  answer_loss(const algorithm<Advantage, Objective, Aggregation>& named)
      : report_(named.report()),
        evaluate_([named](const token_batch<float>& batch, const global_counts& step,
                          const token_gradients<float>& gradients) -> report_type {
          return rlcore::evaluate(serial{}, named, batch, step, gradients);
        }) {
    static_assert(std::is_same_v<decltype(named.report()), report_type>,
                  "rlcore: the trainers of preferences log the loss and three means of it (pair_monitors, or those of "
                  "kto_link); this algorithm reports others");
  }

  /// A report without rows.
  const report_type& report() const noexcept { return report_; }
  /// Writes the slopes of a micro-batch, if `gradients` has room for them. `step` counts the whole optimizer step.
  report_type operator()(const token_batch<float>& batch, const global_counts& step,
                         const token_gradients<float>& gradients) const {
    return evaluate_(batch, step, gradients);
  }

 private:
  report_type report_;
  std::function<report_type(const token_batch<float>&, const global_counts&, const token_gradients<float>&)> evaluate_;
};

}  // namespace trainer
RLCORE_END
