// Values of a template: numbers, texts, lists, dicts, functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Bytes [begin, end) of a rendered text.
struct byte_range {
  std::size_t begin = 0, end = 0;
};

/// The output of a loop for one element of the watched list.
struct visit {
  std::size_t element = 0;
  byte_range bytes;
};

/// A rendered template.
struct rendering {
  std::string text;
  std::vector<byte_range> generated;  ///< text between {% generation %} and {% endgeneration %}
  std::vector<visit> visits;          ///< visits of the watched list with output
};

/// A rendering error: an operation that Python rejects, raise_exception, or a limit.
struct render_error : data_error {
  using data_error::data_error;
};

class value;
struct dictionary;
struct call_arguments;

/// A name or an attribute that does not exist; most uses of it fail, printing and asking for it do not.
struct undefined {
  std::string name;
};

/// The state of a loop: the variable `loop`.
struct loop_state {
  std::shared_ptr<const std::vector<value>> items;
  std::size_t index = 0;       ///< from 0
  std::vector<value> changed;  ///< last arguments of loop.changed()
};

/// A macro or a function that templates may call.
struct callable {
  std::string name;
  std::function<value(call_arguments&)> call;
};

/// A Python integer that 64 bits do not hold. Templates write and compare it; they do not count with it.
struct big_number {
  std::string digits;
};

/// One value. Copies share strings, lists and dictionaries, which never change; only a namespace does.
class value {
 public:
  using list = std::vector<value>;
  using text_pointer = std::shared_ptr<const std::string>;
  using list_pointer = std::shared_ptr<const list>;
  using dictionary_pointer = std::shared_ptr<const dictionary>;
  using namespace_pointer = std::shared_ptr<dictionary>;
  using loop_pointer = std::shared_ptr<loop_state>;
  using callable_pointer = std::shared_ptr<const callable>;

  value() = default;  ///< None
  /// A value of the type.
  value(undefined x) : held_(std::move(x)) {}
  value(bool x) : held_(x) {}
  value(std::int64_t x) : held_(x) {}
  value(int x) : held_(std::int64_t{x}) {}
  value(double x) : held_(x) {}
  value(big_number x) : weight_(weight_of(x.digits)), held_(std::move(x)) {}
  value(std::string x) : weight_(weight_of(x)), held_(std::make_shared<const std::string>(std::move(x))) {}
  value(std::string_view x) : value(std::string(x)) {}
  value(const char* x) : value(std::string(x)) {}
  template <class T>
  value(T*) = delete;  // would convert to bool
  /// Throws render_error for a list that is nested too deep, as the next one does.
  value(list x) : level_(level_around(x)), weight_(weight_of(x)), held_(std::make_shared<const list>(std::move(x))) {}
  value(dictionary x);
  value(namespace_pointer x) : level_(not_in_lists), held_(std::move(x)) {}
  value(loop_pointer x) : level_(not_in_lists), held_(std::move(x)) {}
  value(callable_pointer x) : level_(not_in_lists), held_(std::move(x)) {}

  /// The content if it is a T, else nullptr; T is one of the alternatives below.
  template <class T>
  const T* as() const noexcept {
    return std::get_if<T>(&held_);
  }
  /// A tuple: a list that is written with parentheses.
  static value tuple(list x) {
    value v(std::move(x));
    v.is_tuple_ = true;
    return v;
  }
  bool is_tuple() const noexcept { return is_tuple_; }
  bool is_none() const noexcept { return held_.index() == 0; }
  bool is_undefined() const noexcept { return as<undefined>() != nullptr; }
  /// The string, or nullptr.
  const std::string* text() const noexcept {
    const auto* p = as<text_pointer>();
    return p == nullptr ? nullptr : p->get();
  }
  /// The list, or nullptr.
  const list* items() const noexcept {
    const auto* p = as<list_pointer>();
    return p == nullptr ? nullptr : p->get();
  }
  /// The dictionary (also that of a namespace), or nullptr.
  const dictionary* members() const noexcept {
    if (const auto* p = as<dictionary_pointer>()) return p->get();
    const auto* p = as<namespace_pointer>();
    return p == nullptr ? nullptr : p->get();
  }
  /// True for int, float and bool, but not for a big_number.
  bool is_number() const noexcept { return as<std::int64_t>() || as<double>() || as<bool>(); }
  /// The number of an int or bool.
  const std::int64_t* integer() const noexcept { return as<std::int64_t>(); }
  /// int, float or bool as a double.
  double real() const noexcept {
    if (const auto* x = as<std::int64_t>()) return static_cast<double>(*x);
    if (const auto* x = as<bool>()) return *x ? 1 : 0;
    return *as<double>();
  }
  /// Python's bool(): empty and zero things are false.
  bool truth() const noexcept;
  /// The name of the type in Python.
  std::string_view type_name() const noexcept {
    constexpr std::string_view names[] = {"NoneType", "Undefined", "bool",      "int",         "float",    "str",
                                          "list",     "dict",      "Namespace", "LoopContext", "function", "int"};
    return names[held_.index()];
  }

  /// About the work of writing or comparing this: its parts, a part that occurs twice counts twice.
  std::size_t weight() const noexcept { return weight_; }
  /// Throws render_error unless this may stand inside a list, a dict or a namespace: what can change, or holds what
  /// can, might otherwise come to hold itself.
  void check_inside() const;

 private:
  static constexpr std::uint16_t most_levels = 1100, not_in_lists = UINT16_MAX;  // JSON is nested at most 1000 deep
  static constexpr std::uint32_t most_weight = 1 << 21;
  static std::uint16_t level_around(const list& items);

