// HTTP through cpp-httplib (the target rlcore::server), which reads headers and writes responses. Its server is for a
// few short requests: here one thread accepts and waits, a request that has come has a thread until it is answered, and
// a connection that says nothing has none.
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/http_request.hpp"

RLCORE_BEGIN
namespace serving {
namespace {

using clock = std::chrono::steady_clock;

/// Counts the connections of other machines. Everything may be called from any thread.
class address_counts {
 public:
  /// Of an address at most so many.
  explicit address_counts(std::size_t most) : most_(most) {}

  /// Counts a connection for as long as the place lives, which keeps the count alive; null if the address has its
  /// number. This machine, by loopback or a Unix socket, has as many as it likes.
  static std::shared_ptr<const void> enter(const std::shared_ptr<address_counts>& counts,
                                           const sockaddr_storage& from) {
    const std::string address = address_of(from);
    if (address.empty()) return counts;
    const std::lock_guard lock(counts->mutex_);
    std::size_t& count = counts->of_[address];
    if (count >= counts->most_) return nullptr;
    ++count;
    return std::shared_ptr<const void>(counts.get(), [counts, address](const void*) { counts->leave(address); });
  }

 private:
  /// Its bytes; empty for this machine.
  static std::string address_of(const sockaddr_storage& from) {
    if (from.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(from).sin_addr;
      return ntohl(v4.s_addr) >> 24 == 127 ? "" : std::string(reinterpret_cast<const char*>(&v4), sizeof v4);
    }
    if (from.ss_family != AF_INET6) return "";
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127)) return "";
    return {reinterpret_cast<const char*>(&v6), sizeof v6};
  }
  void leave(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (--of_[address] == 0) of_.erase(address);
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> of_;
};

/// A connection as httplib sees it.
class http_stream final : public httplib::Stream {
 public:
  http_stream(connection& client, const std::function<bool()>& crowded) : client_(client), crowded_(crowded) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return client_.is_writable(); }
  ssize_t read(char* bytes, std::size_t size) override {
    const auto n = client_.read(bytes, size, crowded_);
    return n ? static_cast<ssize_t>(*n) : -1;
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    const std::string_view text(bytes, size);
    const bool head = !reason.empty() && text.starts_with("HTTP/1.1 ");
    return client_.write(head ? with_reason(std::string(text)) : text) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return client_.socket(); }

  connection& client() noexcept { return client_; }
  const std::function<bool()>& crowded() const noexcept { return crowded_; }

  std::string reason;       ///< of the response's status line, if it is not the usual one
  bool understood = false;  ///< the request's headers were read to their end
  bool in_step = true;      ///< and its body, so that the next byte is that of the next request

 private:
  /// httplib writes status line and headers at once.
  std::string_view with_reason(std::string head) {
    constexpr std::size_t before = sizeof "HTTP/1.1 400 " - 1;
    for (char& c : reason)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    if (const std::size_t end = head.find("\r\n"); end != head.npos && end >= before)
      head.replace(before, end - before, reason.substr(0, 400));
    reason.clear();
    return head_ = std::move(head);
  }

  connection& client_;
  const std::function<bool()>& crowded_;
  std::string head_;
};

thread_local http_stream* current = nullptr;  // of the thread that answers

void set_error(httplib::Response& r, const api_error& e) {
  r.status = e.status;
  r.set_content(text::json_text(e.body()), "application/json");
}

/// httplib's way from a request to its response. It opens no socket and starts no thread.
class speaker final : public httplib::Server {
 public:
  speaker(const http_settings& settings, http_server::handler answer)
      : settings_(settings), answer_(std::move(answer)), budget_(settings.bytes_in_flight, settings.body_limit) {
    svr_sock_ = 0;  // without one, httplib ends a stream before its first event
    set_keep_alive_max_count(1000000);
    set_keep_alive_timeout(settings_.idle_deadline.count());
    set_pre_routing_handler([this](const httplib::Request& q, httplib::Response& r) {
      receive(q, r);
      return HandlerResponse::Handled;
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& r, std::exception_ptr) {
      set_error(r, api_error(500, "InternalServerError", "the server cannot answer this request"));
      current->in_step = false;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& r) {
      if (!current->understood) set_error(r, {r.status, std::string(phrase_of(r.status)), phrase_of(r.status)});
    });
  }

