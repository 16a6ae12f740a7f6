// The sockets that a server listens on.
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/serving/http.hpp"

RLCORE_BEGIN
namespace serving {
namespace {

constexpr int backlog = 4096;

/// A socket that listens there; -1, and errno, if it cannot.
int listen_at(const sockaddr* address, socklen_t size) {
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
int listen_at(const std::string& host, int& port) {
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

[[noreturn]] void cannot_listen(const std::string& host, int port) {
  const int why = errno;
  const std::string where = (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  throw config_error("cannot listen on " + where + ": " + std::strerror(why) +
                     (why == EADDRNOTAVAIL ? "; --host has to be an address of this machine"
                      : port == 0          ? ""
                                           : "; choose another with --port, or --port 0 for a free one"));
}

/// Whether there is a socket's file that nobody listens to.
bool is_left_behind(const sockaddr_un& address) {
  struct stat file {};
  if (::stat(address.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return false;
  const bool refused =
      ::connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  ::close(s);
  return refused;
}

int listen_at_path(const std::string& path) {
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
bool has_ipv6() {
  int any = 0;
  const int s = listen_at("::1", any);
  if (s >= 0) ::close(s);
  return s >= 0;
}

}  // namespace

listening_sockets::listening_sockets(const http_settings& settings)
    : host_(settings.host.empty() ? "127.0.0.1" : settings.host), unix_socket_(settings.unix_socket) {
  if (!unix_socket_.empty()) {
    sockets_.push_back(listen_at_path(unix_socket_));
    return;
  }
  // Clients that say localhost try ::1 first; without IPv6 on this machine they find the other. A port that is free for
  // the one address may be taken for the other.
  const bool both = settings.host.empty() && has_ipv6();
  for (int tries = settings.port == 0 ? 20 : 1; sockets_.empty(); --tries) {
    port_ = settings.port;
    const int first = listen_at(host_, port_);
    if (first < 0) cannot_listen(host_, port_);
    const int second = both ? listen_at("::1", port_) : first;
    if (second < 0) {
      const int why = errno;
      ::close(first);
      errno = why;
      if (tries == 1) cannot_listen("::1", port_);
      continue;
    }
    sockets_.push_back(first);
    if (both) sockets_.push_back(second);
  }
}

listening_sockets::~listening_sockets() { close(); }

void listening_sockets::close() noexcept {
  for (const int s : sockets_) ::close(s);
  if (!unix_socket_.empty() && !sockets_.empty()) ::unlink(unix_socket_.c_str());
  sockets_.clear();
}

std::string listening_sockets::url() const {
  if (!unix_socket_.empty()) return unix_socket_;
  return "http://" + (host_.find(':') == host_.npos ? host_ : "[" + host_ + "]") + ":" + std::to_string(port_);
}

}  // namespace serving
RLCORE_END
