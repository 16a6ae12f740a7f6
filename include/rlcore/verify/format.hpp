// Format rewards: reasoning and answer in tags.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace verify {

/// Whether a response begins with <think>, has no second <think>, and has a </think> after it: TRL's
/// think_format_reward. Linear; any text may follow </think>.
constexpr bool has_think_format(std::string_view response) noexcept {
  constexpr std::string_view open = "<think>", close = "</think>";
  if (!response.starts_with(open)) return false;
  const std::string_view rest = response.substr(open.size());
  return rest.find(open) == std::string_view::npos && rest.find(close) != std::string_view::npos;
}

/// Whether a response is <a>...</a><b>...</b>... in the order of `tags`, each tag exactly once, with nothing but white
/// space (ASCII) before, between and after: {"think", "answer"} is the format of DeepSeek-R1-Zero. Linear, allocates
/// only the tags.
inline bool has_tagged_format(std::string_view response, std::initializer_list<std::string_view> tags) {
  const auto blank = [](std::string_view s) { return s.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos; };
  std::size_t at = 0;
  for (const std::string_view tag : tags) {
    const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
    const std::size_t begin = response.find(open), end = response.find(close);
    if (begin == std::string_view::npos || end == std::string_view::npos || begin < at || end < begin) return false;
    if (response.find(open, begin + 1) != std::string_view::npos) return false;
    if (response.find(close, end + 1) != std::string_view::npos) return false;
    if (!blank(response.substr(at, begin - at))) return false;
    at = end + close.size();
  }
  return blank(response.substr(at));
}

}  // namespace verify
RLCORE_END
