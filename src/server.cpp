// HTTP through cpp-httplib (the target rlcore::server). Its defaults are for a few short requests: here every
// connection has a thread, a reader of headers has a deadline, and a request knows whether its client is still there.
#include <arpa/inet.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

#include "rlcore/core/error.hpp"
#include "rlcore/serving/byte_budget.hpp"
#include "rlcore/serving/http_server.hpp"

RLCORE_BEGIN
namespace serving {
namespace {

using clock = std::chrono::steady_clock;

/// As many threads as connections are open, up to a limit.
class connection_threads final : public httplib::TaskQueue {
 public:
  explicit connection_threads(std::size_t most) : most_(most) {}
  void enqueue(std::function<void()> connection) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(connection));
      if (waiting_.size() > idle_ && threads_.size() < most_) threads_.emplace_back([this] { work(); });
    }
    filled_.notify_one();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    filled_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      filled_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      const std::function<void()> connection = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      connection();
      lock.lock();
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::list<std::function<void()>> waiting_;
  std::list<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ended_ = false;
};

/// A client's socket. Reading ends at a deadline, however slowly bytes come.
class connection final : public httplib::Stream {
 public:
  connection(int socket, const http_settings& settings, const std::atomic<bool>& stopping)
      : socket_(socket), settings_(settings), stopping_(stopping) {}

