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

/// Owns a socket. One thread waits for the headers of a request to be complete; then another one reads and writes,
/// until a deadline however slowly bytes come.
class connection {
 public:
  using clock = std::chrono::steady_clock;

  /// Closes `socket` in the end, and gives its `place` back. The settings have to outlive the connection.
  connection(int socket, const http_settings& settings, std::shared_ptr<const void> place);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  int socket() const noexcept { return socket_; }
  /// Takes what has come, without waiting; false at the end of the connection.
  bool receive();
  /// Whether bytes are there that belong to the next request.
  bool has_bytes() const noexcept { return begin_ < bytes_.size(); }
  /// Whether these bytes begin so.
  bool begins_with(std::string_view text) const { return std::string_view(bytes_).substr(begin_).starts_with(text); }
  /// Whether the headers of the next request are there, up to the empty line.
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
  /// `crowded()`, what does not come within the settings' stall_deadline does not come.
  std::optional<std::size_t> read(char* to, std::size_t size, const std::function<bool()>& crowded);
  /// Writes all of it; false when the client does not take it.
  bool write(std::string_view text);
  /// Whether the client can be written to before the settings' write_deadline.
  bool is_writable() const;
  /// Whether the client has not closed its end.
  bool connected() const;

  /// Says no more than this, as far as that does not have to wait, and takes what the client is still sending, so that
  /// it reads what it was told.
  void say_goodbye(std::string_view last = {});
  /// Ends reading and writing, in whichever thread. Safe to call while another thread uses the connection.
  void drop() const;

 private:
  bool ready(short what, clock::duration longest) const;

  int socket_;
  const http_settings& settings_;
  std::shared_ptr<const void> place_;
  clock::time_point deadline_{};
  std::string bytes_;      // received
  std::size_t begin_ = 0;  // of those not read yet
};

}  // namespace serving
RLCORE_END
