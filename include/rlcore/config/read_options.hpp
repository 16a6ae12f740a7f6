// Command-line parser: fills options.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/flags.hpp"
#include "rlcore/config/grammar/compose.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/help.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/config_presets.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/core/version.hpp"

RLCORE_BEGIN
namespace train {

/// Fills options from a command line.
class options_reader {
 public:
  /// `result` holds the defaults of its keys.
  explicit options_reader(options& result) : options_(result) {}

  /// Reads the words of a command line without the program's name. Throws config_error for the first mistake.
  void read(const std::vector<std::string>& arguments) {
    written_line line;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].starts_with('-'))
        read_option(arguments, i, line);
      else if (is_word(arguments[i]))
        line.words.push_back(arguments[i]);
      else
        line.settings.emplace_back(arguments[i]);
    }
    if (options_.answer_) return;
    for (const auto& setting : line.settings)
      if (const auto* written = std::get_if<written_flag>(&setting)) {
        override_setting item = flag_setting(options_.known_, *written);
        name_flag(*written, item);
        take(std::move(item));
      } else {
        override_setting item = parse_override(std::get<std::string>(setting));
        options_.typed_.remove(item.key);
        take(std::move(item));
      }
    place(line.words);
    finish();
    if (line.print_config) options_.answer_ = options_.yaml();
  }

 private:
  /// The settings and words of a command line, in their order.
  struct written_line {
    std::vector<std::variant<std::string, written_flag>> settings;
    std::vector<std::string> words;
    bool print_config = false;
  };

  /// Messages name a flag that sets a key of another name.
  void name_flag(const written_flag& written, const override_setting& item) {
    options_.typed_.remove(item.key);
    if (written.rule->name == written.rule->key) return;
    std::string name = "--" + std::string(written.rule->name), typed = name;
    for (const std::string& text : written.texts) typed += " " + text;
    options_.typed_.add(item.key, name, inline_text(item.item), typed);
  }

  /// Reads the option or flag at arguments[i] and its values; leaves i at the last argument consumed.
  void read_option(const std::vector<std::string>& arguments, std::size_t& i, written_line& line) {
    std::string name = arguments[i], argument;
    const std::size_t equal = name.find('=');
    if (equal != name.npos) argument = name.substr(equal + 1), name.resize(equal);
    const auto operand = [&] {
      if (equal != arguments[i].npos) return argument;
      if (i + 1 >= arguments.size()) throw config_error(name + " needs a value");
      return arguments[++i];
    };
    if (name == "--help" || name == "-h") {
      const bool topic = equal == name.npos && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-') &&
                         arguments[i + 1].find('=') == std::string::npos;
      options_.answer_ = help_text(options_.known_, topic ? operand() : argument);
    } else if (name == "--version") {
      options_.answer_ = options_.known_.program + " " RLCORE_VERSION_STRING "\n";
    } else if (name == "--cfg" || name == "-c") {
      const std::string kind = operand();
      if (kind != "job") throw config_error("--cfg " + kind + ": expected job");
      line.print_config = true;
    } else if (name == "--resolve") {
      // the printed configuration is always resolved
    } else if (name == "--config-name" || name == "-cn") {
      choose_config(operand());
    } else if (name == "--config-path" || name == "-cp" || name == "--config-dir" || name == "-cd") {
      options_.note(name + " " + operand() + ": not read, the keys are built in");
    } else if (!options_.known_.flags().empty() && name.starts_with("--")) {
      add_flag(read_flag(options_.known_, arguments, i), line);
      --i;
    } else {
      std::vector<std::string> flags = options_.known_.flag_names();
      flags.insert(flags.end(),
                   {"--help", "--version", "--cfg", "--resolve", "--config-name", "--config-path", "--config-dir"});
      throw config_error("unknown option '" + name + "'" + did_you_mean(name, flags) +
                         "; settings are written key=value, see --help");
    }
  }

  /// Values of an appending flag are collected at its first occurrence.
  static void add_flag(written_flag written, written_line& line) {
    const auto same_list = [&](const auto& other) {
      const auto* earlier = std::get_if<written_flag>(&other);
      return written.rule->count == flag::append && earlier != nullptr && earlier->rule == written.rule;
    };
    const auto earlier = std::find_if(line.settings.begin(), line.settings.end(), same_list);
    if (earlier == line.settings.end())
      line.settings.emplace_back(std::move(written));
    else
      std::get<written_flag>(*earlier).texts.push_back(written.texts.front());
  }

  /// True for an argument without a dash that is not a setting.
  bool is_word(const std::string& argument) const {
    if (!options_.known_.positionals().empty()) return !detail::is_setting(options_.known_, argument);
    return !options_.known_.flags().empty() && argument.find('=') == argument.npos && !argument.starts_with('~');
  }

  /// Gives the words to the positionals whose keys are not set yet: each takes as many as the later ones can spare.
  void place(std::span<const std::string> words) {
    std::vector<positional> places;
    std::size_t needed = 0;
    for (const positional& p : options_.known_.positionals())
      if (!options_.is_set(p.key)) places.push_back(p), needed += p.at_least;
    for (const positional& p : places) {
      const std::size_t spare = words.size() - std::min(words.size(), needed);
      const std::size_t count = std::min({words.size(), p.at_most, p.at_least + spare});
      if (count < p.at_least) {
        const key& k = *options_.known_.find(p.key);
        std::string choices(k.limits.choices);
        std::replace(choices.begin(), choices.end(), '|', ' ');
        throw config_error("expected " + detail::positional_usage(p) + " (" + std::string(k.meaning) +
                           (choices.empty() ? "" : ": " + choices) + ")" +
                           (p.at_least == 1
                                ? ""
                                : ", " + std::to_string(p.at_least) + " words or more, got " + std::to_string(count)) +
                           "; see --help");
      }
      needed -= p.at_least;
      value::list items;
      for (const std::string& word : words.first(count)) items.push_back(value(detail::literal(word)));
      if (count > 0)
        take({override_kind::force_add, std::string(p.key), p.at_most == 1 ? items.front() : value(items)});
      words = words.subspan(count);
    }
    if (words.empty()) return;
    const bool too_many = !options_.known_.positionals().empty();
    throw config_error("'" + words.front() +
                       (too_many ? "' is one word too many; " : "' is not a setting: it has no '='; ") +
                       "expected key=value or a flag" +
                       did_you_mean("--" + words.front(), options_.known_.flag_names()) + "; see --help");
  }

  void choose_config(std::string name) {
    if (name.ends_with(".yaml")) name.resize(name.size() - 5);
    for (const std::string& known : options_.known_.config_names)
      if (known == name) {
        if (name.find("megatron") != name.npos)
          for (const char* k : {"actor_rollout_ref.actor.strategy", "critic.strategy", "reward_model.strategy"})
            if (options_.known_.find(k) != nullptr) assign(options_.root(), k, value("megatron"), true);
        const auto preset = std::ranges::find(config_presets, name, &config_preset::name);
        if (preset == std::end(config_presets)) return;
        for (const std::span<const std::string_view> settings : {preset->common, preset->settings})
          for (const std::string_view text : settings) {
            const override_setting s = parse_override(text);
            assign(options_.root(), s.key, s.item, true);
          }
        return;
      }
    std::string list;
    for (const std::string& known : options_.known_.config_names) list += (list.empty() ? "" : ", ") + known;
    for (const std::string& known : options_.known_.later_config_names)
      if (known == name) throw config_error("--config-name " + name + " is for another program; this one has " + list);
    throw config_error("--config-name " + name + ": expected " + list +
                       did_you_mean(name, options_.known_.config_names));
  }

  void take(override_setting setting) {
    const std::string& name = setting.key;
    if (name.empty()) throw config_error("'=' has no key in front of it; expected key=value without blanks around '='");
    if (name.find_first_of("/@") != name.npos)
      throw config_error("'" + name + "': groups of settings are not offered; set single keys, see --help");
    const key* known = options_.known_.find(name);
    if (setting.kind == override_kind::remove) {
      if (known == nullptr && options_.known_.free_form(name) == nullptr) {
        if (options_.known_.is_section(name)) throw config_error("'~" + name + "': a whole section cannot be deleted");
        unknown(name);
      }
      if (known != nullptr && known->fallback != "null" && known->type != key_type::dictionary &&
          (known->use == disposition::honoured || known->use == disposition::fixed))
        throw config_error("'~" + name + "': this program needs the key (" + std::string(known->meaning) + ")");
      apply(options_.root(), setting);
      return;
    }
    if (known != nullptr && setting.kind == override_kind::add && setting.item.is_scalar() && known->fallback != "null")
      options_.note("+" + name + ": the key is known, so a plain " + name + "=... does the same");
    check_known(name, setting.item);
    setting.kind = override_kind::force_add;
    apply(options_.root(), setting);
  }

  /// Every leaf that `item` would set at `name` must be a known key or lie in a free-form map; marks it as set.
  void check_known(const std::string& name, const value& item) {
    const std::size_t i = options_.known_.index(name);
    if (i < options_.known_.size()) {
      options_.is_set_[i] = true;
      return;
    }
    if (const key* map = options_.known_.free_form(name)) {
      options_.is_set_[options_.known_.index(map->name)] = true;
      return;
    }
    if (!options_.known_.is_section(name)) unknown(name);
    const auto* members = item.as<value::map>();
    if (members == nullptr)
      throw config_error("'" + name + "=" + inline_text(item) + "': " + name + " is a section; set its keys, such as " +
                         first_key(name));
    for (const member& m : *members) check_known(name + "." + m.name, m.item);
  }

  std::string first_key(const std::string& section) const {
    for (const key& k : options_.known_.keys())
      if (k.name.starts_with(section + ".")) return std::string(k.name) + "=" + std::string(k.fallback);
    return {};
  }

  [[noreturn]] void unknown(const std::string& name) const {
    throw config_error(unknown_key_text(options_.known_, name));
  }

  /// Resolves aliases: sets keys from their other spellings; messages keep those names. Throws config_error
  /// for two names with different values.
  void unify_spellings() {
    for (const auto& [name, other] : options_.known_.spellings) {
      const std::size_t from = options_.known_.index(other), to = options_.known_.index(name);
      require(from < options_.is_set_.size() && to < options_.is_set_.size(), "a spelling is not in the registry");
      const value *newer = select(options_.root(), other), *former = select(options_.root(), name);
      if (!options_.is_set_[from] || newer == nullptr) continue;  // not written, or deleted
      const value given = *newer;
      const std::string key(name), typed(other), text = inline_text(given);
      if (options_.is_set_[to] && former != nullptr && !(*former == given))
        throw config_error(options_.typed_.in(key + "=" + inline_text(*former) + " and " + typed + "=" + text +
                                              " mean the same setting; keep one"));
      check_value(options_.known_.keys()[from], interpolation(options_.root()).resolve(given, typed));
      if (!options_.is_set_[to]) options_.typed_.add(key, typed, text, typed + "=" + text);
      assign(options_.root(), key, given, true);
      options_.is_set_[to] = true;
    }
  }

  /// Throws config_error if a member `enable` or `enabled` of the map is True, at any depth.
  static void refuse_if_on(const key& part, const value& map, const std::string& name) {
    const auto* members = map.as<value::map>();
    if (members == nullptr) return;
    for (const member& m : *members) {
      const bool* on = m.item.as<bool>();
      if ((m.name == "enable" || m.name == "enabled") && on != nullptr && *on)
        throw config_error(name + "." + m.name + "=True is not in this build; expected False (" +
                           std::string(part.meaning) + ")");
      refuse_if_on(part, m.item, name + "." + m.name);
    }
  }

  void finish() {
    unify_spellings();
    interpolation references(options_.root());
    const auto keys = options_.known_.keys();
    std::string accepted, unused;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const value* raw = select(options_.root(), keys[i].name);
      const std::string name(keys[i].name);
      const bool unread = keys[i].use == disposition::unused && keys[i].type == key_type::dictionary;
      options_.values_.push_back(raw == nullptr ? value()
                                                : check_value(keys[i], unread ? *raw : references.resolve(*raw, name)));
      if (!options_.is_set_[i]) continue;
      if (keys[i].use == disposition::fixed) {
        const value fallback = check_value(keys[i], references.resolve(parse_value(keys[i].fallback), name));
        if (!(options_.values_[i] == fallback))
          throw config_error(options_.as_typed(name) + " is not in this build yet; it has " + inline_text(fallback) +
                             " (" + std::string(keys[i].meaning) + ")");
      } else if (keys[i].use == disposition::off) {
        refuse_if_on(keys[i], options_.values_[i], name);
        unused += (unused.empty() ? "" : ", ") + options_.as_typed(name);
      } else if (keys[i].use == disposition::accepted) {
        accepted += (accepted.empty() ? "" : ", ") + options_.as_typed(name);
      } else if (keys[i].use == disposition::unused) {
        unused += (unused.empty() ? "" : ", ") + options_.as_typed(name);
      }
    }
    if (!accepted.empty()) options_.note("accepted, without effect on this device: " + accepted);
    if (!unused.empty()) options_.note("known, but not used by this program: " + unused);
    try {
      if (options_.known_.check != nullptr) options_.known_.check(options_);
    } catch (const config_error& e) {
      throw config_error(options_.typed_.in(e.what()));
    }
  }

  options& options_;
};

