// Result of rendering a template.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Bytes [begin, end) of a rendered text.
struct byte_range {
  std::size_t begin = 0, end = 0;
};

/// The output of a loop for one element of the watched list.
struct visit {
  std::size_t element = 0;
  byte_range bytes;
};

/// A rendered template.
struct rendering {
  std::string text;
  std::vector<byte_range> generated;  ///< text between {% generation %} and {% endgeneration %}
  std::vector<visit> visits;          ///< visits of the watched list with output
};

}  // namespace text::jinja
RLCORE_END
