// HTTP server. One thread accepts and waits, a request that has come has a thread until it is answered, and a
// connection that says nothing has none; cpp-httplib's server is for a few short requests. That library is slow to
// compile: with RLCORE_COMPILED the server is defined in src/http.cpp (rlcore::server).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/connection.hpp"
#include "rlcore/serving/http.hpp"

RLCORE_BEGIN
namespace serving {

/// Handles every request in a thread; idle connections need none. Requests wait for resources; none is rejected for
/// lack of room.
class http_server {
 public:
  using handler = std::function<http_response(const http_request&)>;

  /// Accepts nothing before start(). `sockets` must outlive the server.
  http_server(listening_sockets& sockets, http_settings settings, handler answer);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// Stops, and waits for the requests that are being answered.
  ~http_server();

  /// Accepts connections, in threads of its own.
  void start();
  /// Closes the listening sockets and all connections without a request. Requests in progress continue.
  void stop();
  /// The number of requests in progress, including those waiting for a thread.
  std::size_t busy() const;
  /// Ends the connections of these requests.
  void drop_all();

 private:
  class connections;
  std::unique_ptr<connections> connections_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_HTTP)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/client_address.hpp"
#include "rlcore/serving/httplib_server.hpp"

RLCORE_BEGIN
namespace serving {
/// One thread that accepts and waits, the threads that answer, and their connections.
class http_server::connections {
 public:
  using clock = std::chrono::steady_clock;

  /// Accepts nothing before start().
  connections(listening_sockets& sockets, http_settings settings, handler answer)
      : sockets_(sockets),
        settings_(std::move(settings)),
        speaker_(settings_, std::move(answer)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0) throw system_problem("eventfd");
  }
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;
  ~connections() {
    stop();
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    filled_.notify_all();
    for (std::thread& t : threads_) t.join();
    ::close(wake_);
  }

  void start() {
    // With one thread all requests are answered in the end, however few the system allows later on.
    threads_.emplace_back([this] { work(); });
    waiter_ = std::thread([this] { wait_for_requests(); });
  }
  void stop() {
    stopping_ = true;
    wake();
    if (waiter_.joinable()) waiter_.join();
  }
  std::size_t busy() const {
    const std::lock_guard lock(mutex_);
    return busy_.size();
  }
  void drop_all() {
    const std::lock_guard lock(mutex_);
    for (const connection* c : busy_) c->drop();
  }

 private:
  using owned = std::unique_ptr<connection>;
  /// A request whose head has come.
  struct waiting_request {
    owned from;
    std::string client;  ///< the address that counts for it
    bool brief = false;
  };

  static error system_problem(const std::string& what) { return error(what + ": " + std::strerror(errno)); }
  void wake() const { ::eventfd_write(wake_, 1); }

  void wait_for_requests() {
    while (!stopping_) {
      try {
        take_back();
        std::vector<pollfd> polled{{wake_, POLLIN, 0}};
        for (const owned& c : parked_) polled.push_back({c->socket(), POLLIN, 0});
        if (clock::now() >= paused_until_)
          for (const int s : sockets_.all()) polled.push_back({s, POLLIN, 0});
        ::poll(polled.data(), polled.size(), 100);
        eventfd_t count = 0;
        ::eventfd_read(wake_, &count);
        const std::size_t parked = parked_.size();
        look_at_parked({polled.data() + 1, parked});
        for (std::size_t i = 1 + parked; i < polled.size(); ++i)
          if (polled[i].revents != 0) accept_from(polled[i].fd);
      } catch (const std::exception& e) {  // for want of memory
        pause(e.what());
      }
    }
    sockets_.close();
    parked_.clear();
    take_back();
    parked_.clear();
  }

  /// Connections whose request has been answered.
  void take_back() {
    std::erase(parked_, nullptr);
    const std::lock_guard lock(mutex_);
    for (owned& c : answered_) parked_.push_back(std::move(c));
    answered_.clear();
  }

  void look_at_parked(std::span<const pollfd> polled) {
    const auto now = clock::now();
    std::vector<owned> still;
    still.reserve(parked_.size());
    for (std::size_t i = 0; i < polled.size(); ++i) {
      owned c = std::move(parked_[i]);
      if (polled[i].revents != 0 && c->ended()) {
        if (!c->discard()) continue;
      } else if (polled[i].revents != 0) {
        const bool silent = !c->has_bytes();
        if (!c->receive()) continue;
        if (silent && c->has_bytes()) c->read_until(settings_.header_deadline);
        if (c->has_headers()) {
          hand_over(std::move(c));
          continue;
        }
        if (c->has_too_many_headers()) {
          c->end("HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n");
          if (!c->discard()) continue;
        }
      }
      if (now < c->deadline()) still.push_back(std::move(c));
    }
    parked_ = std::move(still);
  }
  void accept_from(int listening) {
    for (int i = 0; i < 64; ++i) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const int s = ::accept4(listening, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC);
      if (s < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (s < 0 && errno == ECONNABORTED) continue;
      if (s < 0) return pause(std::string("cannot accept a connection: ") + std::strerror(errno));
      std::string address = detail::address_of(from);
      auto place = detail::address_counts::enter(
          addresses_, address, address == detail::this_machine || detail::is_proxy(settings_.trusted_proxies, address));
      if (!place) {
        ::close(s);
        continue;
      }
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      parked_.push_back(std::make_unique<connection>(s, settings_, std::move(address), std::move(place)));
    }
  }
  /// Something has run out: the connections that have been silent longest give way, or nothing is accepted for a
  /// moment.
  void pause(const std::string& why) {
    const auto now = clock::now();
    if (settings_.log && now >= quiet_until_) {
      settings_.log(why);
      quiet_until_ = now + std::chrono::minutes(1);
    }
    std::size_t dropped = 0;
    for (owned& c : parked_)
      if (c && !c->has_bytes() && dropped < 64) c.reset(), ++dropped;
    if (dropped == 0) paused_until_ = now + std::chrono::milliseconds(100);
  }

