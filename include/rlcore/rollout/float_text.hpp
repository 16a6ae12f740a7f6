// A float in a sentence.
#pragma once

#include <charconv>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace rollout {

/// The shortest decimals that are read back as `x`.
inline std::string float_text(float x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}

}  // namespace rollout
RLCORE_END
