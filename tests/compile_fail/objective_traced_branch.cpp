// expected: rlcore: a piece must not branch on a value
#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct hinge {
  static constexpr rlcore::field reads = rlcore::field::logp;
  static constexpr std::string_view name = "hinge";
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
#ifdef RLCORE_SHOULD_FAIL
    if (t.logp > V(0)) return {t.logp, V(1)};  // one evaluation stands for many tokens: choose with Math::select
    return {V(0), V(0)};
#else
    return {Math::max(t.logp, V(0)), Math::select(t.logp > V(0), V(1), V(0))};
#endif
  }
};
}  // namespace mine

std::size_t steps() { return rlcore::trace(mine::hinge{}).operations(); }

}  // namespace RLCORE_TEST_ID