  void hand_over(owned c) {
    {
      const std::lock_guard lock(mutex_);
      const bool brief = is_brief(c->head());
      const std::size_t most = settings_.threads + (brief ? for_brief : 0);
      std::string client = client_of(*c);
      busy_.insert(c.get());
      waiting_.push_back({std::move(c), std::move(client), brief});
      if (waiting_.size() > idle_ && threads_.size() < most) {
        try {
          threads_.emplace_back([this] { work(); });
          full_ = false;
        } catch (const std::system_error&) {  // one of the threads that there are takes it later
          full_ = true;
        }
      }
    }
    filled_.notify_one();
  }

  /// Requests without a body that change nothing, such as GET /health, have a few threads more: they do not wait behind
  /// those that ask for a text.
  static bool is_brief(std::string_view head) { return !head.starts_with("POST ") && !announces_body(head); }
  static constexpr std::size_t for_brief = 8;

  /// Behind a proxy the address that it saw: the last of X-Forwarded-For, since clients write what stands before it.
  std::string client_of(const connection& c) const {
    if (!detail::is_proxy(settings_.trusted_proxies, c.address())) return c.address();
    const std::string_view chain = header_of(c.head(), "x-forwarded-for");
    std::string_view last = detail::trimmed(chain.substr(chain.rfind(',') + 1));
    if (std::ranges::count(last, ':') == 1) last = last.substr(0, last.find(':'));  // a port
    return last.empty() ? c.address() : std::string(last);
  }
  /// No client takes the last quarter of the threads: those are for others.
  bool has_slot(const waiting_request& w) const {
    if (w.brief) return true;
    const auto own = slots_.find(w.client);
    return long_ < settings_.threads &&
           (own == slots_.end() || own->second < settings_.threads - settings_.threads / 4);
  }

  void work() {
    std::unique_lock lock(mutex_);
    const auto next = [&] {
      return std::ranges::find_if(waiting_, [&](const waiting_request& w) { return ended_ || has_slot(w); });
    };
    for (;;) {
      ++idle_;
      filled_.wait(lock, [&] { return ended_ || next() != waiting_.end(); });
      --idle_;
      const auto first = next();
      if (first == waiting_.end()) return;
      waiting_request now = std::move(*first);
      waiting_.erase(first);
      if (!now.brief) ++long_, ++slots_[now.client];
      lock.unlock();
      answer_requests(*now.from);
      lock.lock();
      if (!now.brief) {
        --long_;
        if (--slots_[now.client] == 0) slots_.erase(now.client);
      }
      busy_.erase(now.from.get());
      if (stopping_) {
        now.from->discard();
        now.from.reset();
        continue;
      }
      answered_.push_back(std::move(now.from));
      wake();
    }
  }
  /// The request whose headers are there, and those that came behind it.
  void answer_requests(connection& c) noexcept {
    const std::function<bool()> crowded = [this] {
      const std::lock_guard lock(mutex_);
      return !waiting_.empty() && (full_ || threads_.size() >= settings_.threads);
    };
    try {
      do
        if (!speaker_.answer(c, stopping_, crowded)) return c.end();
      while (c.has_headers() && !stopping_);
      c.wait_for_request();
    } catch (const std::exception&) {
      c.end();
    }
  }

  listening_sockets& sockets_;
  const http_settings settings_;
  const std::shared_ptr<detail::address_counts> addresses_ =
      std::make_shared<detail::address_counts>(settings_.connections_per_address);
  detail::speaker speaker_;
  const int wake_;
  std::atomic<bool> stopping_{false};

  // Of the thread that waits.
  std::vector<owned> parked_;  // the one that has waited longest first
  clock::time_point paused_until_{}, quiet_until_{};
  std::thread waiter_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable filled_;
  std::deque<waiting_request> waiting_;  // for a thread
  std::vector<owned> answered_;          // to be waited for again
  std::set<const connection*> busy_;
  std::list<std::thread> threads_;
  std::size_t idle_ = 0, long_ = 0;           // threads without a request, and with one that is not brief
  std::map<std::string, std::size_t> slots_;  // of long_, by client
  bool full_ = false, ended_ = false;
};

RLCORE_INLINE http_server::http_server(listening_sockets& sockets, http_settings settings, handler answer)
    : connections_(std::make_unique<connections>(sockets, std::move(settings), std::move(answer))) {}
RLCORE_INLINE http_server::~http_server() = default;
RLCORE_INLINE void http_server::start() { connections_->start(); }
RLCORE_INLINE void http_server::stop() { connections_->stop(); }
RLCORE_INLINE std::size_t http_server::busy() const { return connections_->busy(); }
RLCORE_INLINE void http_server::drop_all() { connections_->drop_all(); }

}  // namespace serving
RLCORE_END
#endif
