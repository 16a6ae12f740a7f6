// Normalizers of a tokenizer, and its added tokens.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/pattern.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// Unicode White_Space: the set of Rust's char::is_whitespace and of tokenizer files.
constexpr bool is_white_space(char32_t c) noexcept {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// Unicode word characters: letters, marks, decimal and letter numbers, connectors, joiners.
bool is_word_character(char32_t c) noexcept;

/// The four normal forms of Unicode Standard Annex 15.
enum class normal_form : unsigned char { nfc, nfd, nfkc, nfkd };

/// `text` (valid UTF-8) in a normal form.
std::string normalized(std::string_view text, normal_form form);

/// `text` in lower case, character by character (no final sigma), as tokenizer files mean it.
std::string lowercase(std::string_view text);

/// `text` without white space at its ends.
std::string_view strip(std::string_view text, bool left, bool right);

/// A chain of normalisation steps: NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip and Sequence.
class normalizer {
 public:
  normalizer() = default;

  /// Reads the `normalizer` object of a tokenizer.json (null: no step). Throws format_error for an unknown type.
  explicit normalizer(const nlohmann::json& json) { add(json); }

  bool empty() const noexcept { return steps_.empty(); }

  /// `text` (valid UTF-8) after all steps.
  std::string operator()(std::string_view text) const {
    std::string result(text);
    for (const auto& step : steps_) result = std::visit([&](const auto& s) { return apply(s, result); }, step);
    return result;
  }

 private:
  struct lower {};
  struct replace {
    std::shared_ptr<const pattern> expression;
    std::string with;
  };
  struct prepend {
    std::string prefix;
  };
  struct strip_ends {
    bool left, right;
  };

  static std::string apply(normal_form form, const std::string& text) { return normalized(text, form); }
  static std::string apply(lower, const std::string& text) { return lowercase(text); }
  static std::string apply(const prepend& s, const std::string& text) { return text.empty() ? text : s.prefix + text; }
  static std::string apply(strip_ends s, const std::string& text) { return std::string(strip(text, s.left, s.right)); }
  static std::string apply(const replace& s, const std::string& text);

  void add(const nlohmann::json& json);

  std::vector<std::variant<normal_form, lower, replace, prepend, strip_ends>> steps_;
};

/// One entry of `added_tokens` in a tokenizer.json.
struct added_token {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matches only between non-word characters
  bool lstrip = false;       ///< includes white space to its left
  bool rstrip = false;       ///< includes white space to its right
  bool normalized = true;    ///< matched in the normalised text instead of the raw one
  bool special = false;      ///< a control token: skipped with skip_special_tokens
};

/// Finds added tokens in a text: leftmost-longest, as Hugging Face's tokenizers do.
class added_token_finder {
 public:
  /// Adds a token that is written `spelling` in the text searched.
  void add(const added_token& token, std::string spelling) {
    if (spelling.empty()) return;
    auto& group = by_first_byte_[static_cast<unsigned char>(spelling[0])];
    group.push_back({std::move(spelling), token});
    std::stable_sort(group.begin(), group.end(),
                     [](const entry& a, const entry& b) { return a.spelling.size() > b.spelling.size(); });
    any_ = true;
  }

  bool empty() const noexcept { return !any_; }

  /// Calls on_text(part) and on_token(id) from left to right. Special tokens stay text unless `parse_special`. White
  /// space that a token takes (rstrip) is searched for further tokens, as tokenizers 0.23 does.
  template <class OnText, class OnToken>
  void split(std::string_view text, bool parse_special, OnText&& on_text, OnToken&& on_token) const {
    std::size_t done = 0, at = 0;
    while (any_ && at < text.size()) {
      const entry* match = find(text, at);
      if (match == nullptr) {
        ++at;
        continue;
      }
      std::size_t begin = at, end = at + match->spelling.size();
      at = end;
      const added_token& token = match->token;
      if (token.special && !parse_special) continue;
      if (token.single_word && (word_before(text, begin) || word_after(text, end))) continue;
      if (token.lstrip) begin = std::max(space_before(text, begin), done);
      if (token.rstrip) end += text.size() - end - strip(text.substr(end), true, false).size();
      if (done < begin) on_text(text.substr(done, begin - done));
      on_token(token.id);
      done = end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct entry {
    std::string spelling;
    added_token token;
  };

  const entry* find(std::string_view text, std::size_t at) const noexcept {
    for (const entry& e : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.compare(at, e.spelling.size(), e.spelling) == 0) return &e;
    return nullptr;
  }

  static utf8_step character_before(std::string_view text, std::size_t at) noexcept {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    return read_utf8(text, begin);
  }
  static bool word_before(std::string_view text, std::size_t at) noexcept {
    return at > 0 && is_word_character(character_before(text, at).code_point);
  }
  static bool word_after(std::string_view text, std::size_t at) noexcept {
    return at < text.size() && is_word_character(read_utf8(text, at).code_point);
  }
  static std::size_t space_before(std::string_view text, std::size_t at) noexcept {
    while (at > 0) {
      const utf8_step step = character_before(text, at);
      if (!is_white_space(step.code_point)) break;
      at -= step.length;
    }
    return at;
  }

  std::array<std::vector<entry>, 256> by_first_byte_;
  bool any_ = false;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE bool is_word_character(char32_t c) noexcept {
  if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9)) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

RLCORE_INLINE std::string normalized(std::string_view text, normal_form form) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);
  const bool compose = form == normal_form::nfc || form == normal_form::nfkc;
  const bool compatible = form == normal_form::nfkc || form == normal_form::nfkd;
  const int options =
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  if (size < 0) throw data_error(std::string("Unicode normalisation failed: ") + utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return std::string(reinterpret_cast<const char*>(result), static_cast<std::size_t>(size));
}

RLCORE_INLINE std::string lowercase(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = read_utf8(text, at);
    at += step.length;
    if (step.code_point == 0x130) {  // the one character whose lower case is two
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(step.code_point))));
    }
  }
  return out;
}

