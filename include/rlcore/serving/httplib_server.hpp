// Requests and responses through cpp-httplib, which reads headers and writes responses.
#pragma once

#include <httplib.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/connection.hpp"
#include "rlcore/serving/http.hpp"
#include "rlcore/serving/http_request.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving::detail {

/// A connection as httplib sees it.
class http_stream final : public httplib::Stream {
 public:
  http_stream(connection& client, const std::function<bool()>& crowded)
      : head(client.head()), client_(client), crowded_(crowded) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return client_.is_writable(); }
  ssize_t read(char* bytes, std::size_t size) override {
    const auto n = client_.read(bytes, size, [] { return false; });  // of the head, which has come
    return n ? static_cast<ssize_t>(*n) : -1;
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    const std::string_view text(bytes, size);
    const bool begins = !reason.empty() && text.starts_with("HTTP/1.1 ");
    return client_.write(begins ? with_reason(std::string(text)) : text) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return client_.socket(); }

  connection& client() noexcept { return client_; }
  const std::function<bool()>& crowded() const noexcept { return crowded_; }

  std::string head;         ///< of the request: httplib decodes %41 in values of headers
  std::string reason;       ///< of the response's status line, if it is not the usual one
  bool understood = false;  ///< the request's headers were read to their end
  bool in_step = true;      ///< and its body, so that the next byte is that of the next request

 private:
  /// httplib writes status line and headers at once.
  std::string_view with_reason(std::string response) {
    constexpr std::size_t before = sizeof "HTTP/1.1 400 " - 1;
    for (char& c : reason)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    if (const std::size_t end = response.find("\r\n"); end != response.npos && end >= before)
      response.replace(before, end - before, reason.substr(0, 400));
    reason.clear();
    return written_ = std::move(response);
  }

  connection& client_;
  const std::function<bool()>& crowded_;
  std::string written_;
};

inline thread_local http_stream* current = nullptr;  // of the thread that answers

inline void set_error(httplib::Response& r, const api_error& e) {
  r.status = e.status;
  r.set_content(text::json_text(e.body()), "application/json");
}

/// httplib's way from a request to its response. It opens no socket and starts no thread.
class speaker final : public httplib::Server {
 public:
  speaker(const http_settings& settings, std::function<http_response(const http_request&)> answer)
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
    r.set_header("X-Content-Type-Options", "nosniff");
    const bool preflight = allow_origin(q, r) && q.method == "OPTIONS";
    if (!preflight)
      if (std::optional<http_response> made = screen(q)) {
        if (announces_body(current->head)) end_connection(r);
        return respond(std::move(*made), r);
      }
    auto room = std::make_unique<body_budget::share>(budget_);
    body_reader reader(current->client(), settings_, *room, current->crowded());
    std::string body;
    try {
      const std::string length(header_of(current->head, "content-length"));
      body = reader.read({.lengths = length.empty() ? 0u : 1u,
                          .length = length,
                          .transfer = std::string(header_of(current->head, "transfer-encoding")),
                          .compression = std::string(header_of(current->head, "content-encoding"))});
    } catch (const api_error& e) {
      set_error(r, e);
      if (!reader.in_step()) end_connection(r);
      return;
    }
    if (preflight) return;
    http_request request = request_of(q);
    request.body = std::move(body);
    http_response made = answer_(request);
    request.body = {};
    room.reset();
    respond(std::move(made), r);
  }

  /// What comes behind the head is not the next request. httplib says so itself to a client that asks for it.
  static void end_connection(httplib::Response& r) {
    current->in_step = false;
    if (header("connection") != "close") r.set_header("Connection", "close");
  }
  static std::string header(std::string_view lower) { return std::string(header_of(current->head, lower)); }

  /// Whether the request is of a page that may read the response; says so in it.
  bool allow_origin(const httplib::Request& q, httplib::Response& r) const {
    const std::string origin = header("origin");
    const auto& allowed = settings_.allowed_origins;
    if (origin.empty() || std::ranges::none_of(allowed, [&](const std::string& a) { return a == "*" || a == origin; }))
      return false;
    r.set_header("Access-Control-Allow-Origin", origin);
    r.set_header("Vary", "Origin");
    if (q.method != "OPTIONS") return true;
    r.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const std::string asked = header("access-control-request-headers");
    r.set_header("Access-Control-Allow-Headers", asked.empty() ? "Authorization, Content-Type" : asked);
    r.status = 204;
    return true;
  }
  static http_request request_of(const httplib::Request& q) {
    connection* const client = &current->client();
    return {q.method,
            q.path,
            {},
            header("content-type"),
            header("authorization"),
            [client] { return client->connected(); },
            {q.params.begin(), q.params.end()}};
  }
  /// The response to a request that its head decides.
  std::optional<http_response> screen(const httplib::Request& q) const {
    const bool reads = q.method == "GET" || q.method == "HEAD" || q.method == "OPTIONS";
    if (!reads && is_foreign_page(current->head, settings_.allowed_origins)) {
      const std::string origin = header("origin");
      return error_response(api_error(403, "Forbidden",
                                      "a page of " + (origin.empty() ? "another site" : origin) +
                                          " sends this request; the server takes its requests with --allowed-origins" +
                                          (origin.empty() ? "" : " " + origin)));
    }
    return settings_.screen ? settings_.screen(request_of(q)) : std::nullopt;
  }

  static void respond(http_response made, httplib::Response& r) {
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
  std::function<http_response(const http_request&)> answer_;
  body_budget budget_;
};

}  // namespace serving::detail
RLCORE_END
