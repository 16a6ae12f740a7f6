// Sockets of a server: those it listens on, and a client's connection with deadlines by poll().
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/http.hpp"

RLCORE_BEGIN
namespace serving {

/// Bound sockets: clients wait until a server accepts.
class listening_sockets {
 public:
  /// Throws config_error if the address is unknown or in use. A stale Unix socket file is replaced.
  explicit listening_sockets(const http_settings& settings);
  listening_sockets(const listening_sockets&) = delete;
  listening_sockets& operator=(const listening_sockets&) = delete;
  ~listening_sockets();

  /// One or two; they do not block.
  const std::vector<int>& all() const noexcept { return sockets_; }
  /// Stops accepting connections.
  void close() noexcept;
  /// The port; 0 for a Unix socket.
  int port() const noexcept { return port_; }
  /// http://host:port, or the path of the Unix socket.
  std::string url() const;

 private:
  std::string host_, unix_socket_;
  int port_ = 0;
  std::vector<int> sockets_;
};

/// Owns a socket. One thread waits until the headers of a request are complete; a second one then reads and writes, up
/// to a deadline independent of the client's speed.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  /// The destructor closes `socket` and releases its `place`. `address` is the other end's, as text. The settings must
  /// outlive the connection.
  connection(int socket, const http_settings& settings, std::string address, std::shared_ptr<const void> place);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  int socket() const noexcept { return socket_; }
  /// Of the other end.
  const std::string& address() const noexcept { return address_; }
  /// Receives available bytes without waiting; false at the end of the connection.
  bool receive();
  /// Whether bytes of the next request have been received.
  bool has_bytes() const noexcept { return begin_ < bytes_.size(); }
  /// Whether the headers of the next request are complete, up to the empty line.
  bool has_headers() const;
  /// The line and the headers of the next request, where has_headers().
  std::string_view head() const;
  /// Whether they are longer than the settings allow.
  bool has_too_many_headers() const;
  /// When to give up waiting for them.
  clock::time_point deadline() const noexcept { return deadline_; }
  /// From now on the next request is waited for.
  void wait_for_request();

  /// Reading fails this long from now.
  void read_until(clock::duration from_now) { deadline_ = clock::now() + from_now; }
  /// Moves that moment.
  void postpone(clock::duration by) { deadline_ += by; }
  /// Reads at least a byte and at most `size`; 0 at the end of the connection, nothing after the deadline or if
  /// `give_up()`, which is asked before and while it waits.
  std::optional<std::size_t> read(char* to, std::size_t size, const std::function<bool()>& give_up);
  /// Writes all of it; false if the client does not accept it.
  bool write(std::string_view text);
  /// Whether the client can be written to before the settings' write_deadline.
  bool is_writable() const;
  /// Whether the client has not closed its end.
  bool connected() const;

  /// Sends `last` as far as possible without waiting, and no more after it. What the client is still sending is to be
  /// dropped until it closes or the deadline comes, so that it reads the response.
  void end(std::string_view last = {});
  /// Whether end() was called.
  bool ended() const noexcept { return ended_; }
  /// Drops available bytes without waiting; false at the end of the connection.
  bool discard();
  /// Shuts down reading and writing. Safe to call from any thread while the connection is in use.
  void drop() const;

 private:
  bool ready(short what, clock::duration longest) const;

  int socket_;
  const http_settings& settings_;
  std::string address_;
  std::shared_ptr<const void> place_;
  clock::time_point deadline_{};
  std::string bytes_;      // received
  std::size_t begin_ = 0;  // start of the unread bytes
  bool ended_ = false;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_HTTP)
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace serving {
namespace detail {

inline constexpr int backlog = 4096;

/// A socket that listens there; -1, and errno, if it cannot.
inline int listen_at(const sockaddr* address, socklen_t size) {
  const int s = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return -1;
  const int on = 1, off = 0;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(s, address, size) == 0 && ::listen(s, backlog) == 0) return s;
  const int why = errno;
  ::close(s);
  errno = why;
  return -1;
}

/// The same at a host and a port; the port 0 becomes the one that is bound. Throws config_error for an unknown host.
inline int listen_at(const std::string& host, int& port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failed != 0)
    throw config_error("--host " + host + ": " + ::gai_strerror(failed) + "; expected an address of this machine");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(list, ::freeaddrinfo);
  int s = -1;
  for (const addrinfo* a = list; a != nullptr && s < 0; a = a->ai_next) s = listen_at(a->ai_addr, a->ai_addrlen);
  if (s < 0) return -1;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(s, reinterpret_cast<sockaddr*>(&bound), &size);
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return s;
}

