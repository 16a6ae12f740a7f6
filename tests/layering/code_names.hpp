// The names in a piece of C++, without comments and quotes.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace layering {

/// `text` without comments and without what is inside quotes.
inline std::string code_of(std::string_view text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size() - 1);
      code += '\n';
    } else if (rest.starts_with("/*")) {
      i += std::min(rest.find("*/", 2), rest.size() - 2) + 1;
    } else if (rest.starts_with("R\"")) {
      const std::string end = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      i += std::min(rest.find(end), rest.size() - end.size()) + end.size() - 1;
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      const char quote = text[i];
      for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
    } else {
      code += text[i];
    }
  }
  return code;
}

/// The identifiers that follow `scope`, such as "std::".
inline std::set<std::string> names_in(const std::string& code, const std::string& scope) {
  std::set<std::string> names;
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = code.find(scope); at != std::string::npos; at = code.find(scope, at + 1)) {
    if (at > 0 && in_word(code[at - 1])) continue;
    std::size_t end = at + scope.size();
    while (end < code.size() && in_word(code[end])) ++end;
    names.insert(code.substr(at + scope.size(), end - at - scope.size()));
  }
  return names;
}

}  // namespace layering
