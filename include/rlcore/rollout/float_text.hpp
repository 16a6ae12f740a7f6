// Formats a float for messages.
#pragma once

#include <charconv>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace rollout {

/// The shortest decimal text that parses back to `x`.
inline std::string float_text(float x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

}  // namespace rollout
RLCORE_END
