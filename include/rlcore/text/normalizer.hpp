// Normalizers of a tokenizer.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

  /// `text` (valid UTF-8) after all steps. Throws data_error if replacements make it more than 256 times as long, and
  /// longer than 16 MiB.
  std::string operator()(std::string_view text) const {
    std::string result(text);
    for (const auto& step : steps_) {
      result = std::visit([&](const auto& s) { return apply(s, result, text.size()); }, step);
      check_growth(result.size(), text.size());
    }
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

  static void check_growth(std::size_t size, std::size_t original) {
    constexpr std::size_t most = 256, allowed = std::size_t{1} << 24;
    if (size > allowed && size / most > original)
      throw data_error("normalizer: a text of " + std::to_string(original) + " bytes becomes longer than " +
                       std::to_string(std::max(allowed, most * original)));
  }
  static std::string apply(normal_form form, const std::string& text, std::size_t) { return normalized(text, form); }
  static std::string apply(lower, const std::string& text, std::size_t) { return lowercase(text); }
  static std::string apply(const prepend& s, const std::string& text, std::size_t) {
    return text.empty() ? text : s.prefix + text;
  }
  static std::string apply(strip_ends s, const std::string& text, std::size_t) {
    return std::string(strip(text, s.left, s.right));
  }
  static std::string apply(const replace& s, const std::string& text, std::size_t original);

  void add(const nlohmann::json& json);

  std::vector<std::variant<normal_form, lower, replace, prepend, strip_ends>> steps_;
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

namespace detail {

/// The class of a mark, by which those behind a letter are ordered; 0 for all else.
inline int combining_class(std::int32_t c) noexcept { return utf8proc_get_property(c)->combining_class; }

/// The decomposed characters of `text`, with every run of marks in canonical order. utf8proc_map sorts runs by
/// insertion, which takes quadratic time.
RLCORE_INLINE std::vector<std::int32_t> decomposed(std::string_view text, utf8proc_option_t options) {
  constexpr std::size_t longest = 32;  // no character has as many in its decomposition
  std::vector<std::int32_t> out;
  out.reserve(text.size() + longest);
  std::size_t run = 0;  // where the marks at the end begin
  const auto end_run = [&] {
    const auto before = [](std::int32_t a, std::int32_t b) { return combining_class(a) < combining_class(b); };
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(run);
    if (!std::is_sorted(begin, out.end(), before)) std::stable_sort(begin, out.end(), before);
  };
  int last_class = UTF8PROC_BOUNDCLASS_START;
  for (std::size_t at = 0; at < text.size();) {
    std::int32_t c = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    std::int32_t parts[longest];
    const auto count = length < 0 ? length : utf8proc_decompose_char(c, parts, longest, options, &last_class);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(longest))
      throw data_error(std::string("Unicode normalisation failed: ") +
                       utf8proc_errmsg(count < 0 ? count : utf8proc_ssize_t{UTF8PROC_ERROR_OVERFLOW}));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      if (combining_class(parts[i]) == 0) {
        end_run();
        run = out.size() + 1;
      }
      out.push_back(parts[i]);
    }
    at += static_cast<std::size_t>(length);
  }
  end_run();
  return out;
}

}  // namespace detail

RLCORE_INLINE std::string normalized(std::string_view text, normal_form form) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);
  const bool compose = form == normal_form::nfc || form == normal_form::nfkc;
  const bool compatible = form == normal_form::nfkc || form == normal_form::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<std::int32_t> characters = detail::decomposed(text, options);
  const auto size =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), options);
  if (size < 0) throw data_error(std::string("Unicode normalisation failed: ") + utf8proc_errmsg(size));
  std::string out;
  out.reserve(text.size());
  for (const std::int32_t c : std::span(characters).first(static_cast<std::size_t>(size)))
    append_utf8(out, static_cast<char32_t>(c));
  return out;
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

RLCORE_INLINE std::string normalizer::apply(const replace& s, const std::string& text, std::size_t original) {
  std::string out;
  std::size_t done = 0;
  s.expression->for_each_match(text, [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done).append(s.with);
    check_growth(out.size(), original);
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
