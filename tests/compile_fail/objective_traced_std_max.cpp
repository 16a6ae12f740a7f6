// expected: rlcore: a piece must not branch on a value .if, .:, &&, .., while; std::max
#include <algorithm>

#include "rlcore/objective/traced/trace.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct hinge {
  static constexpr rlcore::field reads = rlcore::field::logp;
  static constexpr std::string_view name = "hinge";
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
#ifdef RLCORE_SHOULD_FAIL
    return {std::max(t.logp, V(0)), V(1)};  // a comparison of one number, not of many tokens: Math::max
#else
    return {Math::max(t.logp, V(0)), V(1)};
#endif
  }
};
}  // namespace mine

std::size_t steps() { return rlcore::trace(mine::hinge{}).operations(); }

}  // namespace RLCORE_TEST_ID