RLCORE_INLINE options options::parse(int argc, const char* const* argv, registry known) {
  return parse(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), std::move(known));
}

RLCORE_INLINE options options::parse(const std::vector<std::string>& arguments, registry known) {
  options result(std::move(known));
  options_reader(result).read(arguments);
  return result;
}

RLCORE_INLINE std::vector<std::string> options::list(std::string_view name) const {
  const value& v = at(name);
  std::vector<std::string> out;
  if (v.is_null()) return out;
  if (const auto* text = v.as<std::string>()) return {*text};
  const auto* items = v.as<value::list>();
  if (items == nullptr)
    throw std::invalid_argument("rlcore: setting '" + std::string(name) + "' is " + std::string(kind_of(v)));
  for (const value& item : *items) out.push_back(scalar_text(item));
  return out;
}

RLCORE_INLINE void options::set(std::string_view name, const value& v) {
  const std::size_t i = require_index(name);
  values_[i] = check_value(known_.keys()[i], v);
}

RLCORE_INLINE void options::show_as(const std::string& key, const std::string& flag) {
  const std::string name = "--" + flag, value = inline_text(at(key));
  const bool* on = at(flag).as<bool>();
  const std::string typed = on == nullptr ? name + " " + inline_text(at(flag)) : *on ? name : "no " + name;
  typed_.add(key, name, value,
             typed + (at(key) == at(flag) ? "" : " (" + key.substr(key.rfind('.') + 1) + "=" + value + ")"));
}

