// Doc comments of public headers: every function and every type has one.
//
// The comment of a type covers its constants, its functions without parameters, check_settings() and the call operator
// of a piece or a link. A concept describes the functions it calls, so these have their words in a type that its header
// asserts to model the concept, and what overrides a function has those of the function. Overloads share the comment of
// the one before them. Asked for are comments on types, concepts, aliases and functions of namespaces other than
// detail, and on public constructors and functions with parameters; not on friends, specialisations, copies, moves,
// what is defaulted, pointers to functions, and definitions of what a class declares.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layering/layers.hpp"

namespace layering {

/// One word, number or sign of a file. "///" and "///<" stand for a line of a doc comment, "\"\"" for a string or a
/// character.
struct lexeme {
  std::string text;
  std::size_t line = 0;
};

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// `text` without plain comments, preprocessor lines and the library's own macros.
inline std::vector<lexeme> lexemes_of(std::string_view text) {
  static const std::set<std::string_view> macros = {"RLCORE_BEGIN",  "RLCORE_END",      "RLCORE_ALGORITHM_BEGIN",
                                                    "RLCORE_FN",     "RLCORE_INLINE",   "RLCORE_ALGORITHM_END",
                                                    "RLCORE_LAMBDA", "RLCORE_NOINLINE", "RLCORE_RESTRICT"};
  std::vector<lexeme> words;
  std::size_t line = 1;
  const auto pass = [&](std::size_t from, std::size_t to) {
    to = std::min(to, text.size());
    line += static_cast<std::size_t>(std::count(text.begin() + from, text.begin() + to, '\n'));
    return to;
  };
  bool fresh = true;  // nothing yet in this line
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const char c = text[i];
    std::size_t end = i + 1;
    if (c == '\n') {
      fresh = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
    } else if (c == '#' && fresh) {
      for (end = i; end < text.size() && text[end] != '\n';) end += text[end] == '\\' ? 2U : 1U;
    } else if (rest.starts_with("//")) {
      if (rest.starts_with("///")) words.push_back({rest.starts_with("///<") ? "///<" : "///", line});
      end = std::min(text.find('\n', i), text.size());
    } else if (rest.starts_with("/*")) {
      end = i + std::min(rest.find("*/", 2), rest.size() - 2) + 2;
    } else if (rest.starts_with("R\"")) {
      const std::string close = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      end = i + std::min(rest.find(close), rest.size() - close.size()) + close.size();
      words.push_back({"\"\"", line});
    } else if (c == '"' || c == '\'') {
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2U : 1U;
      ++end;
      words.push_back({"\"\"", line});
    } else if (is_word(c)) {
      const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      while (end < text.size() && (is_word(text[end]) || (number && (text[end] == '\'' || text[end] == '.')))) ++end;
      const std::string_view word = text.substr(i, end - i);
      if (!macros.contains(word)) words.push_back({std::string(word), line});
    } else {
      words.push_back({std::string(1, c), line});
    }
    fresh = fresh && (c == '\n' || std::isspace(static_cast<unsigned char>(c)) != 0);
    i = pass(i, end);
  }
  return words;
}

/// What each concept names: the functions it calls, "f" of d.f(x), and other concepts, "c<" of c<D>.
using requirements = std::map<std::string, std::set<std::string>>;

/// Adds the concepts of one header to `of`.
inline void collect_requirements(const std::vector<lexeme>& words, requirements& of) {
  const auto word = [&](std::size_t at) { return at < words.size() ? std::string_view(words[at].text) : ";"; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (word(i) != "concept" || word(i + 2) != "=") continue;
    auto& names = of[words[i + 1].text];
    std::size_t depth = 0;
    for (std::size_t k = i + 3; k < words.size() && (depth > 0 || word(k) != ";"); ++k) {
      depth += word(k) == "{";
      depth -= word(k) == "}";
      if (word(k - 1) == "." && word(k + 1) == "(") names.insert(words[k].text);
      if (word(k + 1) == "<") names.insert(words[k].text + "<");
    }
  }
}

