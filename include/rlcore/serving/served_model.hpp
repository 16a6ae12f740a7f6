// The model that a server answers with, as far as requests need to know it.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/serving/protocol/chat_request.hpp"
#include "rlcore/serving/protocol/reasoning.hpp"
#include "rlcore/serving/protocol/sampling_fields.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace serving {

/// Names, tokenizer, limits and defaults.
struct served_model {
  std::vector<std::string> names;  ///< the first is used in answers
  std::filesystem::path folder;
  text::tokenizer tokenizer;
  std::optional<text::chat_template> chat{};
  std::string without_chat{};  ///< why there is no template
  std::vector<std::int32_t> eos_ids{};
  std::int64_t max_length = 0, vocabulary = 0;
  random_key seed{};          ///< of requests that bring none
  std::string fingerprint{};  ///< of weights and build
  std::int64_t created = static_cast<std::int64_t>(std::time(nullptr));
  request_defaults defaults{};
  chat_features features{};
  data::image_settings images{};        ///< how pictures become tokens; without a processor there are none
  std::filesystem::path local_files{};  ///< file:// is read below it; empty: nowhere
  std::int64_t max_image_tokens = 0;    ///< of a request
  reasoning_form reasoning = reasoning_form::none;
  std::string response_role = "assistant";
  bool raw_logprobs = true;         ///< of the model's own distribution; false: tempered as the draws are
  bool processed_logprobs = false;  ///< of drawn tokens: of what rules and cuts leave
};

}  // namespace serving
RLCORE_END
