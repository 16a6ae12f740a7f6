// A client of a server. src/http_client.cpp defines it by cpp-httplib: link rlcore::server.
#pragma once

#include <memory>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// What a server answered.
struct http_answer {
  int status = 0;
  std::string reason, body;
};

/// One connection, kept open from request to request, for one thread.
class http_client {
 public:
  /// To `url`, http://host:port; a path behind it, such as /v1, is left out. Throws config_error for what is no such
  /// URL.
  explicit http_client(const std::string& url);
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client();

  /// Sends a JSON body with a bearer token, if there is one, and waits for the answer as long as it takes. Throws error
  /// if there is none.
  http_answer post(const std::string& path, const std::string& body, const std::string& api_key = {});

 private:
  class connection;
  std::unique_ptr<connection> connection_;
};

}  // namespace serving
RLCORE_END
