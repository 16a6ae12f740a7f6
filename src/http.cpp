// HTTP through cpp-httplib (the target rlcore::server).
#define RLCORE_SOURCE_HTTP
#include "rlcore/serving/connection.hpp"
#include "rlcore/serving/http_client.hpp"
#include "rlcore/serving/http_server.hpp"
