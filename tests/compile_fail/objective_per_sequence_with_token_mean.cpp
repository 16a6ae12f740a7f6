// expected: rlcore: a piece of this objective has one value per sequence
// expected: sequence_mean_token_mean
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/score.hpp"

namespace RLCORE_TEST_ID {

namespace mine {
struct sequence_ratio {
  static constexpr rlcore::field reads = rlcore::field::gathered | rlcore::field::advantage;
  static constexpr std::string_view name = "policy";
  using gathers = rlcore::mean_of<rlcore::log_ratio_to_old>;
  static constexpr bool per_sequence = true;
  template <class Math, class V>
  RLCORE_FN rlcore::term<V> operator()(const rlcore::token<V>& t) const noexcept {
    const V s = Math::exp(t.gathered) * t.advantage;
    return {-s, -s};
  }
};
}  // namespace mine

double loss(const rlcore::token_batch<float>& batch, const rlcore::global_counts& step) {
#ifdef RLCORE_SHOULD_FAIL
  const rlcore::token_mean aggregation;
#else
  const rlcore::sequence_mean_token_mean aggregation;
#endif
  return rlcore::evaluate(rlcore::serial{}, mine::sequence_ratio{}, aggregation, batch, step).loss();
}

}  // namespace RLCORE_TEST_ID
