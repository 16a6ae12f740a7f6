// The layout of --help: columns and groups of keys.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// Columns that --help fills: $COLUMNS, else those of the terminal, else 80; from 60 to 120, as longer lines are hard
/// to read.
std::size_t help_width();

namespace detail {

/// Columns that a text in UTF-8 takes.
inline std::size_t columns_of(std::string_view text) {
  const auto inside = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) == 0x80; });
  return text.size() - static_cast<std::size_t>(inside);
}

/// The words of a text between its blanks.
std::vector<std::string> blank_words(std::string_view text);

/// The words with `between` between them, in lines of `width` columns at most. The first line continues at `column`,
/// later lines begin with `indent` blanks.
std::string filled(std::span<const std::string> words, std::string_view between, std::size_t column, std::size_t indent,
                   std::size_t width);

/// A line of a list: usage and meaning.
struct help_entry {
  std::string head, text, choices;
};

/// A list in two columns. The text of a head that is too long begins on the next line.
std::string entries_text(std::span<const help_entry> entries, std::size_t width);

/// A topic with its keys, the most used ones first.
struct help_group {
  std::string name, holds;
  std::vector<const key*> keys;
  std::size_t most_used = 0;
};

/// True if the key's name begins with `topic` and a dot.
inline bool lies_in(std::string_view name, std::string_view topic) {
  return name.size() > topic.size() && name.starts_with(topic) && name[topic.size()] == '.';
}

/// The group of a key that no topic lists: the topic with the longest matching prefix, the one with takes_rest, or a
/// new one named after the key's first word.
help_group& group_of(std::vector<help_group>& groups, const registry& known, const key& k);

/// Every key in its group, in the order of the topics.
std::vector<help_group> groups_of(const registry& known);

/// `--name VALUE VALUE`: a flag with a word for each value that follows.
std::string flag_usage(const flag& f);

/// The usage of a key, with its default: `name=value`, or its flag of the same name. A default of more than
/// `longest` columns is left out.
std::string typed(const registry& known, const key& k, std::string_view topic, std::size_t longest = std::string::npos);

/// The line of a key: usage, meaning, and further flags that set it.
help_entry entry_of(const registry& known, const key& k, std::string_view topic);

}  // namespace detail

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::size_t help_width() {
  const char* given = std::getenv("COLUMNS");
  long columns = given != nullptr ? std::strtol(given, nullptr, 10) : 0;
  winsize size{};
  if (columns <= 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return static_cast<std::size_t>(columns <= 0 ? 80 : std::clamp(columns, 60L, 120L));
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE std::vector<std::string> blank_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return words;
}

RLCORE_INLINE std::string filled(std::span<const std::string> words, std::string_view between, std::size_t column,
                                 std::size_t indent, std::size_t width) {
  std::string out;
  bool first = true;
  for (const std::string& word : words) {
    const std::size_t size = columns_of(word);
    if (first) {
      first = false;
    } else if (column + between.size() + size > width) {
      out += "\n" + std::string(column = indent, ' ');
    } else {
      out += between, column += between.size();
    }
    out += word, column += size;
  }
  return out;
}

RLCORE_INLINE std::string entries_text(std::span<const help_entry> entries, std::size_t width) {
  std::size_t longest = 0;
  for (const help_entry& e : entries) longest = std::max(longest, columns_of(e.head));
  const std::size_t column = std::min(longest, width * 2 / 5) + 4;
  std::string out;
  for (const help_entry& e : entries) {
    const std::size_t end = columns_of(e.head) + 2;
    out += "  " + e.head + (end + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - end, ' '));
    out += filled(blank_words(e.text), " ", column, column, width) + "\n";
    if (e.choices.empty()) continue;
    const std::vector<std::string> words = split_words(e.choices);
    out += std::string(column, ' ') + "one of: " + filled(words, " ", column + 8, column + 8, width) + "\n";
  }
  return out;
}

RLCORE_INLINE help_group& group_of(std::vector<help_group>& groups, const registry& known, const key& k) {
  std::size_t best = groups.size();
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (lies_in(k.name, groups[i].name) && (best == groups.size() || groups[best].name.size() < groups[i].name.size()))
      best = i;
  const std::size_t dot = k.name.find('.');
  for (std::size_t i = 0; i < known.topics.size() && best == groups.size(); ++i)
    if (dot == k.name.npos && known.topics[i].takes_rest) best = i;
  if (best < groups.size()) return groups[best];
  const std::string name(dot == k.name.npos ? "options" : k.name.substr(0, dot));
  const auto same = std::find_if(groups.begin(), groups.end(), [&](const help_group& g) { return g.name == name; });
  if (same != groups.end()) return *same;
  groups.push_back({name, dot == k.name.npos ? "name=value sets the same" : "", {}});
  return groups.back();
}

RLCORE_INLINE std::vector<help_group> groups_of(const registry& known) {
  std::vector<help_group> groups;
  std::vector<bool> placed(known.size(), false);
  for (const help_topic& topic : known.topics) {
    help_group& group = groups.emplace_back(help_group{std::string(topic.name), std::string(topic.holds), {}});
    const auto place = [&](const std::string& name) {
      const std::size_t i = known.index(name);
      if (i == known.size() || placed[i]) return;
      placed[i] = true;
      group.keys.push_back(&known.keys()[i]);
    };
    for (const std::string& word : blank_words(topic.keys)) place(group.name + "." + word);
    for (const std::string& word : blank_words(topic.flags)) place(word);
    group.most_used = group.keys.size();
  }
  for (std::size_t i = 0; i < known.size(); ++i)
    if (!placed[i]) group_of(groups, known, known.keys()[i]).keys.push_back(&known.keys()[i]);
  return groups;
}

RLCORE_INLINE std::string flag_usage(const flag& f) {
  std::string out = "--" + std::string(f.name);
  if (f.count == flag::any_count) return out + " [VALUE ...]";
  if (f.count == flag::append) return out + " VALUE ...";
  for (int i = 0; i < f.count; ++i) out += " VALUE";
  return out;
}

RLCORE_INLINE std::string typed(const registry& known, const key& k, std::string_view topic, std::size_t longest) {
  const std::string name(lies_in(k.name, topic) ? k.name.substr(topic.size() + 1) : k.name);
  const auto same = [&](const flag& f) { return f.name == k.name && f.key == k.name; };
  const auto f = std::find_if(known.flags().begin(), known.flags().end(), same);
  const bool shown = columns_of(k.fallback) <= longest;
  if (f == known.flags().end()) return name + "=" + (shown ? one_line(k.fallback) : "...");
  if (f->count == flag::switch_only || k.fallback == "null" || !shown) return flag_usage(*f);
  std::string values = one_line(k.fallback);
  if (f->count > 1 && values.starts_with('[')) {
    values = values.substr(1, values.size() - 2);
    std::replace(values.begin(), values.end(), ',', ' ');
  }
  return "--" + name + " " + values;
}

RLCORE_INLINE help_entry entry_of(const registry& known, const key& k, std::string_view topic) {
  help_entry entry{typed(known, k, topic), std::string(k.meaning), std::string(k.limits.choices)};
  for (const flag& f : known.flags())
    if (f.key == k.name && f.name != f.key)
      entry.text += "; also " + flag_usage(f) + (f.count == flag::switch_only ? " (" + std::string(f.bare) + ")" : "");
  return entry;
}

}  // namespace train::detail
RLCORE_END
#endif