RLCORE_INLINE std::string options::as_typed(std::string_view name) const {
  const std::string word = known_.typed_name(name), text = inline_text(at(name));
  if (word == name) return word + "=" + text;
  const bool* on = at(name).as<bool>();
  return on == nullptr ? word + " " + text : *on ? word : word.substr(2) + "=" + text;
}

RLCORE_INLINE std::string options::yaml() const {
  value root{value::map{}};
  for (std::size_t i = 0; i < values_.size(); ++i) assign(root, known_.keys()[i].name, values_[i], true);
  return to_yaml(root);
}

RLCORE_INLINE std::vector<std::string> options::overrides() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (is_set_[i]) out.push_back(std::string(known_.keys()[i].name) + "=" + inline_text(values_[i]));
  return out;
}

RLCORE_INLINE const value& registry::defaults() const {
  const std::lock_guard lock(defaults_->mutex);
  if (!defaults_->made) {
    value root{value::map{}};
    for (const key& k : keys_) assign(root, k.name, parse_value(k.fallback), true);
    defaults_->made = std::move(root);
  }
  return *defaults_->made;
}

RLCORE_INLINE options::options(registry known) : known_(std::move(known)), is_set_(known_.size(), false) {}

RLCORE_INLINE value& options::root() {
  if (!root_) root_ = known_.defaults();
  return *root_;
}

RLCORE_INLINE std::size_t options::require_index(std::string_view name) const {
  const std::size_t i = known_.index(name);
  if (i == known_.size())
    throw std::invalid_argument("rlcore: '" + std::string(name) + "' is not in the registry of keys");
  return i;
}

}  // namespace train
RLCORE_END
