// Keys and flags of a program, and declarations of the trainers' registries. A caller of the latter compiles neither
// the keys nor their checks: main_ppo.hpp, preference_keys.hpp and sft.hpp define them, the trainer libraries contain
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {

/// Value types.
enum class key_type {
  boolean,
  integer,
  real,        ///< an integer is taken as well
  text,        ///< numbers keep their spelling
  texts,       ///< a text or a list of texts
  two_reals,   ///< a list of two numbers, each within the limits
  dictionary,  ///< free-form map: every member name is allowed, with or without +
  any
};

/// How this build treats a key.
enum class disposition {
  honoured,  ///< implemented
  accepted,  ///< checked and recorded; no effect on this device or in this design
  fixed,     ///< only the default is supported; any other value is rejected
  off,       ///< a map of an unsupported part: its `enable` or `enabled` must stay False, the rest is not used
  unused     ///< known to verl or OpenRLHF, not used by this program
};

/// Allowed words and numbers of a key beyond its type.
struct key_limits {
  std::string_view choices = {};                               ///< a|b|c: the allowed words; empty: any text
  std::string_view later = {};                                 ///< a|b|c: words that are known but not in this build
  double at_least = -std::numeric_limits<double>::infinity();  ///< of a text: its length in bytes
  double at_most = std::numeric_limits<double>::infinity();
  bool below = false;  ///< at_most is exclusive
};

/// `fallback` is the default as typed on the command line; a key whose default is null may be null.
struct key {
  std::string_view name;
  key_type type;
  std::string_view fallback;
  disposition use;
  std::string_view meaning;  ///< one line, with the unit
  key_limits limits = {};
};

/// Vocabulary of the tables.
namespace keys {
using enum key_type;
using enum disposition;

/// Limits of a number, or of a text's length in bytes: x or more.
constexpr key_limits at_least(double x) noexcept { return {.at_least = x}; }
/// Limits of a number: x or more, but not infinity.
constexpr key_limits finite_from(double x) noexcept {
  return {.at_least = x, .at_most = std::numeric_limits<double>::max()};
}
/// Limits of a number: from x to y.
constexpr key_limits between(double x, double y) noexcept { return {.at_least = x, .at_most = y}; }
/// Limits of a number: from x to less than y.
constexpr key_limits from_to_below(double x, double y) noexcept { return {.at_least = x, .at_most = y, .below = true}; }
constexpr key_limits not_empty = at_least(1);  ///< of a text
/// The allowed words of a text; `later` are known words that this build lacks.
constexpr key_limits words(std::string_view choices, std::string_view later = {}) noexcept {
  return {.choices = choices, .later = later};
}
}  // namespace keys

/// `--name a` sets `key` to a. Several flags may set one key; the last word on the command line wins, whether it was
/// written as a flag or as key=value.
struct flag {
  static constexpr int switch_only = 0;  ///< no value follows (action="store_true")
  static constexpr int any_count = -1;   ///< a list of none or more (nargs="*")
  static constexpr int append = -2;      ///< one value; each use adds it to the list (action="append")

  std::string_view name;  ///< without the two dashes
  std::string_view key;
  int count = 1;                   ///< how many values follow; more than one, any_count and append make a list
  std::string_view bare = "True";  ///< the value a switch sets, as typed after key=
  /// From the texts typed after the flag (a text, or a list of texts) to the value of the key; without it the texts are
  /// read by the type of the key. May throw config_error.
  value (*transform)(const value&) = nullptr;
};

/// A key belongs to the first topic that lists it, else to the topic whose name is its longest prefix.
struct help_topic {
  std::string_view name;        ///< prefix of its keys (data, actor_rollout_ref.actor), or any word
  std::string_view holds;       ///< short description
  std::string_view keys = {};   ///< the most used ones without the prefix `name`, separated by blanks
  std::string_view flags = {};  ///< keys of one word, the most used ones first
  bool takes_rest = false;      ///< takes the one-word keys that no topic lists
};

class options;

/// Words of the command line that are neither flags nor key=value set `key`: a text, or texts if it takes several.
struct positional {
  static constexpr std::size_t any_number = static_cast<std::size_t>(-1);
  std::string_view key;
  std::size_t at_least = 1, at_most = 1;
};

/// An alias of a key: setting it sets the key.
struct spelling {
  std::string_view key, other;
};

/// A table of keys with the program it belongs to. Built from sections; a later trainer adds or replaces keys.
class registry {
 public:
  std::string program;                          ///< name of the executable
  std::string summary;                          ///< one line for --help
  std::string details;                          ///< lines for --help: examples, files that are written, exit codes
  std::span<const spelling> spellings;          ///< both names are keys of the table
  std::span<const help_topic> topics;           ///< groups of keys for --help; others are named by their first word
  std::string config_name;                      ///< default of --config-name
  std::vector<std::string> config_names;        ///< accepted for --config-name
  std::vector<std::string> later_config_names;  ///< known, but not in this build
  /// Rules that span several keys; may set keys and add notes. Runs after the types have been checked.
  void (*check)(options&) = nullptr;

  /// Adds keys; a key with a known name replaces the old one in place.
  registry& add(std::span<const key> section);

  /// Flags beside key=value; a later flag of the same name replaces the earlier one.
  registry& add_flags(std::span<const flag> section);
  /// The keys of a program whose flags are its keys: a bool is a switch, texts take a list, anything else one value.
  registry& add_as_flags(std::span<const key> section);

  /// Words take their places in the order of these calls, unless a flag or key=value has set the key. With them a word
  /// such as a=b is a setting only if `a` is a key.
  registry& add_positional(const positional& place) {
    positionals_.push_back(place);
    return *this;
  }

  std::span<const flag> flags() const noexcept { return flags_; }
  std::span<const positional> positionals() const noexcept { return positionals_; }
  std::span<const key> keys() const noexcept { return keys_; }
  std::size_t size() const noexcept { return keys_.size(); }
  /// Index of a key in keys(), size() if the name is unknown.
  std::size_t index(std::string_view name) const {
    const auto at = position(name);
    return at != order_.end() && keys_[*at].name == name ? *at : keys_.size();
  }
  /// The key of this name, or nullptr.
  const key* find(std::string_view name) const {
    const std::size_t i = index(name);
    return i < keys_.size() ? &keys_[i] : nullptr;
  }
  /// True if `name` is a map that holds keys, e.g. "trainer".
  bool is_section(std::string_view name) const {
    const std::string prefix = std::string(name) + ".";
    const auto at = position(prefix);
    return at != order_.end() && keys_[*at].name.starts_with(prefix);
  }
  /// True for an alias of a key.
  bool is_spelling(std::string_view name) const {
    return std::any_of(spellings.begin(), spellings.end(), [&](const spelling& s) { return s.other == name; });
  }
  /// The free-form map that `name` lies in, or nullptr.
  const key* free_form(std::string_view name) const;
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const key& k : keys_) list.emplace_back(k.name);
    return list;
  }
  /// A key as typed: `--name` if a flag has its name.
  std::string typed_name(std::string_view key) const {
    const bool is_flag = std::any_of(flags_.begin(), flags_.end(), [&](const flag& f) { return f.name == key; });
    return (is_flag ? "--" : "") + std::string(key);
  }
  /// The flags as they are typed.
  std::vector<std::string> flag_names() const {
    std::vector<std::string> all;
    for (const flag& f : flags_) all.push_back("--" + std::string(f.name));
    return all;
  }

 private:
  std::vector<std::size_t>::const_iterator position(std::string_view name) const {
    return std::lower_bound(order_.begin(), order_.end(), name,
                            [this](std::size_t i, std::string_view n) { return keys_[i].name < n; });
  }

  /// A configuration that is made when it is first asked for.
  struct late_value {
    std::mutex mutex;
    std::optional<value> made;
  };

  /// The fallbacks of all keys as one configuration, references unresolved. Copies of a registry share it.
  const value& defaults() const;

  std::vector<key> keys_;
  std::vector<flag> flags_;
  std::vector<positional> positionals_;
  std::vector<std::size_t> order_;  ///< of keys_ by name
  std::shared_ptr<late_value> defaults_ = std::make_shared<late_value>();

  friend class options;
};

