// The settings of one run. verl's command lines follow Hydra's rules, flags follow argparse's; a registry of keys
// checks both. The parser is slow to compile: with RLCORE_COMPILED src/train_run.cpp provides it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/config/typed_names.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
namespace train {

/// parse() reads the settings; then programs ask for registered keys by type. Asking for an unregistered key or the
/// wrong type is a programming error and throws std::invalid_argument. Every mistake on the command line throws
/// config_error.
class options {
 public:
  /// The command line of `main`, program name included.
  static options parse(int argc, const char* const* argv, registry known);
  /// The words of a command line without the program's name. Throws config_error for the first mistake.
  static options parse(const std::vector<std::string>& arguments, registry known);

  /// The output of --help, --version or --cfg job, if requested: print it and exit with 0.
  const std::optional<std::string>& answer() const noexcept { return answer_; }

  /// The value of a key that cannot be null. T is bool, std::int64_t, double or std::string.
  template <class T>
  T get(std::string_view name) const {
    if (const auto found = find<T>(name)) return *found;
    throw std::invalid_argument("rlcore: setting '" + std::string(name) + "' is null; ask with find()");
  }
  /// The value, or nothing if it is null.
  template <class T>
  std::optional<T> find(std::string_view name) const {
    static_assert(std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string>,
                  "rlcore: a setting is read as bool, std::int64_t, double or std::string");
    const value& v = at(name);
    if (v.is_null()) return std::nullopt;
    if (const T* x = v.as<T>()) return *x;
    throw std::invalid_argument("rlcore: setting '" + std::string(name) + "' is " + std::string(kind_of(v)));
  }
  /// A text or a list of texts as a list; null is the empty list.
  std::vector<std::string> list(std::string_view name) const;
  /// The value of a key, references resolved.
  const value& at(std::string_view name) const { return values_[require_index(name)]; }
  /// True if the command line sets the key.
  bool is_set(std::string_view name) const { return is_set_[require_index(name)]; }
  /// Replaces a value after parsing, with the same checks; is_set() stays as it was.
  void set(std::string_view name, const value& v);

  /// Lines to print before the run: settings without effect, mapped settings, differences from upstream.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Appends a line to notes().
  void note(std::string line) { notes_.push_back(typed_.in(line)); }
  /// From now on messages show `flag` instead of `key`, with the value if it is not the flag's own.
  void show_as(const std::string& key, const std::string& flag);
  /// The same for key=value, set by `typed`.
  void show_as(const std::string& key, const std::string& flag, const std::string& value, const std::string& typed) {
    typed_.add(key, "--" + flag, value, typed);
  }
  /// A setting for messages: key=value, or `--flag value` where the key is a flag.
  std::string as_typed(std::string_view name) const;
  /// Option names used in messages.
  const typed_names& typed() const noexcept { return typed_; }
  const registry& known() const noexcept { return known_; }

  /// The whole configuration as YAML with resolved references.
  std::string yaml() const;
  /// key=value for every key that the command line sets, in the order of the registry.
  std::vector<std::string> overrides() const;

 private:
  explicit options(registry known);

  std::size_t require_index(std::string_view name) const;
  /// The configuration as composed so far, references unresolved.
  value& root();

  registry known_;
  std::optional<value> root_;  ///< of root(); empty: that of the registry, unchanged
  std::vector<value> values_;  ///< by key: resolved and checked
  std::vector<bool> is_set_;
  std::vector<std::string> notes_;
  typed_names typed_;
  std::optional<std::string> answer_;

  friend class options_reader;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/config/read_options.hpp"
#endif
