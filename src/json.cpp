// nlohmann's parser and writer, compiled once (the targets rlcore::checkpoint, rlcore::text and rlcore::data).
#define RLCORE_SOURCE_JSON
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"