  /// Answers the request whose headers have come; false if the connection has to be closed. With `last` the client is
  /// told that it will be.
  bool answer(connection& client, bool last, const std::function<bool()>& crowded) {
    if (const std::string problem = problem_of_head(client.head()); !problem.empty()) return refuse(client, problem);
    http_stream stream(client, crowded);
    current = &stream;
    bool closed = false;
    const bool answered = process_request(stream, last, closed, [&](httplib::Request& q) {
      stream.understood = true;
      q.ranges.clear();                    // no response is a file
      q.headers.erase("Accept-Encoding");  // httplib would compress streams, whose events then wait for their end
    });
    return answered && stream.understood && stream.in_step && !closed;
  }

 private:
  /// The bytes behind such a head may be anything: nothing else of the connection is read.
  static bool refuse(connection& client, const std::string& problem) {
    const std::string body = text::json_text(invalid_body(problem).body());
    client.write("HTTP/1.1 400 Bad Request: " + problem +
                 "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
    return false;
  }

  void receive(const httplib::Request& q, httplib::Response& r) {
    auto room = std::make_unique<body_budget::share>(budget_);
    body_reader reader(current->client(), settings_, *room, current->crowded());
    std::string body;
    try {
      body = reader.read({.lengths = q.get_header_value_count("Content-Length"),
                          .length = q.get_header_value("Content-Length"),
                          .transfer = q.get_header_value("Transfer-Encoding"),
                          .compression = q.get_header_value("Content-Encoding")});
    } catch (const api_error& e) {
      set_error(r, e);
      current->in_step = reader.in_step();
      if (!reader.in_step()) r.set_header("Connection", "close");
      return;
    }
    handle(q, std::move(body), std::move(room), r);
  }

  /// `room` is held until the request has been understood or answered.
  void handle(const httplib::Request& q, std::string body, std::unique_ptr<body_budget::share> room,
              httplib::Response& r) {
    const std::string origin = q.get_header_value("Origin");
    const auto& allowed = settings_.allowed_origins;
    if (!origin.empty() &&
        std::any_of(allowed.begin(), allowed.end(), [&](const std::string& a) { return a == "*" || a == origin; })) {
      r.set_header("Access-Control-Allow-Origin", origin);
      r.set_header("Vary", "Origin");
      if (q.method == "OPTIONS") {
        r.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        const std::string asked = q.get_header_value("Access-Control-Request-Headers");
        r.set_header("Access-Control-Allow-Headers", asked.empty() ? "Authorization, Content-Type" : asked);
        r.status = 204;
        return;
      }
    }
    connection* const client = &current->client();
    http_response made = answer_({q.method,
                                  q.path,
                                  std::move(body),
                                  q.get_header_value("Content-Type"),
                                  q.get_header_value("Authorization"),
                                  [client] { return client->connected(); },
                                  {q.params.begin(), q.params.end()}});
    room.reset();  // the body is gone
    r.status = made.status;
    current->reason = std::move(made.reason);
    for (const auto& [name, value] : made.headers) r.set_header(name, value);
    if (!made.stream) {
      if (!made.body.empty()) r.set_content(made.body, made.content_type);
      return;
    }
    r.set_header("Cache-Control", "no-cache");
    r.set_chunked_content_provider(
        made.content_type, [stream = std::move(made.stream)](std::size_t, httplib::DataSink& sink) {
          bool taken = true;
          stream([&](std::string_view bytes) { return taken = taken && sink.write(bytes.data(), bytes.size()); });
          if (taken) sink.done();
          return taken;
        });
  }

  const http_settings& settings_;
  http_server::handler answer_;
  body_budget budget_;
};

}  // namespace

