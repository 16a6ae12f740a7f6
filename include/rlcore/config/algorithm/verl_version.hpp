// verl version to reproduce (rlcore.verl) where versions compute different numbers.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/objective/algorithm/verl.hpp"

RLCORE_BEGIN
namespace train {

/// Values of rlcore.verl, in the order of verl::version.
inline constexpr std::array<std::string_view, 4> verl_versions{"2025-08", "0.6.1", "0.8.0", "0.9.1"};
inline constexpr std::string_view verl_version_choices = "2025-08|0.6.1|0.8.0|0.9.1";

/// The version selected by rlcore.verl.
inline verl::version read_verl_version(const options& opt) {
  const std::string word = opt.get<std::string>("rlcore.verl");
  for (std::size_t i = 0; i < verl_versions.size(); ++i)
    if (verl_versions[i] == word) return static_cast<verl::version>(i);
  throw config_error("rlcore.verl=" + word + ": expected one of " + std::string(verl_version_choices));
}

/// Throws config_error if `what`, e.g. "loss_mode=dro", was added to verl in `since`, after the version selected by
/// rlcore.verl.
inline void check_since(const options& opt, const std::string& what, verl::version since) {
  if (read_verl_version(opt) >= since) return;
  const std::string first(verl_versions[static_cast<std::size_t>(since)]);
  throw config_error(what + " is not in verl " + opt.get<std::string>("rlcore.verl") +
                     ", which rlcore.verl asks for; " + "expected rlcore.verl=" + first +
                     (since == verl::newest ? "" : " or later"));
}

/// The same for the value of `key`, a word of `Table` whose row may declare `since`.
template <class Table>
void check_word_since(const options& opt, const std::string& key) {
  const std::string word = opt.get<std::string>(key);
  Table::visit(key, word, [&](auto row) {
    if constexpr (requires { row.since; }) check_since(opt, key + "=" + word, row.since);
  });
}

}  // namespace train
RLCORE_END