/// The unknown key with suggestions: keys that end with it, then similar spellings, then keys with the same last word.
std::string unknown_key_text(const registry& known, const std::string& name);

/// verl's main_ppo, and OpenRLHF's flags, whose advantage_estimator is then group_norm.
registry grpo_trainer_registry();
/// verl's main_ppo with the estimator gae and a critic, and OpenRLHF's PPO flags beside it.
registry ppo_trainer_registry();
/// verl's main_ppo with the estimator reinforce_plus_plus, and OpenRLHF's flags, whose advantage_estimator is then
/// reinforce.
registry reinforce_plus_plus_trainer_registry();
/// The keys of grpo_trainer with the reward manager and the configuration's name of verl's DAPO recipe. OpenRLHF has no
/// flags for DAPO's additions to GRPO; a note names the keys that do.
registry dapo_registry();

/// The flags of OpenRLHF's train_dpo, and rlcore's own keys.
registry dpo_registry();
/// The flags of OpenRLHF's train_kto, and rlcore's own keys.
registry kto_registry();
/// The flags of OpenRLHF's train_rm, and rlcore's own keys.
registry rm_registry();
/// The flags of OpenRLHF's train_prm, and rlcore's own keys.
registry prm_registry();

/// The registry of the command line: verl's keys, or OpenRLHF's if it contains one of their flags.
registry sft_registry(int argc, const char* const* argv);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE registry& registry::add(std::span<const key> section) {
  defaults_ = std::make_shared<late_value>();
  for (const key& k : section) {
    const std::size_t i = index(k.name);
    if (i < keys_.size()) {
      keys_[i] = k;
    } else {
      order_.insert(position(k.name), keys_.size());
      keys_.push_back(k);
    }
  }
  return *this;
}

