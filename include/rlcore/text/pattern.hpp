// Regular expressions of tokenizer files. PCRE2 runs them with the character classes that the files assume.
#pragma once

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// `expression` with \s, \S, \w, \W spelled out. The files mean Unicode's White_Space and word characters
/// (Oniguruma's); PCRE2's own \s also takes U+180E, and its \w changed between versions. Throws format_error for
/// class intersections (&&), which PCRE2 would read as two ampersands.
std::string spell_out_classes(std::string_view expression);

/// A compiled regular expression over UTF-8 text. Immutable: one object may be used by many threads.
class pattern {
 public:
  /// Compiles `expression` (or takes it literally). Throws format_error with PCRE2's reason and position.
  explicit pattern(std::string_view expression, bool literal = false);

  /// Calls visit(begin, end) for every match in `text` (valid UTF-8), left to right. Throws error when PCRE2 gives up.
  template <class Visit>
  void for_each_match(std::string_view text, Visit&& visit) const {
    if (literal_ && !source_.empty()) {
      for (std::size_t at = find_text(text, source_); at != text.npos;
           at = find_text(text, source_, at + source_.size()))
        visit(at, at + source_.size());
      return;
    }
    std::unique_ptr<pcre2_match_data_8, release> data(pcre2_match_data_create_8(1, nullptr));
    effort most;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer_8(data.get());
    for (std::size_t at = 0; at <= text.size();) {
      const int found = pcre2_match_8(code_.get(), reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), at,
                                      most.options, data.get(), most.context.get());
      if (found == PCRE2_ERROR_NOMATCH) return;
      const bool limited = found == PCRE2_ERROR_JIT_STACKLIMIT || found == PCRE2_ERROR_MATCHLIMIT;
      if (limited && most.raise(text.size())) continue;
      if (found < 0) fail("gave up at byte " + std::to_string(at) + " of " + std::to_string(text.size()), found);
      visit(std::size_t{span[0]}, std::size_t{span[1]});
      at = span[1];
      if (span[0] == span[1]) {  // an empty match: step over one character
        do ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
      }
    }
  }

  /// The expression as the caller wrote it.
  const std::string& source() const noexcept { return source_; }

 private:
  struct release {
    void operator()(pcre2_code_8* p) const noexcept { pcre2_code_free_8(p); }
    void operator()(pcre2_match_data_8* p) const noexcept { pcre2_match_data_free_8(p); }
    void operator()(pcre2_match_context_8* p) const noexcept { pcre2_match_context_free_8(p); }
    void operator()(pcre2_jit_stack_8* p) const noexcept { pcre2_jit_stack_free_8(p); }
  };

  /// What PCRE2 may use for a match.
  struct effort {
    std::unique_ptr<pcre2_match_context_8, release> context{};
    std::unique_ptr<pcre2_jit_stack_8, release> stack{};
    std::uint32_t options = PCRE2_NO_UTF_CHECK;

    /// The next step: first a larger stack, then the interpreter, which keeps no place for each character of a run, and
    /// in both cases a number of steps that grows with the text. False if there is none left.
    bool raise(std::size_t text_size);
  };

  [[noreturn]] void fail(const std::string& failure, int code) const {
    PCRE2_UCHAR8 reason[256] = {};
    pcre2_get_error_message_8(code, reason, sizeof reason);
    throw format_error("pattern '" + source_ + "' " + failure + ": " + reinterpret_cast<const char*>(reason));
  }

  std::string source_;
  bool literal_;
  std::unique_ptr<pcre2_code_8, release> code_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string spell_out_classes(std::string_view expression) {
  constexpr std::string_view space =
      "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
  constexpr std::string_view word = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char kind = expression[++i];
      const std::string_view set = kind == 's' || kind == 'S' ? space : word;
      if (kind == 's' || kind == 'w') {
        out += in_class ? std::string(set) : '[' + std::string(set) + ']';
      } else if ((kind == 'S' || kind == 'W') && !in_class) {
        out += "[^" + std::string(set) + ']';
      } else {
        (out += c) += kind;
      }
      continue;
    }
    if (in_class && c == '&' && expression.substr(i, 2) == "&&")
      throw format_error("pattern '" + std::string(expression) + "': class intersection (&&) is not supported");
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

RLCORE_INLINE bool pattern::effort::raise(std::size_t text_size) {
  if ((options & PCRE2_NO_JIT) != 0) return false;
  if (stack) {
    options |= PCRE2_NO_JIT;
    return true;
  }
  constexpr std::uint64_t usual_steps = 10'000'000, steps_of_byte = 64;
  const auto steps = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(usual_steps + steps_of_byte * text_size, std::numeric_limits<std::uint32_t>::max()));
  stack.reset(pcre2_jit_stack_create_8(64 * 1024, 64 * 1024 * 1024, nullptr));
  context.reset(pcre2_match_context_create_8(nullptr));
  pcre2_jit_stack_assign_8(context.get(), nullptr, stack.get());
  pcre2_set_match_limit_8(context.get(), steps);
  pcre2_set_depth_limit_8(context.get(), steps);
  pcre2_set_heap_limit_8(context.get(), 1024 * 1024);  // in KiB
  return true;
}

RLCORE_INLINE pattern::pattern(std::string_view expression, bool literal) : source_(expression), literal_(literal) {
  const std::string spelled = literal ? source_ : spell_out_classes(expression);
  const std::uint32_t options =
      PCRE2_UTF | (literal ? std::uint32_t{PCRE2_LITERAL} : std::uint32_t{PCRE2_UCP | PCRE2_MULTILINE});
  int code = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(
      pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(spelled.data()), spelled.size(), options, &code, &offset, nullptr));
  if (!code_) fail("cannot be compiled at offset " + std::to_string(offset), code);
  // Without just-in-time compilation PCRE2 interprets: slower, same matches.
  pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE);
}

}  // namespace text
RLCORE_END
#endif
