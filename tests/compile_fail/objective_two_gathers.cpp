// expected: rlcore: two pieces of this objective gather different things over a row
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/score.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
template <class Gather>
struct gathered_itself {
  static constexpr rlcore::field reads = rlcore::field::gathered;
  static constexpr std::string_view name = "gathered";
  using gathers = Gather;
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
    return {t.gathered, V(1)};
  }
};
}  // namespace mine

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
  using first = rlcore::mean_of<rlcore::log_ratio_to_old>;
#ifdef RLCORE_SHOULD_FAIL
  using second = rlcore::sum_of<rlcore::log_ratio_to_old>;
#else
  using second = first;
#endif
  const rlcore::sum objective{mine::gathered_itself<first>{}, mine::gathered_itself<second>{}};
  return rlcore::evaluate(rlcore::serial{}, objective, rlcore::token_mean{}, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