/// Does `concept_name`, or a concept that it names, call a function `function`?
inline bool describes(const requirements& all, const std::string& concept_name, const std::string& function) {
  const auto at = all.find(concept_name);
  if (at == all.end()) return false;
  return at->second.contains(function) || std::ranges::any_of(at->second, [&](const std::string& name) {
           return name.ends_with("<") && name != concept_name + "<" &&
                  describes(all, name.substr(0, name.size() - 1), function);
         });
}

/// Walks the declarations of one header and notes the functions and types that have no doc comment.
class declarations {
 public:
  explicit declarations(std::vector<lexeme> words, requirements concepts = {})
      : words_(std::move(words)), concepts_(std::move(concepts)) {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (word(i) == "static_assert")
        for (++i; i < words_.size() && word(i) != ";"; ++i)
          if (word(i + 1) == "<" && word(i + 3) == ">") models_[word(i + 2)].push_back(word(i));
    while (!at_end()) scope("", false);
  }
  /// "LINE: NAME" of what has none, from the top down.
  const std::vector<std::string>& bare() const { return bare_; }
  /// How many have one.
  std::size_t documented() const { return documented_; }

 private:
  static bool opens(const std::string& word) { return word == "(" || word == "[" || word == "{"; }
  static bool closes(const std::string& word) { return word == ")" || word == "]" || word == "}"; }
  bool at_end() const { return at_ >= words_.size(); }
  const std::string& word(std::size_t at) const {
    static const std::string none;
    return at < words_.size() ? words_[at].text : none;
  }

  /// From an opening sign to behind the one that closes it.
  void skip_brackets() {
    std::size_t depth = 0;
    do {
      depth += opens(word(at_));
      depth -= closes(word(at_));
      ++at_;
    } while (depth > 0 && !at_end());
  }
  /// From < to behind the > that closes it.
  void skip_angles() {
    std::size_t depth = 0;
    do {
      if (opens(word(at_))) {
        skip_brackets();
        continue;
      }
      depth += word(at_) == "<";
      depth -= word(at_) == ">";
      ++at_;
    } while (depth > 0 && !at_end());
  }

  /// Past one word, or past the brackets that open here.
  void step() {
    if (opens(word(at_)))
      skip_brackets();
    else
      ++at_;
  }

  /// The declarations up to the closing brace. `type` is the name of the type around them, or empty.
  void scope(const std::string& type, bool is_public) {
    const bool outer = is_piece_;
    is_piece_ = false;
    while (!at_end() && word(at_) != "}") {
      if ((word(at_) == "public" || word(at_) == "private" || word(at_) == "protected") && word(at_ + 1) == ":") {
        is_public = word(at_) == "public";
        at_ += 2;
      } else {
        declaration(type, is_public);
      }
    }
    ++at_;
    is_piece_ = outer;
    overloaded_.clear();
  }

  void note(bool has_comment, std::size_t line, const std::string& name) {
    if (has_comment || word(at_) == "///<")
      ++documented_;
    else
      bare_.push_back(std::to_string(line) + ": " + name);
  }

  /// Behind the next ; of this level.
  void skip_statement() {
    while (!at_end() && word(at_) != ";") step();
    ++at_;
  }

  /// Past template <...> and the requires clause behind it. True where that is the head of an explicit specialisation.
  bool template_head() {
    bool special = false;
    while (word(at_) == "template") {
      ++at_;
      special = word(at_) == "<" && word(at_ + 1) == ">";
      skip_angles();
      bool wants_operand = word(at_) == "requires";
      if (wants_operand) ++at_;
      while (wants_operand) {  // operands joined by && and ||
        if (word(at_) == "requires") {
          ++at_;
          if (word(at_) == "(") skip_brackets();
          skip_brackets();
        } else if (word(at_) == "(") {
          skip_brackets();
        } else {
          while (word(at_) == "!") ++at_;
          do {
            at_ += word(at_) == ":" ? 2U : 0U;
            ++at_;
            if (word(at_) == "<") skip_angles();
          } while (word(at_) == ":" && word(at_ + 1) == ":");
        }
        wants_operand = (word(at_) == "&" || word(at_) == "|") && word(at_ + 1) == word(at_);
        if (wants_operand) at_ += 2;
      }
    }
    return special;
  }