class http_server::connections {
 public:
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
      if (polled[i].revents != 0) {
        const bool silent = !c->has_bytes();
        if (!c->receive()) continue;
        if (silent && c->has_bytes()) c->read_until(settings_.header_deadline);
        if (c->has_headers()) {
          hand_over(std::move(c));
          continue;
        }
        if (c->has_too_many_headers()) {
          c->say_goodbye("HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n");
          continue;
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
      auto place = address_counts::enter(addresses_, from);
      if (!place) {
        ::close(s);
        continue;
      }
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      parked_.push_back(std::make_unique<connection>(s, settings_, std::move(place)));
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
      const std::size_t most = settings_.threads + (is_brief(*c) ? for_brief : 0);
      waiting_.push_back(std::move(c));
      busy_.insert(waiting_.back().get());
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

  /// Requests that ask for no text, such as /health, have a few threads more: they do not wait behind those that do.
  static bool is_brief(const connection& c) { return !c.begins_with("POST /v1/"); }
  static constexpr std::size_t for_brief = 8;

  void work() {
    std::unique_lock lock(mutex_);
    const auto next = [&] {
      return std::find_if(waiting_.begin(), waiting_.end(),
                          [&](const owned& c) { return ended_ || long_ < settings_.threads || is_brief(*c); });
    };
    for (;;) {
      ++idle_;
      filled_.wait(lock, [&] { return ended_ || next() != waiting_.end(); });
      --idle_;
      const auto first = next();
      if (first == waiting_.end()) return;
      owned c = std::move(*first);
      waiting_.erase(first);
      const std::size_t takes_long = is_brief(*c) ? 0 : 1;
      long_ += takes_long;
      lock.unlock();
      const bool stays = answer_requests(*c);
      lock.lock();
      long_ -= takes_long;
      busy_.erase(c.get());
      if (!stays || stopping_) {
        c.reset();
        continue;
      }
      answered_.push_back(std::move(c));
      wake();
    }
  }
  /// The request whose headers are there, and those that came behind it; false if the connection ends.
  bool answer_requests(connection& c) noexcept {
    const std::function<bool()> crowded = [this] {
      const std::lock_guard lock(mutex_);
      return !waiting_.empty() && (full_ || threads_.size() >= settings_.threads);
    };
    try {
      do
        if (!speaker_.answer(c, stopping_, crowded)) return c.say_goodbye(), false;
      while (c.has_headers() && !stopping_);
      c.wait_for_request();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  listening_sockets& sockets_;
  const http_settings settings_;
  const std::shared_ptr<address_counts> addresses_ =
      std::make_shared<address_counts>(settings_.connections_per_address);
  speaker speaker_;
  const int wake_;
  std::atomic<bool> stopping_{false};

  // Of the thread that waits.
  std::vector<owned> parked_;  // the one that has waited longest first
  clock::time_point paused_until_{}, quiet_until_{};
  std::thread waiter_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable filled_;
  std::deque<owned> waiting_;    // for a thread
  std::vector<owned> answered_;  // to be waited for again
  std::set<const connection*> busy_;
  std::list<std::thread> threads_;
  std::size_t idle_ = 0, long_ = 0;  // threads without a request, and with one that asks for a text
  bool full_ = false, ended_ = false;
};

http_server::http_server(listening_sockets& sockets, http_settings settings, handler answer)
    : connections_(std::make_unique<connections>(sockets, std::move(settings), std::move(answer))) {}
http_server::~http_server() = default;
void http_server::start() { connections_->start(); }
void http_server::stop() { connections_->stop(); }
std::size_t http_server::busy() const { return connections_->busy(); }
void http_server::drop_all() { connections_->drop_all(); }

}  // namespace serving
RLCORE_END
