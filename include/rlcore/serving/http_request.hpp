// Reading an HTTP request: head and body.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/connection.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/protocol/api_error.hpp"

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

/// The value of a header as it was sent, but for the spaces around it; `lower` is its name in small letters. Of several
/// the last; empty if there is none. The head is one that problem_of_head() accepts.
std::string_view header_of(std::string_view head, std::string_view lower);
/// Whether a head announces a body.
bool announces_body(std::string_view head);

/// Whether a page of another site may have sent the request, without its user's knowledge: a browser says so in Origin
/// or Sec-Fetch-Site. A page of the server itself has an origin with the authority of Host; only an address or
/// localhost counts there, since any name may be made to point to this machine (DNS rebinding). `allowed` are the
/// origins of other pages, or *.
bool is_foreign_page(std::string_view head, const std::vector<std::string>& allowed);

/// Total bytes of all bodies, counted as received. The oldest body being read may take all remaining bytes; all later
/// ones leave it room for a whole body. So one body can always be read to its end.
class body_budget {
 public:
  /// `whole`: bytes of a body at most.
  body_budget(std::size_t bytes, std::size_t whole) : all_(bytes), reserve_(std::min(whole, bytes)), left_(bytes) {}

  /// The bytes of one body, for as long as it lives.
  class share {
   public:
    /// Starts a new body.
    explicit share(body_budget& budget) : budget_(budget), number_(budget.enter()) {}
    share(const share&) = delete;
    share& operator=(const share&) = delete;
    ~share() { budget_.leave(number_, held_); }
    /// Waits for room for this many more bytes; false if `go_on` returns false meanwhile. A body larger than the whole
    /// budget holds all of it.
    bool take(std::size_t bytes, const std::function<bool()>& go_on);
    /// The body has been read.
    void complete() { budget_.leave(number_, 0); }

   private:
    body_budget& budget_;
    std::uint64_t number_;
    std::size_t held_ = 0;
  };

 private:
  std::uint64_t enter() {
    const std::lock_guard lock(mutex_);
    return *being_read_.insert(++last_).first;
  }
  bool take(std::uint64_t number, std::size_t bytes, const std::function<bool()>& go_on);
  void leave(std::uint64_t number, std::size_t bytes);

  const std::size_t all_, reserve_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::size_t left_;
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> being_read_;
};

/// Body framing from the headers of a request; without any of them there is no body.
struct body_framing {
  std::size_t lengths = 0;    ///< headers Content-Length
  std::string length{};       ///< the first of them
  std::string transfer{};     ///< Transfer-Encoding
  std::string compression{};  ///< Content-Encoding
};

/// Reads one body.
class body_reader {
 public:
  /// All arguments must outlive this object.
  body_reader(connection& from, const http_settings& settings, body_budget::share& room,
              const std::function<bool()>& crowded)
      : from_(from), settings_(settings), room_(room), crowded_(crowded) {}
  body_reader(const body_reader&) = delete;

  /// The body. Throws api_error: 400 for a framing that is unclear or a body that ends early, 413 beyond the settings'
  /// body_limit.
  std::string read(const body_framing& framing);
  /// Whether the next byte of the connection is that of the next request.
  bool in_step() const noexcept { return in_step_; }

 private:
  static constexpr std::size_t block = 16384, line_limit = 4096, trailer_limit = 100;

  static bool is_chunked(std::string_view value) {
    constexpr std::string_view word = "chunked";
    return std::equal(value.begin(), value.end(), word.begin(), word.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  }
  [[noreturn]] static void ended_early() { throw invalid_body("the body ended early"); }
  /// A number of at most 15 digits.
  static std::optional<std::uint64_t> number(std::string_view digits, unsigned base);

  std::string complete() {
    room_.complete();
    return std::move(body_);
  }
  void read_known(const body_framing& framing) {
    const auto length = number(framing.length, 10);
    if (!length || framing.lengths > 1) throw invalid_body("Content-Length: expected one whole number");
    read_bytes(*length);
  }
  void read_chunks();
  /// Whether to give up: others wait, and the last window of time has brought too little.
  bool too_slow();
  std::size_t read_some(char* to, std::size_t size) {
    const auto n = from_.read(to, size, [this] { return too_slow(); });
    if (!n || *n == 0) ended_early();
    in_window_ += *n;
    return *n;
  }
  /// Beyond the limit bytes are read, so that the client receives the response, and dropped.
  void read_bytes(std::uint64_t count);
  std::string read_line();

  connection& from_;
  const http_settings& settings_;
  body_budget::share& room_;
  const std::function<bool()>& crowded_;
  std::string body_;
  std::uint64_t size_ = 0;
  connection::clock::time_point window_ = connection::clock::now();
  std::size_t in_window_ = 0;  // bytes
  bool in_step_ = true;
};

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
  std::size_t hosts = 0, lengths = 0, transfers = 0, keys = 0, origins = 0;
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
    if (detail::is_word(name, "authorization")) ++keys;
    if (detail::is_word(name, "origin")) ++origins;
    if (detail::is_word(name, "content-length") &&
        (++lengths > 1 || value.empty() || value.find_first_not_of("0123456789") != value.npos))
      return "Content-Length: expected one whole number";
    if (detail::is_word(name, "transfer-encoding") && (++transfers > 1 || !detail::is_word(value, "chunked") || old))
      return "Transfer-Encoding: expected chunked, once, and not of HTTP/1.0";
  }
  if (hosts > 1) return "Host: expected one";
  if (keys > 1) return "Authorization: expected one";
  if (origins > 1) return "Origin: expected one";
  return lengths > 0 && transfers > 0 ? "Transfer-Encoding: expected chunked, without Content-Length" : "";
}

