// expected: pack|lane_mask
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct hinge {
  static constexpr rlcore::field reads = rlcore::field::logp;
  static constexpr std::string_view name = "hinge";
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
#ifdef RLCORE_SHOULD_FAIL
    if (t.logp > V(0)) return {t.logp, V(1)};  // a pack has many lanes: choose with Math::select
    return {V(0), V(0)};
#else
    return {Math::max(t.logp, V(0)), Math::select(t.logp > V(0), V(1), V(0))};
#endif
  }
};
}  // namespace mine

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
  return rlcore::evaluate(rlcore::serial{}, mine::hinge{}, rlcore::token_mean{}, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
