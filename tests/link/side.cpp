#include "link/side.hpp"

#include "rlcore/core/random.hpp"
#include "rlcore/simd/math.hpp"

side_result RLCORE_LINK_SIDE() {
  using floats = rlcore::pack<float>;
  side_result result{.lanes = floats::lanes};
  for (std::size_t i = 0; i < 128; i += floats::lanes) {
    float x[floats::lanes];
    for (std::size_t k = 0; k < floats::lanes; ++k) x[k] = static_cast<float>(i + k) / 64.0f - 1.0f;
    rlcore::store(x, rlcore::fast_math::exp(rlcore::load(x)));
    for (const float y : x) result.exponential_sum += y;
  }
  const auto words = rlcore::random_key{42}.words(1, 2, 3, 4);
  result.random = (std::uint64_t{words[0]} << 32) | words[1];
  return result;
}
