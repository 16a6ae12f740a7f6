// A client's socket: waiting and deadlines by poll().
#include "rlcore/serving/http.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

RLCORE_BEGIN
namespace serving {
namespace {

constexpr std::size_t block = 16384;
constexpr std::string_view empty_line = "\r\n\r\n";

}  // namespace

connection::connection(int socket, const http_settings& settings, std::shared_ptr<const void> place)
    : socket_(socket), settings_(settings), place_(std::move(place)) {
  wait_for_request();
}
connection::~connection() { ::close(socket_); }

bool connection::receive() {
  if (!has_bytes()) bytes_.clear(), begin_ = 0;
  std::array<char, block> taken;
  const ssize_t n = ::recv(socket_, taken.data(), taken.size(), MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  bytes_.append(taken.data(), static_cast<std::size_t>(n));
  return true;
}

bool connection::has_headers() const {
  return std::string_view(bytes_).substr(begin_, settings_.header_limit).find(empty_line) != std::string_view::npos;
}

std::string_view connection::head() const {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  return rest.substr(0, rest.find(empty_line) + empty_line.size());
}

bool connection::has_too_many_headers() const {
  return bytes_.size() - begin_ >= settings_.header_limit && !has_headers();
}

void connection::wait_for_request() { read_until(has_bytes() ? settings_.header_deadline : settings_.idle_deadline); }

std::optional<std::size_t> connection::read(char* to, std::size_t size, const std::function<bool()>& crowded) {
  const auto began = clock::now();
  while (!has_bytes()) {
    const auto now = clock::now();
    if (now >= deadline_ || (now - began >= settings_.stall_deadline && crowded())) return std::nullopt;
    if (ready(POLLIN, std::min<clock::duration>(deadline_ - now, std::chrono::milliseconds(250))) && !receive())
      return 0;
  }
  const std::size_t n = std::min(size, bytes_.size() - begin_);
  std::memcpy(to, bytes_.data() + begin_, n);
  begin_ += n;
  return n;
}

bool connection::write(std::string_view text) {
  while (!text.empty()) {
    if (!is_writable()) return false;
    const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool connection::is_writable() const { return ready(POLLOUT, settings_.write_deadline); }

bool connection::connected() const {
  pollfd p{socket_, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) <= 0 || (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

void connection::say_goodbye(std::string_view last) {
  if (!last.empty()) ::send(socket_, last.data(), last.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket_, SHUT_WR);
  std::array<char, block> dropped;
  for (int i = 0; i < 64; ++i)
    if (::recv(socket_, dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) break;
}

void connection::drop() const { ::shutdown(socket_, SHUT_RDWR); }

bool connection::ready(short what, clock::duration longest) const {
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