RLCORE_INLINE std::string_view strip(std::string_view text, bool left, bool right) {
  std::size_t begin = 0, end = 0;
  bool inside = !left;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = read_utf8(text, at);
    const bool space = is_white_space(step.code_point);
    if (!inside && !space) begin = at, inside = true;
    at += step.length;
    if (!space || !right) end = at;
  }
  if (!inside || end < begin) return {};
  return text.substr(begin, end - begin);
}

RLCORE_INLINE std::string normalizer::apply(const replace& s, const std::string& text) {
  std::string out;
  std::size_t done = 0;
  s.expression->for_each_match(text, [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done).append(s.with);
    done = end;
  });
  return out.append(text, done);
}

RLCORE_INLINE void normalizer::add(const nlohmann::json& json) {
  if (json.is_null()) return;
  const std::string type = string_field(json, "type", "normalizer");
  if (type == "Sequence") {
    for (const auto& step : field(json, "normalizers", "normalizer")) add(step);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps_.emplace_back(type == "NFC"    ? normal_form::nfc
                        : type == "NFD"  ? normal_form::nfd
                        : type == "NFKC" ? normal_form::nfkc
                                         : normal_form::nfkd);
  } else if (type == "Lowercase") {
    steps_.emplace_back(lower{});
  } else if (type == "Replace") {
    const nlohmann::json& source = field(json, "pattern", "normalizer");
    const bool literal = source.is_object() && source.contains("String");
    steps_.emplace_back(replace{
        std::make_shared<pattern>(string_field(source, literal ? "String" : "Regex", "normalizer.pattern"), literal),
        string_field(json, "content", "normalizer")});
  } else if (type == "Prepend") {
    steps_.emplace_back(prepend{string_field(json, "prepend", "normalizer")});
  } else if (type == "Strip") {
    steps_.emplace_back(strip_ends{bool_field(json, "strip_left", true, "normalizer"),
                                   bool_field(json, "strip_right", true, "normalizer")});
  } else {
    throw format_error("normalizer.type '" + type +
                       "' is not supported; expected NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip or "
                       "Sequence");
  }
}

}  // namespace text
RLCORE_END
#endif
