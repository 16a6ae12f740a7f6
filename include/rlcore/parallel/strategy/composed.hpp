// Compile-time strategies: the type fixes the axes.
#pragma once

#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"

RLCORE_BEGIN
namespace strategy {

/// Sets an axis of a type. Throws std::logic_error (a compile error in a constant expression) if it is already set.
constexpr void set_axis(int& axis, int unset, int value) {
  if (axis != unset) throw std::logic_error("rlcore: a strategy names an axis twice");
  axis = value;
}

/// The base of a strategy `Self` that fixes axes: Self::set(s) sets its own and those of the strategies inside it.
/// Everything else (the order of sums, the number of leaves, ...) comes from settings. Training is bit-identical to
/// any_strategy with these axes.
template <class Self>
class composed : public any_strategy {
 public:
  /// Creates groups among `ranks`, which must outlive this; a collective call. Throws std::invalid_argument unless the
  /// axes of `rest` have their defaults, config_error if the axes do not fill the ranks.
  explicit composed(parallel::any_communicator& ranks, const parallel::parallel_settings& rest = {})
      : any_strategy(ranks, with_axes(rest)) {}

  /// Only the axes; without `sharded` nothing is sharded (zero 0).
  static constexpr parallel::parallel_settings axes() {
    parallel::parallel_settings s;
    s.zero = 0;
    Self::set(s);
    return s;
  }
  /// The minimum number of ranks that the axes fill.
  static constexpr int least_ranks() {
    constexpr parallel::parallel_settings s = axes();
    int data = s.data;
    if (data == 0)
      for (data = 1; data * s.context % s.expert != 0;) ++data;
    return data * s.context * s.tensor;
  }

 private:
  static parallel::parallel_settings with_axes(parallel::parallel_settings s) {
    static constexpr parallel::parallel_settings unset{}, fixed = axes();
    const auto fix = [](int& axis, int of_default, int value, const char* name) {
      if (axis != of_default && axis != value)
        throw std::invalid_argument("rlcore: strategy: " + std::string(name) + " is " + std::to_string(axis) +
                                    " in the settings and " + std::to_string(value) + " in the type");
      axis = value;
    };
    fix(s.data, unset.data, fixed.data, "data");
    fix(s.context, unset.context, fixed.context, "context");
    fix(s.tensor, unset.tensor, fixed.tensor, "tensor");
    fix(s.expert, unset.expert, fixed.expert, "expert");
    fix(s.zero, unset.zero, fixed.zero, "zero");
    if (fixed.context > 1) s.how_context = fixed.how_context;
    return s;
  }
};

}  // namespace strategy
RLCORE_END
