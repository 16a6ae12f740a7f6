// The address of a client, and how many connections an address has.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {
namespace detail {

inline constexpr std::string_view this_machine = "127.0.0.1";

/// An address as text; this_machine for loopback and for Unix sockets.
inline std::string address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from).sin_addr;
    if (ntohl(v4.s_addr) >> 24 != 127) return ::inet_ntop(AF_INET, &v4, text, sizeof text);
  }
  if (from.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);
    if (mapped && v6.s6_addr[12] != 127) return ::inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    if (!mapped && !IN6_IS_ADDR_LOOPBACK(&v6)) return ::inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return std::string(this_machine);
}

/// Whether X-Forwarded-For of this address is believed.
inline bool is_proxy(const std::vector<std::string>& trusted, const std::string& address) {
  return std::ranges::any_of(trusted, [&](const std::string& t) {
    return t == "*" || t == address || (address == this_machine && (t == "localhost" || t == "::1"));
  });
}

/// Counts the connections of other machines. Everything may be called from any thread.
class address_counts {
 public:
  /// Of an address at most so many.
  explicit address_counts(std::size_t most) : most_(most) {}

  /// Counts a connection for as long as the place lives, which keeps the count alive; null if the address has its
  /// number. An address that is `unlimited` has as many as it likes.
  static std::shared_ptr<const void> enter(const std::shared_ptr<address_counts>& counts, const std::string& address,
                                           bool unlimited) {
    if (unlimited) return counts;
    const std::lock_guard lock(counts->mutex_);
    std::size_t& count = counts->of_[address];
    if (count >= counts->most_) return nullptr;
    ++count;
    return std::shared_ptr<const void>(counts.get(), [counts, address](const void*) { counts->leave(address); });
  }

 private:
  void leave(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (--of_[address] == 0) of_.erase(address);
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> of_;
};

}  // namespace detail

}  // namespace serving
RLCORE_END
