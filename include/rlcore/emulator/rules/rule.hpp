// Rules for the operator calls that CANN accepts, by operator and version.
#pragma once

#include <span>
#include <string_view>

#include "rlcore/device/npu/abi/types.hpp"

RLCORE_BEGIN
namespace ascend {
/// The vendor's rules for calls of operators; operators.inc is the table.
namespace rules {

/// The condition of a rule; `fact` is documentation only. sentence() prints a rule in words.
enum class kind : unsigned char { given, types, promotable, castable, same_type, rank, same_shape, fact };

/// A row of the table. `versions` are "8.1* 8.3 ..."; a star marks a version whose own sources were not read for the
/// row.
struct rule {
  std::string_view op, versions;
  rules::kind kind;
  std::string_view subject, value;
  aclnnStatus code;
  std::string_view source;

  /// Whether the rule holds for a version such as "8.3".
  constexpr bool holds_in(std::string_view version) const noexcept {
    return versions.find(version) != std::string_view::npos;
  }
};

/// The names of an operator's arguments in their order: "self other alpha out".
struct signature {
  std::string_view op, names;
};

/// The operators of the table.
inline std::span<const signature> signatures() noexcept {
  static constexpr signature table[] = {
#define RLCORE_NPU_SIGNATURE(op, names) {#op, names},
#define RLCORE_NPU_RULE(op, versions, condition, subject, value, code, source)
#include "rlcore/emulator/rules/operators.inc"
#undef RLCORE_NPU_RULE
#undef RLCORE_NPU_SIGNATURE
  };
  return table;
}

/// The rows in the order of the table. The rows of an operator are adjacent, and rows that refuse calls are in the
/// order of the checks.
inline std::span<const rule> all() noexcept {
  static constexpr rule table[] = {
#define RLCORE_NPU_SIGNATURE(op, names)
#define RLCORE_NPU_RULE(op, versions, condition, subject, value, code, source) \
  {#op, versions, kind::condition, subject, value, code, source},
#include "rlcore/emulator/rules/operators.inc"
#undef RLCORE_NPU_RULE
#undef RLCORE_NPU_SIGNATURE
  };
  return table;
}

/// The versions whose sources were read.
inline constexpr std::string_view versions[] = {"8.1", "8.3", "8.5", "9.1"};

/// The version of the table for a version of CANN: 80300 is "8.3", and so is 80400.
constexpr std::string_view version_of(int cann_version) noexcept {
  return cann_version < 80300 ? "8.1" : cann_version < 80500 ? "8.3" : cann_version < 90100 ? "8.5" : "9.1";
}

}  // namespace rules
}  // namespace ascend
RLCORE_END
