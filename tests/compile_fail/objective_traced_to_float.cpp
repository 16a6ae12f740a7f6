// expected: rlcore: a piece must not branch on a value or convert it
#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct hinge {
  static constexpr rlcore::field reads = rlcore::field::logp;
  static constexpr std::string_view name = "hinge";
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
#ifdef RLCORE_SHOULD_FAIL
    return {V(static_cast<float>(t.logp)), V(1)};  // V is not one number
#else
    return {t.logp, V(1)};
#endif
  }
};
}  // namespace mine

std::size_t steps() { return rlcore::trace(mine::hinge{}).operations(); }

}  // namespace RLCORE_TEST_ID