  static std::uint32_t weight_of(const std::string& text) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(1 + text.size() / 16, most_weight));
  }
  static std::uint32_t weight_of(const list& items) {
    std::uint32_t weight = 1;  // each item weighs less than most_weight, which is why the sum does not overflow
    for (const value& item : items) weight = std::min(weight + item.weight_, most_weight + 1);
    return weight;
  }

  std::uint16_t level_ = 0;
  std::uint32_t weight_ = 1;
  bool is_tuple_ = false;
  std::variant<std::monostate, undefined, bool, std::int64_t, double, text_pointer, list_pointer, dictionary_pointer,
               namespace_pointer, loop_pointer, callable_pointer, big_number>
      held_;
};

/// A dict with keys that are strings, in the order of insertion. Finds a key in logarithmic time.
struct dictionary {
  std::vector<std::pair<std::string, value>> entries;

  /// The value of a key, or nullptr.
  const value* find(std::string_view key) const noexcept {
    const std::size_t at = place_of(key);
    return at == entries.size() ? nullptr : &entries[at].second;
  }
  /// Sets a key, the new ones at the end.
  void set(std::string_view key, value item) {
    index();
    if (const std::size_t at = place_of(key); at != entries.size())
      entries[at].second = std::move(item);
    else
      entries.emplace_back(key, std::move(item));
  }
  /// Makes find() fast for the entries so far, if they are many.
  void index() {
    constexpr std::size_t few = 16;
    if (entries.size() <= few) return;
    for (; indexed_ < entries.size(); ++indexed_) places_.emplace(entries[indexed_].first, indexed_);
  }

 private:
  /// The place of the first entry with the key; the number of entries if there is none.
  std::size_t place_of(std::string_view key) const noexcept {
    if (const auto found = places_.find(key); found != places_.end()) return found->second;
    for (std::size_t i = indexed_; i < entries.size(); ++i)
      if (entries[i].first == key) return i;
    return entries.size();
  }

  std::map<std::string, std::size_t, std::less<>> places_;  // of the entries before number indexed_
  std::size_t indexed_ = 0;
};

/// The arguments of a call, with checked access.
struct call_arguments {
  std::string_view callee;
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;

  /// The argument number `i` or the one called `name`, or nullptr.
  const value* find(std::size_t i, std::string_view name) const noexcept;
  /// The same for a required argument. Throws render_error.
  const value& get(std::size_t i, std::string_view name) const {
    if (const value* found = find(i, name)) return *found;
    throw render_error(std::string(callee) + "() lacks the argument '" + std::string(name) + "'");
  }
  /// Throws render_error if there are more arguments than `most`, or one whose name is none of `names`.
  void check(std::size_t most, std::initializer_list<std::string_view> names = {}) const {
    check(most, std::vector<std::string>(names.begin(), names.end()));
  }
  /// The same.
  void check(std::size_t most, const std::vector<std::string>& names) const;
};

/// The value of a JSON value, which is nested at most json_depth_limit deep.
template <class Json>
value from_json(const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.template get<bool>();
  if (is_big_integer(json) || (json.is_number_unsigned() && json.template get<std::uint64_t>() > INT64_MAX))
    return big_number{integer_digits(json)};
  if (json.is_number_integer()) return json.template get<std::int64_t>();
  if (json.is_number()) return json.template get<double>();
  if (json.is_string()) return value(json.template get_ref<const std::string&>());
  if (json.is_array()) {
    value::list items;
    items.reserve(json.size());
    for (const auto& item : json) items.push_back(from_json(item));
    return items;
  }
  dictionary members;
  for (const auto& [key, item] : json.items()) members.entries.emplace_back(key, from_json(item));
  return members;
}

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE void value::check_inside() const {
  if (level_ == not_in_lists)
    throw render_error("a " + std::string(type_name()) + " cannot be kept in a list, a dict or a namespace");
  if (weight_ > most_weight) throw render_error("a value of more parts than a template may keep");
  if (level_ > most_levels) throw render_error("a value nested deeper than " + std::to_string(most_levels));
}

RLCORE_INLINE std::uint16_t value::level_around(const list& items) {
  std::uint16_t level = 0;
  for (const value& item : items) {
    item.check_inside();
    level = std::max(level, item.level_);
  }
  return level + 1;
}

RLCORE_INLINE const value* call_arguments::find(std::size_t i, std::string_view name) const noexcept {
  if (i < positional.size()) return &positional[i];
  for (const auto& [key, item] : named)
    if (key == name) return &item;
  return nullptr;
}

RLCORE_INLINE void call_arguments::check(std::size_t most, const std::vector<std::string>& names) const {
  if (positional.size() > most)
    throw render_error(std::string(callee) + "() takes at most " + std::to_string(most) + " arguments, got " +
                       std::to_string(positional.size()));
  for (const auto& [key, item] : named) {
    bool known = false;
    for (const std::string& name : names) known = known || name == key;
    if (!known) throw render_error(std::string(callee) + "() has no argument '" + key + "'");
  }
}

RLCORE_INLINE value::value(dictionary x) {
  for (const auto& [key, item] : x.entries) {
    item.check_inside();
    level_ = std::max(level_, item.level_);
    weight_ = std::min(weight_ + item.weight_, most_weight + 1);
  }
  ++level_;
  x.index();
  held_ = std::make_shared<const dictionary>(std::move(x));
}

RLCORE_INLINE bool value::truth() const noexcept {
  if (const bool* x = as<bool>()) return *x;
  if (const auto* x = as<std::int64_t>()) return *x != 0;
  if (const auto* x = as<double>()) return *x != 0;
  if (const std::string* x = text()) return !x->empty();
  if (const list* x = items()) return !x->empty();
  if (const auto* x = as<dictionary_pointer>()) return !(*x)->entries.empty();
  return !is_none() && !is_undefined();
}

}  // namespace text::jinja
RLCORE_END
#endif