RLCORE_INLINE std::string_view header_of(std::string_view head, std::string_view lower) {
  std::string_view found;
  while (!head.empty()) {
    const std::size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (const std::size_t colon = line.find(':'); colon != line.npos && detail::is_word(line.substr(0, colon), lower))
      found = detail::trimmed(line.substr(colon + 1));
  }
  return found;
}

RLCORE_INLINE bool announces_body(std::string_view head) {
  return !header_of(head, "transfer-encoding").empty() ||
         header_of(head, "content-length").find_first_not_of('0') != std::string_view::npos;
}

RLCORE_INLINE bool is_foreign_page(std::string_view head, const std::vector<std::string>& allowed) {
  const std::string_view origin = header_of(head, "origin"), site = header_of(head, "sec-fetch-site");
  if (std::ranges::any_of(allowed, [&](const std::string& a) { return a == "*" || a == origin; })) return false;
  if (site == "cross-site" || site == "same-site") return true;
  if (origin.empty()) return false;
  const std::string_view host = header_of(head, "host"), name = host.substr(0, host.rfind(':'));
  const bool here = host.starts_with('[') || name == "localhost" || name.ends_with(".localhost") ||
                    (!name.empty() && name.find_first_not_of("0123456789.") == name.npos);
  return !here || (origin != "http://" + std::string(host) && origin != "https://" + std::string(host));
}

RLCORE_INLINE bool body_budget::share::take(std::size_t bytes, const std::function<bool()>& go_on) {
  const std::size_t more = std::min(bytes, budget_.all_ - held_);
  if (!budget_.take(number_, more, go_on)) return false;
  held_ += more;
  return true;
}

RLCORE_INLINE bool body_budget::take(std::uint64_t number, std::size_t bytes, const std::function<bool()>& go_on) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return left_ >= bytes + (number == *being_read_.begin() ? 0 : reserve_); };
  while (!freed_.wait_for(lock, std::chrono::milliseconds(250), fits))
    if (!go_on()) return false;
  left_ -= bytes;
  return true;
}

RLCORE_INLINE void body_budget::leave(std::uint64_t number, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    being_read_.erase(number);
    left_ += bytes;
  }
  freed_.notify_all();
}

RLCORE_INLINE std::string body_reader::read(const body_framing& framing) {
  if (framing.transfer.empty() && framing.lengths == 0) return complete();
  in_step_ = false;
  from_.read_until(settings_.body_deadline);
  if (framing.transfer.empty())
    read_known(framing);
  else if (framing.lengths == 0 && is_chunked(framing.transfer))
    read_chunks();
  else
    throw invalid_body("Transfer-Encoding: expected chunked, without Content-Length");
  in_step_ = true;
  if (!framing.compression.empty() && framing.compression != "identity")
    throw invalid_body("Content-Encoding: " + framing.compression + " is not supported; send the body as it is");
  if (size_ > settings_.body_limit)
    throw api_error(413, std::string(phrase_of(413)),
                    "the body has more than " + std::to_string(settings_.body_limit) + " bytes");
  return complete();
}

RLCORE_INLINE std::optional<std::uint64_t> body_reader::number(std::string_view digits, unsigned base) {
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) {
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10)
                                                  : 16;
    if (digit >= base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

RLCORE_INLINE void body_reader::read_chunks() {
  for (;;) {
    const std::string line = read_line();
    const auto length = number(line.substr(0, line.find_first_of("; \t")), 16);
    if (!length) throw invalid_body("a chunk of the body has no length");
    if (*length == 0) break;
    read_bytes(*length);
    if (!read_line().empty()) throw invalid_body("a chunk of the body is longer than its length");
  }
  for (std::size_t i = 0; !read_line().empty(); ++i)
    if (i == trailer_limit) throw invalid_body("the body has too many trailers");
}

RLCORE_INLINE void body_reader::read_bytes(std::uint64_t count) {
  std::array<char, block> taken;
  while (count > 0) {
    const std::size_t n = read_some(taken.data(), static_cast<std::size_t>(std::min<std::uint64_t>(count, block)));
    count -= n, size_ += n;
    if (size_ > settings_.body_limit) continue;
    const auto began = connection::clock::now();
    if (!room_.take(n, [&] { return from_.connected(); })) ended_early();
    const auto waited = connection::clock::now() - began;
    from_.postpone(waited), window_ += waited;
    body_.append(taken.data(), n);
  }
}

RLCORE_INLINE bool body_reader::too_slow() {
  const auto now = connection::clock::now();
  const auto passed = now - window_;
  if (passed < settings_.body_window) return false;
  const double seconds = std::chrono::duration<double>(passed).count();
  if (static_cast<double>(in_window_) < static_cast<double>(settings_.least_body_rate) * seconds && crowded_())
    return true;
  window_ = now, in_window_ = 0;
  return false;
}

RLCORE_INLINE std::string body_reader::read_line() {
  std::string line;
  for (char c = 0; c != '\n'; line += c) {
    read_some(&c, 1);
    if (line.size() == line_limit) throw invalid_body("a line between the chunks of the body is too long");
  }
  line.pop_back();
  if (line.empty() || line.back() != '\r') throw invalid_body("a line between the chunks of the body has no end");
  line.pop_back();
  return line;
}

}  // namespace serving
RLCORE_END
#endif