[[noreturn]] inline void cannot_listen(const std::string& host, int port) {
  const int why = errno;
  const std::string where = (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  throw config_error("cannot listen on " + where + ": " + std::strerror(why) +
                     (why == EADDRNOTAVAIL ? "; --host has to be an address of this machine"
                      : port == 0          ? ""
                                           : "; choose another with --port, or --port 0 for a free one"));
}

/// Whether the path is a socket without a listening process.
inline bool is_left_behind(const sockaddr_un& address) {
  struct stat file{};
  if (::stat(address.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return false;
  const bool refused =
      ::connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  ::close(s);
  return refused;
}

inline int listen_at_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw config_error("--uds " + path + ": the path has " + std::to_string(path.size()) +
                       " bytes; the system takes at most " + std::to_string(sizeof address.sun_path - 1));
  path.copy(address.sun_path, path.size());
  const auto* const general = reinterpret_cast<const sockaddr*>(&address);
  int s = listen_at(general, sizeof address);
  if (s < 0 && errno == EADDRINUSE && is_left_behind(address)) {
    ::unlink(address.sun_path);
    s = listen_at(general, sizeof address);
  }
  if (s < 0)
    throw config_error("cannot listen on " + path + ": " + std::strerror(errno) + "; choose another path with --uds");
  return s;
}

/// Whether this machine has the address ::1.
inline bool has_ipv6() {
  int any = 0;
  const int s = listen_at("::1", any);
  if (s >= 0) ::close(s);
  return s >= 0;
}

inline constexpr std::size_t block = 16384;
inline constexpr std::string_view empty_line = "\r\n\r\n";

}  // namespace detail

RLCORE_INLINE listening_sockets::listening_sockets(const http_settings& settings)
    : host_(settings.host.empty() ? "127.0.0.1" : settings.host), unix_socket_(settings.unix_socket) {
  if (!unix_socket_.empty()) {
    sockets_.push_back(detail::listen_at_path(unix_socket_));
    return;
  }
  // Clients that say localhost try ::1 first; without IPv6 on this machine they find the other. A port that is free for
  // the one address may be taken for the other.
  const bool both = settings.host.empty() && detail::has_ipv6();
  for (int tries = settings.port == 0 ? 20 : 1; sockets_.empty(); --tries) {
    port_ = settings.port;
    const int first = detail::listen_at(host_, port_);
    if (first < 0) detail::cannot_listen(host_, port_);
    const int second = both ? detail::listen_at("::1", port_) : first;
    if (second < 0) {
      const int why = errno;
      ::close(first);
      errno = why;
      if (tries == 1) detail::cannot_listen("::1", port_);
      continue;
    }
    sockets_.push_back(first);
    if (both) sockets_.push_back(second);
  }
}

RLCORE_INLINE listening_sockets::~listening_sockets() { close(); }

RLCORE_INLINE void listening_sockets::close() noexcept {
  for (const int s : sockets_) ::close(s);
  if (!unix_socket_.empty() && !sockets_.empty()) ::unlink(unix_socket_.c_str());
  sockets_.clear();
}

RLCORE_INLINE std::string listening_sockets::url() const {
  if (!unix_socket_.empty()) return unix_socket_;
  return "http://" + (host_.find(':') == host_.npos ? host_ : "[" + host_ + "]") + ":" + std::to_string(port_);
}

RLCORE_INLINE connection::connection(int socket, const http_settings& settings, std::string address,
                                     std::shared_ptr<const void> place)
    : socket_(socket), settings_(settings), address_(std::move(address)), place_(std::move(place)) {
  wait_for_request();
}
RLCORE_INLINE connection::~connection() { ::close(socket_); }

RLCORE_INLINE bool connection::receive() {
  if (!has_bytes()) bytes_.clear(), begin_ = 0;
  std::array<char, detail::block> taken;
  const ssize_t n = ::recv(socket_, taken.data(), taken.size(), MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  bytes_.append(taken.data(), static_cast<std::size_t>(n));
  return true;
}

RLCORE_INLINE bool connection::has_headers() const {
  return std::string_view(bytes_).substr(begin_, settings_.header_limit).find(detail::empty_line) !=
         std::string_view::npos;
}

RLCORE_INLINE std::string_view connection::head() const {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  return rest.substr(0, rest.find(detail::empty_line) + detail::empty_line.size());
}

RLCORE_INLINE bool connection::has_too_many_headers() const {
  return bytes_.size() - begin_ >= settings_.header_limit && !has_headers();
}

RLCORE_INLINE void connection::wait_for_request() {
  read_until(has_bytes() ? settings_.header_deadline : settings_.idle_deadline);
}

RLCORE_INLINE std::optional<std::size_t> connection::read(char* to, std::size_t size,
                                                          const std::function<bool()>& give_up) {
  if (give_up()) return std::nullopt;
  while (!has_bytes()) {
    const auto now = clock::now();
    if (now >= deadline_ || give_up()) return std::nullopt;
    if (ready(POLLIN, std::min<clock::duration>(deadline_ - now, std::chrono::milliseconds(250))) && !receive())
      return 0;
  }
  const std::size_t n = std::min(size, bytes_.size() - begin_);
  std::memcpy(to, bytes_.data() + begin_, n);
  begin_ += n;
  return n;
}

RLCORE_INLINE bool connection::write(std::string_view text) {
  while (!text.empty()) {
    if (!is_writable()) return false;
    const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

RLCORE_INLINE bool connection::is_writable() const { return ready(POLLOUT, settings_.write_deadline); }

RLCORE_INLINE bool connection::connected() const {
  pollfd p{socket_, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) <= 0 || (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

RLCORE_INLINE void connection::end(std::string_view last) {
  if (!last.empty()) ::send(socket_, last.data(), last.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket_, SHUT_WR);
  ended_ = true;
  bytes_.clear(), begin_ = 0;
  read_until(std::chrono::seconds(2));
}

RLCORE_INLINE bool connection::discard() {
  std::array<char, detail::block> dropped;
  for (int i = 0; i < 64; ++i) {
    const ssize_t n = ::recv(socket_, dropped.data(), dropped.size(), MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
  }
  return true;
}

RLCORE_INLINE void connection::drop() const { ::shutdown(socket_, SHUT_RDWR); }

RLCORE_INLINE bool connection::ready(short what, clock::duration longest) const {
  const auto end = clock::now() + longest;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    pollfd p{socket_, what, 0};
    const int found = ::poll(&p, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (found >= 0 || errno != EINTR) return found > 0;
  }
}

}  // namespace serving
RLCORE_END
#endif
