// The page of --help, whole or by topic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/config/help_layout.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {
namespace detail {

/// ` FOLDER`, ` [FOLDER]` or ` FILE ...`: the words that set a key.
std::string positional_usage(const positional& p);

/// Wraps a program's own help lines: second-column text is wrapped under itself, an indented command continues after a
/// backslash. A line that continues the previous sentence is joined to it.
std::string details_text(std::string details, std::size_t width);

/// The first lines of the page: usage, details and the options that every program has.
std::string usage_text(const registry& known, std::size_t width);

/// The heading of a group: `data.*`, or its name if the keys do not begin with it.
inline std::string heading(const help_group& group) {
  const bool prefix =
      std::any_of(group.keys.begin(), group.keys.end(), [&](const key* k) { return lies_in(k->name, group.name); });
  return group.name + (prefix ? ".*" : "") + (group.holds.empty() ? "" : ": " + group.holds);
}

/// The keys of a group that pass `shown`, with their meanings, under its heading; empty if no key passes.
template <class Shown>
std::string group_text(const registry& known, const help_group& group, std::size_t width, Shown&& shown) {
  std::vector<help_entry> entries;
  for (const key* k : group.keys)
    if (shown(*k)) entries.push_back(entry_of(known, *k, group.name));
  return entries.empty() ? std::string() : "\n" + heading(group) + "\n" + entries_text(entries, width);
}

/// The names of the keys that pass `shown`, under their disposition in this build; empty if no key passes.
template <class Shown>
std::string names_text(const registry& known, std::size_t width, Shown&& shown) {
  static constexpr struct {
    disposition use;
    std::string_view heading;
  } kinds[] = {{disposition::accepted, "Accepted and checked, without effect on this device"},
               {disposition::fixed, "Only this value is in this build yet"},
               {disposition::off, "Parts that have to stay switched off"},
               {disposition::unused, "Known from other trainers, not used by this program"}};
  std::string out;
  for (const auto& kind : kinds) {
    std::vector<std::string> words;
    for (const key& k : known.keys())
      if (k.use == kind.use && shown(k))
        words.push_back(std::string(k.name) + (k.use == disposition::fixed ? "=" + one_line(k.fallback) : ""));
    if (!words.empty()) out += "\n" + std::string(kind.heading) + ":\n  " + filled(words, "  ", 2, 2, width) + "\n";
  }
  return out;
}

/// Every key with an effect, with its meaning; the remaining keys by name.
std::string all_keys_text(const registry& known, std::size_t width);

/// Two or three lines for each group: its summary, and as many of its keys with defaults as fit on two lines.
std::string topics_text(const registry& known, std::size_t width);

/// The keys that match `topic`: those of a group of this name and those with these words in their names; else those
/// with a word that has this prefix. Throws config_error if none match.
std::vector<const key*> keys_of_topic(const registry& known, const std::string& topic);

/// `text` of a command line reduced to the key's name: without dashes, +, =value, .*
std::string topic_name(std::string_view text);

}  // namespace detail

/// Maximum number of lines of --help without a topic.
inline constexpr std::size_t help_lines = 60;

/// The output of --help in `width` columns. Without a topic: every key if that takes at most 60 lines, else the topics.
/// A topic, some words of a key's name or their beginning: these keys. "all": every key. Throws config_error for an
/// unknown topic.
std::string help_text(const registry& known, const std::string& topic = {}, std::size_t width = help_width());

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::string positional_usage(const positional& p) {
  std::string out;
  for (const char c : p.key) out += static_cast<char>(override_lexer::letter(c) ? c & ~0x20 : c);
  if (p.at_most > 1) out += " ...";
  return p.at_least == 0 ? "[" + out + "]" : out;
}

RLCORE_INLINE std::string details_text(std::string details, std::size_t width) {
  std::string out;
  for (std::size_t at = 0; (at = details.find('\n', at)) != details.npos; ++at)
    if (at > 0 && at + 1 < details.size() && details[at - 1] != '.' && details[at + 1] >= 'a' && details[at + 1] <= 'z')
      details[at] = ' ';
  for (const std::string& line : split_words(details, '\n')) {
    const std::size_t lead = std::min(line.find_first_not_of(' '), line.size()), gap = line.find("  ", lead);
    const std::size_t text = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
    if (columns_of(line) <= width) {
      out += line;
    } else if (text != line.npos) {
      out += line.substr(0, text) + filled(blank_words(line.substr(text)), " ", text, text, width);
    } else {
      std::string lines = filled(blank_words(line), " ", lead, lead == 0 ? 0 : lead + 4, width - (lead == 0 ? 0 : 2));
      for (std::size_t at = 0; lead > 0 && (at = lines.find('\n', at)) != lines.npos; at += 3)
        lines.replace(at, 1, " \\\n");
      out += std::string(lead, ' ') + lines;
    }
    out += "\n";
  }
  return out;
}

