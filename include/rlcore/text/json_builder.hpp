// Makes JSON values of what nlohmann's parser reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Makes the value that nlohmann's own parser makes, in time n log n: of equal keys the last one counts, at the place
/// of the first. An ordered_json made by that parser compares each key with all keys before it, and copies what it has
/// whenever an object grows.
template <class Json>
class json_builder : public nlohmann::json_sax<Json> {
 public:
  using string_t = typename Json::string_t;

  /// `strict`: parse_error() throws nlohmann's exception instead of ending the reading. Lists and objects that are
  /// nested deeper than `most_depth` end it, too.
  explicit json_builder(bool strict, std::size_t most_depth = SIZE_MAX) : strict_(strict), most_depth_(most_depth) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool x) override { return put(x); }
  bool number_integer(typename Json::number_integer_t x) override { return put(x); }
  bool number_unsigned(typename Json::number_unsigned_t x) override { return put(x); }
  bool number_float(typename Json::number_float_t x, const string_t&) override { return put(x); }
  bool string(string_t& x) override { return put(std::move(x)); }
  bool binary(typename Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool key(string_t& name) override { return open_.back().keys.push_back(std::move(name)), true; }
  bool end_object() override;
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override;

  /// The parsed value.
  Json take() { return std::move(root_); }

 protected:
  /// Adds a value to the list or object that is open.
  bool put(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else
      open_.back().values.push_back(std::move(value));
    return true;
  }

 private:
  struct parts {
    std::vector<string_t> keys;  // of an object
    std::vector<Json> values;
  };

  bool open() {
    if (open_.size() == most_depth_) return false;
    open_.emplace_back();
    return true;
  }
  static void drop_repeated(parts& p);

  bool strict_;
  std::size_t most_depth_;
  Json root_;
  std::vector<parts> open_;
};

template <class Json>
void json_builder<Json>::drop_repeated(parts& p) {
  constexpr std::size_t few = 8;
  if (p.keys.size() <= few) {  // mostly there are few keys, and none twice
    bool any = false;
    for (std::size_t i = 1; i < p.keys.size() && !any; ++i)
      any = std::find(p.keys.begin(), p.keys.begin() + static_cast<std::ptrdiff_t>(i), p.keys[i]) !=
            p.keys.begin() + static_cast<std::ptrdiff_t>(i);
    if (!any) return;
  }
  std::vector<std::size_t> sorted(p.keys.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    const int order = p.keys[a].compare(p.keys[b]);
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<char> repeated(p.keys.size());
  bool any = false;
  for (std::size_t i = 0, first = 0; i < sorted.size(); ++i) {
    if (i == 0 || p.keys[sorted[i]] != p.keys[sorted[first]]) {
      first = i;
    } else {
      p.values[sorted[first]] = std::move(p.values[sorted[i]]);
      repeated[sorted[i]] = 1, any = true;
    }
  }
  if (!any) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < repeated.size(); ++i) {
    if (repeated[i] != 0) continue;
    if (kept != i) p.keys[kept] = std::move(p.keys[i]), p.values[kept] = std::move(p.values[i]);
    ++kept;
  }
  p.keys.resize(kept), p.values.resize(kept);
}

template <class Json>
bool json_builder<Json>::end_object() {
  parts p = std::move(open_.back());
  open_.pop_back();
  drop_repeated(p);
  Json value = Json::object();
  auto& members = value.template get_ref<typename Json::object_t&>();
  if constexpr (requires { members.reserve(p.keys.size()); }) {
    members.reserve(p.keys.size());
    for (std::size_t i = 0; i < p.keys.size(); ++i) members.emplace_back(std::move(p.keys[i]), std::move(p.values[i]));
  } else {
    for (std::size_t i = 0; i < p.keys.size(); ++i) members.emplace(std::move(p.keys[i]), std::move(p.values[i]));
  }
  return put(std::move(value));
}

template <class Json>
bool json_builder<Json>::end_array() {
  parts p = std::move(open_.back());
  open_.pop_back();
  Json value = Json::array();
  value.template get_ref<typename Json::array_t&>() = std::move(p.values);
  return put(std::move(value));
}

template <class Json>
bool json_builder<Json>::parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) {
  if (!strict_) return false;
  if (const auto* error = dynamic_cast<const nlohmann::detail::parse_error*>(&e)) throw *error;
  if (const auto* error = dynamic_cast<const nlohmann::detail::out_of_range*>(&e)) throw *error;
  return false;
}

}  // namespace text
RLCORE_END