RLCORE_INLINE registry& registry::add_flags(std::span<const flag> section) {
  for (const flag& f : section) {
    const auto same = std::find_if(flags_.begin(), flags_.end(), [&](const flag& g) { return g.name == f.name; });
    if (same == flags_.end()) {
      flags_.push_back(f);
    } else {
      *same = f;
    }
  }
  return *this;
}

RLCORE_INLINE registry& registry::add_as_flags(std::span<const key> section) {
  add(section);
  for (const key& k : section) {
    const int count = k.type == key_type::boolean ? flag::switch_only : k.type == key_type::texts ? flag::any_count : 1;
    const flag same_name[] = {{k.name, k.name, count}};
    add_flags(same_name);
  }
  return *this;
}

RLCORE_INLINE const key* registry::free_form(std::string_view name) const {
  for (std::size_t dot = name.rfind('.'); dot != name.npos; dot = dot == 0 ? name.npos : name.rfind('.', dot - 1)) {
    const key* k = find(name.substr(0, dot));
    if (k != nullptr) return k->type == key_type::dictionary ? k : nullptr;
  }
  return nullptr;
}

RLCORE_INLINE std::string unknown_key_text(const registry& known, const std::string& name) {
  std::vector<std::string_view> names;
  for (const key& k : known.keys()) names.push_back(k.name);
  const auto ending = [&](const std::string& end) {
    std::vector<std::string> found;
    for (const std::string_view candidate : names)
      if (found.size() < 3 && candidate.ends_with(end)) found.emplace_back(candidate);
    return found;
  };
  auto near = ending("." + name);  // the front is missing, a letter is wrong, or only the last part is right
  if (near.empty()) near = nearest(name, names);
  if (near.empty()) near = ending("." + name.substr(name.rfind('.') == name.npos ? 0 : name.rfind('.') + 1));
  std::string hint;
  for (const std::string& candidate : near) hint += (hint.empty() ? " (did you mean '" : "' or '") + candidate;
  std::string_view map;
  for (const key& k : known.keys())
    if (map.empty() && k.type == key_type::dictionary && k.use == disposition::accepted) map = k.name;
  return "unknown key '" + name + "'" + (hint.empty() ? "" : hint + "'?)") +
         (map.empty() ? "; see --help"
                      : "; a new key, written +" + name + "=..., is taken only inside a free-form map such as " +
                            std::string(map));
}

}  // namespace train
RLCORE_END
#endif
