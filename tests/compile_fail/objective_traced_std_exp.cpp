// expected: rlcore: a piece must not make a double of a value: std::exp
#include <cmath>

#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct ratio {
  static constexpr rlcore::field reads = rlcore::field::logp | rlcore::field::old_logp;
  static constexpr std::string_view name = "ratio";
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
#ifdef RLCORE_SHOULD_FAIL
    const V r = std::exp(t.logp - t.old_logp);  // one evaluation stands for many tokens: Math::exp
#else
    const V r = Math::exp(t.logp - t.old_logp);
#endif
    return {r, r};
  }
};
}  // namespace mine

std::size_t steps() { return rlcore::trace(mine::ratio{}).operations(); }

}  // namespace RLCORE_TEST_ID