RLCORE_INLINE std::string usage_text(const registry& known, std::size_t width) {
  const auto line = [&](std::string_view text, std::size_t indent) {
    return filled(blank_words(text), " ", 0, indent, width) + "\n";
  };
  std::string usage = "Usage: " + known.program;
  for (const positional& p : known.positionals()) usage += " " + positional_usage(p);
  std::string out =
      line(known.program + ": " + known.summary, 0) + "\n" + line(usage + " [key=value ...] [options]", 2) + "\n";
  out += details_text(known.details, width) + (known.details.empty() ? "" : "\n");
  std::vector<help_entry> entries;
  if (!known.flags().empty()) entries.push_back({"--flag value", "set the key of a flag; some are switches", ""});
  entries.push_back({"key=value", "set a key. Lists: [a,b]; maps: {a:b}; quotes 'a, b'; null", ""});
  entries.push_back({"+key=value", "add to a free-form map (++ add or set, ~key remove)", ""});
  entries.push_back({"--help [TOPIC]", "a topic, a key, or how keys begin; all: every key", ""});
  entries.push_back({"--cfg job", "print all settings as YAML and stop", ""});
  if (!known.config_names.empty()) {
    std::string names;
    for (std::size_t i = 0; i < known.config_names.size() && i < 4; ++i)
      names += (names.empty() ? "" : ", ") + known.config_names[i];
    if (known.config_names.size() > 4) names += ", ...; a wrong name lists all";
    entries.push_back({"--config-name NAME", "table of defaults (" + names + ")", ""});
    entries.push_back({"--config-path PATH", "accepted, not read", ""});
  }
  entries.push_back({"--version", "print the version", ""});
  return out + entries_text(entries, width);
}

RLCORE_INLINE std::string all_keys_text(const registry& known, std::size_t width) {
  std::string out;
  for (const help_group& group : groups_of(known))
    out += group_text(known, group, width, [](const key& k) { return k.use == disposition::honoured; });
  return out + names_text(known, width, [](const key&) { return true; });
}

RLCORE_INLINE std::string topics_text(const registry& known, std::size_t width) {
  std::string out = "\nTopics, their most used keys with defaults (+N: further keys):\n";
  for (const help_group& group : groups_of(known)) {
    std::vector<std::string> words;
    std::size_t count = 0;
    bool full = false;
    for (std::size_t i = 0; i < group.keys.size(); ++i) {
      if (group.keys[i]->use != disposition::honoured || known.is_spelling(group.keys[i]->name)) continue;
      ++count;
      if (group.most_used > 0 && i >= group.most_used) continue;
      if (full) continue;
      words.push_back(typed(known, *group.keys[i], group.name, 24));
      const std::string lines = filled(words, "  ", 6, 6, width);
      full = std::count(lines.begin(), lines.end(), '\n') > 1;
      if (full) words.pop_back();
    }
    if (count == 0) continue;
    const std::string rest = count > words.size() ? " (+" + std::to_string(count - words.size()) + ")" : "";
    out += "  " + filled(blank_words(heading(group) + rest), " ", 2, 4, width) + "\n";
    if (!words.empty()) out += "      " + filled(words, "  ", 6, 6, width) + "\n";
  }
  return out;
}

RLCORE_INLINE std::vector<const key*> keys_of_topic(const registry& known, const std::string& topic) {
  std::vector<const key*> whole, beginning;
  std::vector<std::string> names = known.names();
  for (const help_group& group : groups_of(known)) {
    const std::size_t dot = group.name.rfind('.');
    names.push_back(group.name.substr(dot == group.name.npos ? 0 : dot + 1));
    names.push_back(group.name);
    for (const key* k : group.keys) {
      const std::string name = "." + std::string(k->name) + ".";
      const auto aliased = [&](const flag& f) { return f.name == topic && f.key == k->name; };
      if (group.name == topic || lies_in(group.name, topic) || name.find("." + topic + ".") != name.npos ||
          std::any_of(known.flags().begin(), known.flags().end(), aliased))
        whole.push_back(k);
      else if (name.find("." + topic) != name.npos)
        beginning.push_back(k);
    }
  }
  if (!whole.empty()) return whole;
  if (!beginning.empty()) return beginning;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw config_error("--help " + one_line(topic) + ": no key or topic begins so" + did_you_mean(topic, names) +
                     "; --help lists the topics, --help all every key");
}

RLCORE_INLINE std::string topic_name(std::string_view text) {
  while (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  text = text.substr(0, text.find('='));
  while (!text.empty() && (text.back() == '*' || text.back() == '.')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::string help_text(const registry& known, const std::string& topic, std::size_t width) {
  const std::string usage = detail::usage_text(known, width), name = detail::topic_name(topic);
  if (name.empty() || name == "all") {
    const std::string whole = usage + detail::all_keys_text(known, width);
    const auto lines = static_cast<std::size_t>(std::count(whole.begin(), whole.end(), '\n'));
    return name == "all" || lines <= help_lines ? whole : usage + detail::topics_text(known, width);
  }
  const std::vector<const key*> keys = detail::keys_of_topic(known, name);
  const auto of_topic = [&](const key& k) { return std::find(keys.begin(), keys.end(), &k) != keys.end(); };
  const bool any_honoured =
      std::any_of(keys.begin(), keys.end(), [](const key* k) { return k->use == disposition::honoured; });
  std::string out;
  for (const detail::help_group& group : detail::groups_of(known))
    out += detail::group_text(known, group, width, [&](const key& k) {
      return of_topic(k) && (k.use == disposition::honoured || !any_honoured);
    });
  return out.substr(1) + detail::names_text(known, width, of_topic);
}

}  // namespace train
RLCORE_END
#endif
