// Request-head validation against request smuggling.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

namespace detail {

/// Whether it is the name of a method or of a header (RFC 9110, 5.6.2).
bool is_token(std::string_view text) noexcept;
/// Equal but for the case of letters; `lower` has small ones.
bool is_word(std::string_view text, std::string_view lower) noexcept;
inline std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// METHOD target HTTP/1.1 and nothing else; `old` is set for HTTP/1.0.
std::string problem_of_request_line(std::string_view line, bool& old);

}  // namespace detail

/// Checks a request's head, up to its empty line, for parts that a proxy may interpret differently from the HTTP
/// library used here, which skips malformed lines and decodes %41 in values (RFC 9112, sections 2.2, 3, 5 and 6).
/// Returns a sentence; empty for an unambiguous head.
std::string problem_of_head(std::string_view head);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE bool is_token(std::string_view text) noexcept {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  for (const char c : text)
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || marks.find(c) != marks.npos))
      return false;
  return !text.empty();
}

RLCORE_INLINE bool is_word(std::string_view text, std::string_view lower) noexcept {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]) != lower[i]) return false;
  return true;
}

RLCORE_INLINE std::string problem_of_request_line(std::string_view line, bool& old) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last || line.find(' ', first + 1) != last || !is_token(line.substr(0, first)))
    return "the request's line is not METHOD PATH HTTP/1.1";
  const std::string_view version = line.substr(last + 1);
  old = version == "HTTP/1.0";
  return old || version == "HTTP/1.1" ? "" : "the request's version is neither HTTP/1.1 nor HTTP/1.0";
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::string problem_of_head(std::string_view head) {
  bool old = false;
  std::size_t hosts = 0, lengths = 0, transfers = 0;
  for (bool first = true; first || !head.starts_with("\r\n"); first = false) {
    const std::size_t end = head.find("\r\n");
    if (end == head.npos) return "the headers have no end";
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    for (const char c : line)
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f)
        return "the headers have control characters, or lines without CR LF";
    if (first) {
      if (std::string problem = detail::problem_of_request_line(line, old); !problem.empty()) return problem;
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !detail::is_token(line.substr(0, colon)))
      return "a line of the headers is not NAME: VALUE";
    const std::string_view name = line.substr(0, colon), value = detail::trimmed(line.substr(colon + 1));
    if (detail::is_word(name, "host")) ++hosts;
    if (detail::is_word(name, "content-length") &&
        (++lengths > 1 || value.empty() || value.find_first_not_of("0123456789") != value.npos))
      return "Content-Length: expected one whole number";
    if (detail::is_word(name, "transfer-encoding") && (++transfers > 1 || !detail::is_word(value, "chunked") || old))
      return "Transfer-Encoding: expected chunked, once, and not of HTTP/1.0";
  }
  if (hosts > 1) return "Host: expected one";
  return lengths > 0 && transfers > 0 ? "Transfer-Encoding: expected chunked, without Content-Length" : "";
}

}  // namespace serving
RLCORE_END
#endif
