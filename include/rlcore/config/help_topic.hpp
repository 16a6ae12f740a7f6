// A group of keys on the page of --help.
#pragma once

#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// A key belongs to the first topic that lists it, else to the topic whose name is its longest prefix.
struct help_topic {
  std::string_view name;        ///< prefix of its keys (data, actor_rollout_ref.actor), or any word
  std::string_view holds;       ///< short description
  std::string_view keys = {};   ///< the most used ones without the prefix `name`, separated by blanks
  std::string_view flags = {};  ///< keys of one word, the most used ones first
  bool takes_rest = false;      ///< takes the one-word keys that no topic lists
};

}  // namespace trainer
RLCORE_END
