// Chat template rendering options.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Rendering options.
struct render_options {
  bool add_generation_prompt = false;     ///< open the assistant's next turn at the end
  std::optional<bool> enable_thinking{};  ///< unset: the template's default
  std::vector<nlohmann::ordered_json> tools{};
  bool add_vision_id = false;  ///< "Picture 1: " and so on in front of pictures
};

}  // namespace text
RLCORE_END
