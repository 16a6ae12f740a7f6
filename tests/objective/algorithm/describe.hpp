// What an algorithm is made of, read off its type.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "rlcore/objective/algorithm/algorithm.hpp"

namespace rlcore_test {

/// The type as its author would write it: no namespaces, {} for <>.
template <class T>
std::string type_text() {
  const std::string_view whole = __PRETTY_FUNCTION__;
  const std::size_t begin = whole.find("T = ") + 4;
  std::size_t end = whole.find_first_of(";]", begin);
  const std::string_view name = whole.substr(begin, end - begin);
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    if (std::isalpha(static_cast<unsigned char>(name[i])) || name[i] == '_') {
      std::size_t stop = i;
      while (stop < name.size() && (std::isalnum(static_cast<unsigned char>(name[stop])) || name[stop] == '_')) ++stop;
      if (name.substr(stop, 2) == "::")
        i = stop + 2;
      else
        out += name.substr(i, stop - i), i = stop;
    } else {
      out += name[i] == '<' ? '{' : name[i] == '>' ? '}' : name[i];
      ++i;
    }
  }
  while (out.find(" }") != std::string::npos) out.erase(out.find(" }"), 1);
  return out;
}

struct parts {
  std::string advantage, objective, aggregation;
};

template <class Advantage, class Objective, class Aggregation>
parts describe(const rlcore::algorithm<Advantage, Objective, Aggregation>&) {
  return {type_text<Advantage>(), type_text<Objective>(), type_text<Aggregation>()};
}

}  // namespace rlcore_test
