// expected: rlcore: a token piece must return term<V>{value, slope}
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct squared {
  static constexpr rlcore::field reads = rlcore::field::logp;
  static constexpr std::string_view name = "squared";
#ifdef RLCORE_SHOULD_FAIL
  template <class Math, class V>
  RLCORE_FN V operator()(const rlcore::token<V>& t) const noexcept {
    return t.logp * t.logp;
  }
#else
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
    return {t.logp * t.logp, 2.0f * t.logp};
  }
#endif
};
}  // namespace mine

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
  return rlcore::evaluate(rlcore::serial{}, mine::squared{}, rlcore::token_mean{}, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
