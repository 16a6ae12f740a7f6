// Conversion of Geometry3K problems to verl's columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/data/row.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace verify {

/// The instruction after the problem, identical to verl's.
inline constexpr std::string_view geo3k_instruction =
    R"(You FIRST think about the reasoning process as an internal monologue and then provide the final answer. )"
    R"(The reasoning process MUST BE enclosed within <think> </think> tags. The final answer MUST BE put in \boxed{}.)";

/// data_source, prompt, images, ability, reward_model {style, ground_truth} and extra_info {split, index, answer,
/// question} of a row of the hub (images, problem, answer). Images are copied unchanged. Throws data_error starting
/// with `where` for another row, and for a problem with another number of <image> marks than images.
inline data::row geo3k_row(const data::row& from, const std::string& split, std::size_t index,
                           const std::string& where) {
  const std::string& problem = data::string_column(from, "problem", where);
  const std::string& answer = data::string_column(from, "answer", where);
  const data::row& images = data::column(from, "images", where);
  const std::size_t marks = text::count_image_marks(problem), pictures = images.is_array() ? images.size() : 0;
  if (!images.is_array() || marks != pictures)
    throw data_error(where + ": the problem has " + std::to_string(marks) + " <image> marks, column 'images' " +
                     std::to_string(pictures) + " pictures");
  return {
      {"data_source", "hiyouga/geometry3k"},
      {"prompt", data::row::array({{{"role", "user"}, {"content", problem + " " + std::string(geo3k_instruction)}}})},
      {"images", images},
      {"ability", "math"},
      {"reward_model", {{"style", "rule"}, {"ground_truth", answer}}},
      {"extra_info", {{"split", split}, {"index", index}, {"answer", answer}, {"question", problem}}}};
}

}  // namespace verify
RLCORE_END
