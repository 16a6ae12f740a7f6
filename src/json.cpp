// nlohmann's parser and writer, compiled once (the targets rlcore::checkpoint, rlcore::text and rlcore::data).
#include "rlcore/text/exact_json_reader.hpp"
#include "rlcore/text/nlohmann_json.hpp"