  void declaration(const std::string& type, bool is_public) {
    before_ = std::exchange(overloaded_, {});
    bool has_comment = false;
    for (; word(at_).starts_with("///"); ++at_) has_comment = word(at_) == "///";
    if (at_end() || word(at_) == "}") return;
    if (word(at_) == ";") {
      ++at_;
      return;
    }
    const std::size_t line = words_[at_].line;
    const bool special = template_head();
    std::size_t head = at_;
    while (word(head) == "inline" || word(head) == "typedef" || word(head) == "extern") ++head;
    const std::string& first = word(head);
    if (first == "namespace") {
      bool hidden = false;
      for (at_ = head + 1; word(at_) != "{" && word(at_) != ";" && !at_end(); ++at_)
        hidden = hidden || word(at_) == "detail";
      if (word(at_) == ";" || word(at_) == "") {
        ++at_;
      } else if (hidden) {
        skip_brackets();
      } else {
        ++at_;
        scope("", false);
      }
    } else if (first == "friend") {
      while (!at_end() && word(at_) != ";" && word(at_) != "{") step();
      step();
    } else if (first == "static_assert") {
      skip_statement();
    } else if (first == "using" || first == "concept") {
      const std::string name = word(head + 1);
      const bool names = word(head + 2) == "=";
      skip_statement();
      if (type.empty() && names) note(has_comment, line, name);
    } else if (first == "class" || first == "struct" || first == "union" || first == "enum") {
      type_declaration(head, has_comment, line, special, type.empty() || is_public);
    } else {
      function_or_variable(has_comment, line, special, type, is_public);
    }
  }

  void type_declaration(std::size_t head, bool has_comment, std::size_t line, bool special, bool is_public) {
    const bool is_enum = word(head) == "enum", default_public = word(head) != "class";
    at_ = head + 1;
    if (is_enum && (word(at_) == "class" || word(at_) == "struct")) ++at_;
    while (word(at_) == "[") skip_brackets();
    const std::string name = word(at_);
    ++at_;
    if (word(at_) == "<") {  // a specialisation is of something that has its comment
      special = true;
      skip_angles();
    }
    while (word(at_) != "{" && word(at_) != ";" && !at_end()) {
      if (word(at_) == "<")
        skip_angles();
      else
        ++at_;
    }
    if (word(at_) == ";") {  // declared only
      ++at_;
      return;
    }
    if (is_public && !special) note(has_comment, line, name);
    if (is_enum || !is_public) {
      skip_brackets();
    } else {
      ++at_;
      const bool outer = in_specialisation_;
      in_specialisation_ = special;
      scope(name, default_public);
      in_specialisation_ = outer;
    }
    skip_statement();
  }

  void function_or_variable(bool has_comment, std::size_t line, bool special, const std::string& type, bool is_public) {
    std::string name;
    bool is_function = false, assigned = false, defaulted = false, guide = false, qualified = false;
    bool is_pointer = false, overrides = false;
    std::size_t first_parameter = 0, last_parameter = 0;
    for (; !at_end() && word(at_) != ";";) {
      if (word(at_) == "operator" && !is_function) {
        is_piece_ = is_piece_ || name.ends_with("term");  // what it returns: term<V>, logits_term<>
        qualified = word(at_ - 1) == ":" && word(at_ - 2) == ":";
        name = "operator";
        ++at_;
        if (word(at_) == "(") {
          name += "()";
          at_ += 2;
        }
        for (; name != "operator()" && word(at_) != "(" && !at_end(); ++at_) name += word(at_);
      } else if (word(at_) == "(" && word(at_ + 1) == "*" && word(at_ + 3) == ")" && !is_function) {
        is_pointer = true;
        skip_brackets();
      } else if (word(at_) == "(" && !is_function && !is_pointer && !assigned && name != "decltype" &&
                 name != "alignas" && name != "explicit" && name != "requires" && name != "__attribute__") {
        is_function = true;
        qualified = qualified || (word(at_ - 2) == ":" && word(at_ - 3) == ":");
        first_parameter = at_ + 1;
        skip_brackets();
        last_parameter = at_ - 1;
      } else if (word(at_) == "{") {
        if (is_function && !assigned && word(at_ - 1) != "requires" && !member_initializer()) {
          skip_brackets();
          --at_;
          break;
        }
        skip_brackets();
      } else if (opens(word(at_))) {
        skip_brackets();
      } else if (word(at_) == "<" && !assigned && !is_function) {
        skip_angles();
      } else {
        if (is_function && word(at_) == "-" && word(at_ + 1) == ">" && name == word(first_parameter - 2) &&
            type.empty())
          guide = guide || is_guide(first_parameter);
        if (word(at_) == "=" && (word(at_ + 1) == "default" || word(at_ + 1) == "delete")) defaulted = true;
        overrides = overrides || word(at_) == "override";
        assigned = assigned || word(at_) == "=";
        if (!is_function && !assigned && is_word(word(at_)[0])) name = word(at_);
        ++at_;
      }
    }
    ++at_;
    is_piece_ = is_piece_ || (!is_function && (name == "name" || name == "reads"));
    if (!is_function || special || defaulted || overrides || guide || qualified) return;
    if (!type.empty() &&
        (!is_public || in_specialisation_ || covered_by_type(type, name, first_parameter, last_parameter)))
      return;
    name = (type.empty() ? "" : type + "::") + name;
    has_comment = has_comment || word(at_) == "///<";
    const bool shares = !has_comment && name == before_;
    if (!shares) note(has_comment, line, name);
    if (has_comment || shares) overloaded_ = name;
  }

