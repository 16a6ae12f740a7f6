// A client's socket. src/connection.cpp defines it: link rlcore::server.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/http_server.hpp"

RLCORE_BEGIN
namespace serving {

/// Owns a socket. One thread waits until the headers of a request are complete; a second one then reads and writes, up
/// to a deadline independent of the client's speed.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  /// The destructor closes `socket` and releases its `place`. The settings must outlive the connection.
  connection(int socket, const http_settings& settings, std::shared_ptr<const void> place);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  int socket() const noexcept { return socket_; }
  /// Receives available bytes without waiting; false at the end of the connection.
  bool receive();
  /// Whether bytes of the next request have been received.
  bool has_bytes() const noexcept { return begin_ < bytes_.size(); }
  /// Whether these bytes start with `text`.
  bool begins_with(std::string_view text) const { return std::string_view(bytes_).substr(begin_).starts_with(text); }
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
  /// Reads at least a byte and at most `size`; 0 at the end of the connection, nothing after the deadline. While
  /// `crowded()`, the settings' stall_deadline applies as well.
  std::optional<std::size_t> read(char* to, std::size_t size, const std::function<bool()>& crowded);
  /// Writes all of it; false if the client does not accept it.
  bool write(std::string_view text);
  /// Whether the client can be written to before the settings' write_deadline.
  bool is_writable() const;
  /// Whether the client has not closed its end.
  bool connected() const;

  /// Sends `last` as far as possible without waiting, and drains what the client is still sending, so that it reads the
  /// response.
  void say_goodbye(std::string_view last = {});
  /// Shuts down reading and writing. Safe to call from any thread while the connection is in use.
  void drop() const;

 private:
  bool ready(short what, clock::duration longest) const;

  int socket_;
  const http_settings& settings_;
  std::shared_ptr<const void> place_;
  clock::time_point deadline_{};
  std::string bytes_;      // received
  std::size_t begin_ = 0;  // start of the unread bytes
};

}  // namespace serving
RLCORE_END
