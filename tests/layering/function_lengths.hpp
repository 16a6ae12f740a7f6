// The length of functions: from the first line of the definition, its template head included, to the closing brace.
// Lambdas and types inside a function count as lines of it; a macro is no function.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layering/doc_comments.hpp"
#include "layering/layers.hpp"

namespace layering {

/// A function with its body.
struct function_extent {
  std::string name;
  std::size_t line = 0, lines = 0;
};

/// Walks the words of a file and collects the functions of its namespaces and types.
class function_extents {
 public:
  explicit function_extents(std::vector<lexeme> words) : words_(std::move(words)) {
    std::erase_if(words_, [](const lexeme& each) { return each.text.starts_with("///"); });
    while (at_ < words_.size()) declaration();
  }
  const std::vector<function_extent>& functions() const { return functions_; }

 private:
  std::string_view word(std::size_t at) const { return at < words_.size() ? std::string_view(words_[at].text) : ";"; }

  /// From an opening sign to behind the one that closes it.
  void skip(std::string_view open, std::string_view close) {
    std::size_t depth = 0;
    do {
      depth += word(at_) == open;
      depth -= word(at_) == close;
      ++at_;
    } while (depth > 0 && at_ < words_.size());
  }

  /// A declaration, a brace that ends a scope, or an access specifier. A scope is opened and its declarations come
  /// next.
  void declaration() {
    const std::size_t first = at_;
    if (word(at_) == "}" || word(at_) == ";") {
      ++at_;
    } else if ((word(at_) == "public" || word(at_) == "protected" || word(at_) == "private") && word(at_ + 1) == ":") {
      at_ += 2;
    } else {
      while (word(at_) == "template") {
        ++at_;
        if (word(at_) == "<") skip("<", ">");
      }
      if (is_scope(at_)) {
        while (word(at_) != "{" && word(at_) != ";") ++at_;
        ++at_;
      } else {
        function_or_variable(first);
      }
    }
  }

  /// Up to the end of a body, or behind the next ; of this level.
  void function_or_variable(std::size_t first) {
    std::string name;  // of the function whose parameters have been passed
    bool is_operator = false, is_assigned = false, has_initializers = false, is_requirement = false;
    for (; at_ < words_.size() && word(at_) != ";";) {
      if (word(at_) == "{") {
        const bool initializes = has_initializers && word(at_ - 1) != ")" && word(at_ - 1) != "}";
        const bool is_body = !std::exchange(is_requirement, false) && !name.empty() && !initializes;
        skip("{", "}");
        if (!is_body) continue;
        const std::size_t line = words_[first].line;
        functions_.push_back({name, line, words_[at_ - 1].line - line + 1});
        return;
      }
      if (word(at_) == "(") {
        if (name.empty() && !is_assigned && !is_keyword(word(at_ - 1))) name = name_before(at_);
        skip("(", ")");
      } else if (word(at_) == "operator" && word(at_ + 1) == "(" && name.empty()) {
        name = "operator()";
        at_ += 3;
      } else {
        is_operator = is_operator || word(at_) == "operator";
        is_assigned = is_assigned || (word(at_) == "=" && !is_operator);
        has_initializers = has_initializers || (!name.empty() && word(at_) == ":" && word(at_ - 1) == ")");
        if (word(at_) == "requires")
          is_requirement = word(at_ + 1) == "{" || word(at_ - 1) == "requires" || word(at_ - 1) == "&";
        ++at_;
      }
    }
    ++at_;
  }

  /// Do these words open a namespace, a type or extern "C"?
  bool is_scope(std::size_t head) const {
    while (word(head) == "inline" || word(head) == "typedef") ++head;
    const std::string_view word_of_scope = word(head);
    return word_of_scope == "namespace" || word_of_scope == "class" || word_of_scope == "struct" ||
           word_of_scope == "union" || (word_of_scope == "extern" && word(head + 2) == "{");
  }
  static bool is_keyword(std::string_view text) {
    return text == "requires" || text == "decltype" || text == "alignas" || text == "explicit" ||
           text == "__attribute__" || text == "noexcept";
  }
  /// The name in front of parameters: a word, "operator" and its signs, or a word and its <...>.
  std::string name_before(std::size_t at) const {
    std::string name;
    for (std::size_t i = 1; i <= at && i <= 8; ++i) {
      name.insert(0, word(at - i));
      if (is_word(word(at - i)[0]) && (i == 1 || word(at - i) == "operator" || name.find('<') != std::string::npos))
        return name;
    }
    return name;
  }

  std::vector<lexeme> words_;
  std::size_t at_ = 0;
  std::vector<function_extent> functions_;
};

/// The functions of a file, in its order.
inline std::vector<function_extent> functions_of(std::string_view text) {
  return function_extents(lexemes_of(text)).functions();
}

/// "FILE:LINE: NAME has N lines; M is the limit" for each function above `most_lines` in `folders` of the tree `top`.
/// `exceptions`, each "FILE: NAME", are left out, and have to be needed.
inline strings long_functions(const fs::path& top, const strings& folders, const strings& exceptions = {},
                              std::size_t most_lines = 60) {
  strings faults;
  std::set<std::string> needed;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      const fs::path extension = entry.path().extension();
      if (!entry.is_regular_file() || (extension != ".hpp" && extension != ".cpp" && extension != ".inc")) continue;
      const std::string file = fs::relative(entry.path(), top).generic_string();
      std::ifstream in(entry.path());
      for (const function_extent& function : functions_of(std::string(std::istreambuf_iterator<char>(in), {}))) {
        const std::string exception = file + ": " + function.name;
        if (function.lines <= most_lines) continue;
        if (std::ranges::find(exceptions, exception) != exceptions.end())
          needed.insert(exception);
        else
          faults.push_back(file + ":" + std::to_string(function.line) + ": " + function.name + " has " +
                           std::to_string(function.lines) + " lines; " + std::to_string(most_lines) + " is the limit");
      }
    }
  for (const std::string& exception : exceptions)
    if (!needed.contains(exception)) faults.push_back(exception + " needs no exception any more");
  std::ranges::sort(faults);
  return faults;
}

}  // namespace layering