  /// f(...) -> type<...>; without a type in front of f.
  bool is_guide(std::size_t first_parameter) const {
    const std::string& before = word(first_parameter - 3);
    return before == ">" || before == ";" || before == "}" || before == "///";
  }

  /// True where the { at hand belongs to a member's initializer or ends no function.
  bool member_initializer() const {
    // ": name{" or ", name{" behind the parameters of a constructor
    return is_word(word(at_ - 1)[0]) && (word(at_ - 2) == "," || (word(at_ - 2) == ":" && word(at_ - 3) != ":"));
  }

  bool described_by_concept(const std::string& type, const std::string& name) const {
    const auto at = models_.find(type);
    return at != models_.end() &&
           std::ranges::any_of(at->second, [&](const std::string& c) { return describes(concepts_, c, name); });
  }

  bool covered_by_type(const std::string& type, const std::string& name, std::size_t first, std::size_t last) const {
    if (first == last) return true;  // no parameters: its name says it all
    if (name == "check_settings" || name == "compose") return true;  // compose: of a row of a word_table
    if (described_by_concept(type, name)) return true;
    if (name == "operator()") return is_piece_;
    if (name != type && name != "operator=") return false;
    const std::size_t of = word(first) == "const" ? first + 1 : first;  // copies and moves: const T& or T&&
    return word(of) == type && word(of + 1) == "&" && (of > first || word(of + 2) == "&") && last <= first + 4;
  }

  std::vector<lexeme> words_;
  requirements concepts_;
  std::map<std::string, std::vector<std::string>> models_;  // the concepts that a type is asserted to model
  bool in_specialisation_ = false;
  bool is_piece_ = false;  // the type at hand is a piece or a link: it says `name` or `reads`, or returns terms
  std::string before_, overloaded_;  // the function with a comment directly before this declaration, and the next one
  std::size_t at_ = 0, documented_ = 0;
  std::vector<std::string> bare_;
};

/// The doc comments of the headers in some folders of the tree `top`.
struct comment_count {
  std::size_t documented = 0;
  strings bare;  ///< "FILE:LINE: NAME" of every public function and type without one
};

inline comment_count count_comments(const fs::path& top, const strings& folders) {
  comment_count count;
  std::map<std::string, std::vector<lexeme>> files;
  requirements concepts;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    const std::string file = fs::relative(entry.path(), top).generic_string();
    if (!file.ends_with(".hpp") || !starts_with_any(file, folders) || file.find("/detail/") != std::string::npos)
      continue;
    std::ifstream in(entry.path());
    files[file] = lexemes_of(std::string(std::istreambuf_iterator<char>(in), {}));
    collect_requirements(files[file], concepts);
  }
  for (auto& [file, words] : files) {
    const declarations seen(std::move(words), concepts);
    count.documented += seen.documented();
    for (const std::string& line : seen.bare()) count.bare.push_back(file + ":" + line);
  }
  return count;
}

}  // namespace layering
