// Tokenizers and chat templates, compiled once (the target rlcore::text).
#include "rlcore/text/render_chat.hpp"
#include "rlcore/text/tokenizer_parts.hpp"
