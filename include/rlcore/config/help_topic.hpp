// A group of keys on the page of --help.
#pragma once

#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// A key belongs to the first topic that lists it, else to the topic with the longest name that begins the key's.
struct help_topic {
  std::string_view name;        ///< how the names of its keys begin (data, actor_rollout_ref.actor), or any word
  std::string_view holds;       ///< what it is about, a few words
  std::string_view keys = {};   ///< the most used ones without `name` in front, blanks between
  std::string_view flags = {};  ///< keys of one word, the most used ones first
  bool takes_rest = false;      ///< keys of one word that no topic lists are in this one
};

}  // namespace trainer
RLCORE_END
