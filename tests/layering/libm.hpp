// Functions of the C library whose last bit depends on the machine: glibc picks a variant of exp by the processor. What
// makes bits calls core/elementary.hpp instead.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "layering/layers.hpp"
#include "layering/code_names.hpp"

namespace layering {

/// Headers, by the beginning of their path, that may call them, and why no loss, weight or token depends on it.
inline const std::map<std::string, std::string>& headers_that_make_no_bits() {
  static const std::map<std::string, std::string> reasons = {
      {"emulator/", "stands for a machine with errors of its own"},
      {"planning/", "estimates of time and memory"},
      {"telemetry/report/", "pages for a reader"},
      {"verify/expression.hpp", "values of answers, compared within a tolerance"},
  };
  return reasons;
}

inline bool is_inexact_function(std::string name) {
  static const std::set<std::string_view> functions = {
      "acos",  "acosh", "asin", "asinh", "atan",   "atan2", "atanh", "cbrt",   "cos",   "cosh",
      "erf",   "erfc",  "exp",  "exp10", "exp2",   "expm1", "hypot", "lgamma", "log",   "log10",
      "log1p", "log2",  "pow",  "sin",   "sincos", "sinh",  "tan",   "tanh",   "tgamma"};
  if (functions.contains(name)) return true;
  if (name.ends_with('f') || name.ends_with('l')) name.pop_back();
  return functions.contains(name);
}

/// "header: function" for each such function in a header below `top`, without those allowed above.
inline strings calls_of_libm(const fs::path& top, const std::map<std::string, std::string>& allowed) {
  strings faults;
  std::set<std::string> used;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    if (!entry.is_regular_file()) continue;
    const std::string file = fs::relative(entry.path(), top).generic_string();
    std::ifstream in(entry.path());
    const std::string code = code_of(std::string(std::istreambuf_iterator<char>(in), {}));
    strings found;
    for (const std::string scope : {"std::", "__builtin_"})
      for (const std::string& name : names_in(code, scope))
        if (is_inexact_function(name)) found.push_back(file + ": " + scope + name);
    // The names of C have a letter more, which makes them known without a scope.
    for (const std::string name :
         {"expf", "expm1f", "exp2f", "logf", "log1pf", "log2f", "powf", "sinf", "cosf", "tanhf"})
      if (names_in(code, name).contains("")) found.push_back(file + ": " + name);
    for (const auto& [beginning, reason] : allowed) {
      if (found.empty() || !file.starts_with(beginning)) continue;
      used.insert(beginning);
      found.clear();
    }
    faults.insert(faults.end(), found.begin(), found.end());
  }
  for (const auto& [beginning, reason] : allowed)
    if (!used.contains(beginning)) faults.push_back(beginning + ": needs no exception any more");
  std::ranges::sort(faults);
  return faults;
}

}  // namespace layering
