// What needs nlohmann's parser and writer and no other library, compiled once (the targets rlcore::checkpoint,
// rlcore::text and rlcore::data): JSON, and the files of a model's folder, which may be those of a GGUF file.
#define RLCORE_SOURCE_JSON
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/gguf/gguf_config.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/gguf/gguf_tokenizer.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"
