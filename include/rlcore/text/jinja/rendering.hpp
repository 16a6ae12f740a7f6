// What a template wrote, and where.
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

/// What a loop wrote while it visited one element of the watched list.
struct visit {
  std::size_t element = 0;
  byte_range bytes;
};

/// A rendered template.
struct rendering {
  std::string text;
  std::vector<byte_range> generated;  ///< what stood between {% generation %} and {% endgeneration %}
  std::vector<visit> visits;          ///< of the elements of the watched list, those that wrote something
};

}  // namespace text::jinja
RLCORE_END