  /// Waits for the next request; false if none comes, or the server stops.
  bool wait_for_request() {
    const auto end = clock::now() + settings_.idle_deadline;
    while (!stopping_ && clock::now() < end) {
      if (begin_ < end_ || ready(POLLIN, std::chrono::milliseconds(100))) {
        read_until(settings_.header_deadline);
        reason.clear();
        return true;
      }
    }
    return false;
  }
  /// Reading fails this long from now.
  void read_until(clock::duration from_now) { deadline_ = clock::now() + from_now; }
  /// Whether the client has not closed its end.
  bool connected() const {
    pollfd p{socket_, POLLRDHUP, 0};
    return ::poll(&p, 1, 0) <= 0 || (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
  }

  bool is_readable() const override { return begin_ < end_ || ready(POLLIN, left()); }
  bool is_writable() const override { return ready(POLLOUT, settings_.write_deadline); }
  ssize_t read(char* bytes, std::size_t size) override {
    if (begin_ == end_) {
      if (!ready(POLLIN, left())) return -1;
      const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (got <= 0) return got;
      begin_ = 0, end_ = static_cast<std::size_t>(got);
    }
    const std::size_t n = std::min(size, end_ - begin_);
    std::memcpy(bytes, buffer_.data() + begin_, n);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    if (!reason.empty() && std::string_view(bytes, size).starts_with("HTTP/1.1 "))
      return write_with_reason(bytes, size);
    return send(bytes, size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return socket_; }

  std::string reason;       ///< of the response's status line, if it is not the usual one
  bool understood = false;  ///< the request's headers were read to their end

 private:
  clock::duration left() const { return deadline_ - clock::now(); }
  bool ready(short what, clock::duration longest) const {
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    pollfd p{socket_, what, 0};
    int found = 0;
    do found = ::poll(&p, 1, static_cast<int>(std::max<decltype(milliseconds)>(milliseconds, 0)));
    while (found < 0 && errno == EINTR);
    return found > 0;
  }
  ssize_t send(const char* bytes, std::size_t size) {
    return is_writable() ? ::send(socket_, bytes, size, MSG_NOSIGNAL) : -1;
  }
  /// httplib writes status line and headers at once.
  ssize_t write_with_reason(const char* bytes, std::size_t size) {
    constexpr std::size_t before = sizeof "HTTP/1.1 400 " - 1;
    std::string head(bytes, size);
    for (char& c : reason)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    if (const std::size_t end = head.find("\r\n"); end != head.npos && end >= before)
      head.replace(before, end - before, std::exchange(reason, {}).substr(0, 400));
    for (std::size_t sent = 0; sent < head.size();) {
      const ssize_t n = send(head.data() + sent, head.size() - sent);
      if (n <= 0) return -1;
      sent += static_cast<std::size_t>(n);
    }
    return static_cast<ssize_t>(size);
  }

  int socket_;
  const http_settings& settings_;
  const std::atomic<bool>& stopping_;
  clock::time_point deadline_{};
  std::array<char, 16384> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

thread_local connection* current = nullptr;  // of the thread that answers

/// httplib's server with our connections.
class listener final : public httplib::Server {
 public:
  listener(const http_settings& settings, const http_server::handler& answer, byte_budget& budget)
      : settings_(settings), answer_(answer), budget_(budget) {
    new_task_queue = [this] { return new connection_threads(settings_.connections); };
    set_tcp_nodelay(true);
    set_keep_alive_max_count(1000000);
    set_keep_alive_timeout(settings_.idle_deadline.count());
    set_payload_max_length(settings_.body_limit);
    // Unlike httplib's own, which let two servers share a port.
    set_socket_options([this](socket_t s) {
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      ::setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      socket_ = s;
    });
    const Handler without_body = [this](const httplib::Request& q, httplib::Response& r) { handle(q, {}, r); };
    const HandlerWithContentReader with_body = [this](const httplib::Request& q, httplib::Response& r,
                                                      const httplib::ContentReader& read) { receive(q, r, read); };
    Get(".*", without_body).Options(".*", without_body);
    Post(".*", with_body).Put(".*", with_body).Patch(".*", with_body).Delete(".*", without_body);
    set_error_handler([](const httplib::Request&, httplib::Response& r) {
      if (!r.body.empty() || r.has_header("X-Answered")) return;
      const api_error e(r.status, std::string(phrase_of(r.status)), std::string(phrase_of(r.status)));
      r.set_content(text::json_text(e.body()), "application/json");
    });
  }

  /// Binds to `host`; the port, or -1.
  int bind(const std::string& host, int port) {
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    if (bound >= 0) ::listen(socket_, 4096);  // httplib asks for 5
    return bound;
  }
  void accept_all() {
    thread_ = std::thread([this] { listen_after_bind(); });
  }
  void end() {
    if (stopping_.exchange(true) || !thread_.joinable()) return;
    while (!is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  bool process_and_close_socket(socket_t s) override {
    connection c(s, settings_, stopping_);
    current = &c;
    for (bool closed = false; !closed && c.wait_for_request();) {
      c.understood = false;
      const bool answered = process_request(c, stopping_, closed, [&](httplib::Request& q) {
        c.understood = true;
        q.headers.erase("Accept-Encoding");  // httplib would compress streams, whose events then wait for their end
        c.read_until(settings_.body_deadline);
      });
      if (!answered || !c.understood) break;
    }
    current = nullptr;
    ::shutdown(s, SHUT_RDWR);
    ::close(s);
    return true;
  }

  /// Reads a body as soon as there is room for it.
  void receive(const httplib::Request& q, httplib::Response& r, const httplib::ContentReader& read) {
    std::size_t bytes = settings_.body_limit;
    if (const std::string length = q.get_header_value("Content-Length"); !length.empty())
      bytes = std::min<std::size_t>(bytes, std::strtoull(length.c_str(), nullptr, 10));
    const held_bytes held(budget_, std::min(bytes, settings_.bytes_in_flight));
    current->read_until(settings_.body_deadline);
    std::string body;
    const bool whole = read([&](const char* data, std::size_t size) {
      if (body.size() + size > settings_.body_limit) return r.status = 413, false;
      body.append(data, size);
      return true;
    });
    if (!whole) {
      if (r.status != 413) r.status = 400;
      const api_error e(r.status, std::string(phrase_of(r.status)),
                        r.status == 413 ? "the body has more than " + std::to_string(settings_.body_limit) + " bytes"
                                        : "the body ended early");
      r.set_content(text::json_text(e.body()), "application/json");
      r.set_header("Connection", "close");  // what follows on this one may be the rest of the body
      current->understood = false;
      return;
    }
    handle(q, std::move(body), r);
  }

  void handle(const httplib::Request& q, std::string body, httplib::Response& r) {
    const std::string origin = q.get_header_value("Origin");
    const auto& allowed = settings_.allowed_origins;
    if (!origin.empty() &&
        std::any_of(allowed.begin(), allowed.end(), [&](const std::string& a) { return a == "*" || a == origin; })) {
      r.set_header("Access-Control-Allow-Origin", origin);
      r.set_header("Vary", "Origin");
      if (q.method == "OPTIONS") {
        r.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        r.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type");
        r.status = 204;
        return;
      }
    }
    connection* const client = current;
    http_response made = answer_({q.method,
                                  q.path,
                                  std::move(body),
                                  q.get_header_value("Content-Type"),
                                  q.get_header_value("Authorization"),
                                  [client] { return client->connected(); },
                                  {q.params.begin(), q.params.end()}});
    r.status = made.status;
    client->reason = std::move(made.reason);
    for (const auto& [name, value] : made.headers) r.set_header(name, value);
    if (!made.stream) {
      if (made.body.empty() && made.status >= 400) r.set_header("X-Answered", "1");
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
  const http_server::handler& answer_;
  byte_budget& budget_;
  socket_t socket_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

class http_server::sockets {
 public:
  sockets(http_settings settings, handler answer)
      : settings_(std::move(settings)), answer_(std::move(answer)), budget_(settings_.bytes_in_flight) {
    if (!settings_.unix_socket.empty()) {
      bind_unix_socket();
      return;
    }
    const std::string first = settings_.host.empty() ? "127.0.0.1" : settings_.host;
    port_ = add().bind(first, settings_.port);
    if (port_ < 0) cannot_listen(first + ":" + std::to_string(settings_.port), settings_.port != 0);
    // Clients that say localhost try ::1 first. Without IPv6 on this machine they find the other.
    if (settings_.host.empty() && has_ipv6() && add().bind("::1", port_) < 0)
      cannot_listen("[::1]:" + std::to_string(port_), true);
  }
  ~sockets() {
    stop();
    for (auto& l : listeners_) l->join();
    if (!settings_.unix_socket.empty()) ::unlink(settings_.unix_socket.c_str());
  }

  void start() {
    for (auto& l : listeners_) l->accept_all();
  }
  void stop() {
    for (auto& l : listeners_) l->end();
  }
  int port() const { return port_; }
  std::string url() const {
    if (!settings_.unix_socket.empty()) return settings_.unix_socket;
    const std::string host = settings_.host.empty() ? "127.0.0.1" : settings_.host;
    return "http://" + (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port_);
  }

 private:
  listener& add() {
    listeners_.push_back(std::make_unique<listener>(settings_, answer_, budget_));
    return *listeners_.back();
  }
  void bind_unix_socket() {
    add().set_address_family(AF_UNIX);
    if (listeners_.back()->bind(settings_.unix_socket, 80) < 0) cannot_listen(settings_.unix_socket, true);
  }
  static bool has_ipv6() {
    const int s = ::socket(AF_INET6, SOCK_STREAM, 0);
    if (s < 0) return false;
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    const bool bound = ::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(s);
    return bound;
  }
  [[noreturn]] static void cannot_listen(const std::string& where, bool in_use) {
    throw config_error("cannot listen on " + where + ": " + std::strerror(errno) +
                       (in_use ? "; choose another with --port, or --port 0 for a free one" : ""));
  }

  http_settings settings_;
  handler answer_;
  byte_budget budget_;
  std::vector<std::unique_ptr<listener>> listeners_;
  int port_ = 0;
};

http_server::http_server(http_settings settings, handler answer)
    : sockets_(std::make_unique<sockets>(std::move(settings), std::move(answer))) {}
http_server::~http_server() = default;
void http_server::start() { sockets_->start(); }
void http_server::stop() { sockets_->stop(); }
int http_server::port() const { return sockets_->port(); }
std::string http_server::url() const { return sockets_->url(); }

}  // namespace serving
RLCORE_END
