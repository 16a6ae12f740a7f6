// An HTTP client through cpp-httplib (the target rlcore::server).
#include "rlcore/serving/http.hpp"

#include <httplib.h>

#include <algorithm>
#include <chrono>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace serving {
namespace {

/// http://host:port without what follows.
std::string server_of(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  const std::size_t end = std::min(url.find('/', scheme.size()), url.size());
  if (!url.starts_with(scheme) || end == scheme.size())
    throw config_error("'" + url + "' is no server; expected http://host:port" +
                       (url.starts_with("https://") ? " (TLS is for a proxy)" : ""));
  return url.substr(0, end);
}

}  // namespace

class http_client::connection : public httplib::Client {
 public:
  explicit connection(const std::string& url) : Client(server_of(url)), server(server_of(url)) {
    set_keep_alive(true);
    set_tcp_nodelay(true);
    // A long answer takes its time.
    set_read_timeout(std::chrono::hours(24 * 365));
  }
  const std::string server;
};

http_client::http_client(const std::string& url) : connection_(std::make_unique<connection>(url)) {}
http_client::~http_client() = default;

http_answer http_client::post(const std::string& path, const std::string& body, const std::string& api_key) {
  httplib::Headers headers;
  if (!api_key.empty()) headers.emplace("Authorization", "Bearer " + api_key);
  const httplib::Result answer = connection_->Post(path, headers, body, "application/json");
  if (!answer) throw error(connection_->server + " does not answer: " + httplib::to_string(answer.error()));
  return {answer->status, answer->reason, answer->body};
}

}  // namespace serving
RLCORE_END
