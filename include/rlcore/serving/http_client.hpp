// HTTP client. src/http_client.cpp defines it with cpp-httplib: link rlcore::server.
#pragma once

#include <memory>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// A server's response.
struct http_answer {
  int status = 0;
  std::string reason, body;
};

/// One connection, kept open from request to request, for one thread.
class http_client {
 public:
  /// Connects to `url`, http://host:port; a path such as /v1 is ignored. Throws config_error for an invalid URL.
  explicit http_client(const std::string& url);
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client();

  /// Sends a JSON body with a bearer token, if there is one, and waits for the response without a timeout. Throws error
  /// if none arrives.
  http_answer post(const std::string& path, const std::string& body, const std::string& api_key = {});

 private:
  class connection;
  std::unique_ptr<connection> connection_;
};

}  // namespace serving
RLCORE_END
