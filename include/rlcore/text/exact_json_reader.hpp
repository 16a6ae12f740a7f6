// JSON whose integers keep their digits, by nlohmann's parser.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/big_integer.hpp"

RLCORE_BEGIN
namespace text {

/// Makes a value of what nlohmann's parser reads; an integer beyond 64 bits, which it calls a float, keeps its digits.
template <class Json>
class exact_json_reader final : public nlohmann::json_sax<Json> {
 public:
  using string_t = typename Json::string_t;

  bool null() override { return put(nullptr); }
  bool boolean(bool x) override { return put(x); }
  bool number_integer(typename Json::number_integer_t x) override { return put(x); }
  bool number_unsigned(typename Json::number_unsigned_t x) override { return put(x); }
  bool number_float(typename Json::number_float_t x, const string_t& text) override {
    return put(text.find_first_of(".eE") == string_t::npos ? big_integer<Json>(text) : Json(x));
  }
  bool string(string_t& x) override { return put(std::move(x)); }
  bool binary(typename Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override { return member_ = &(*open_.back())[name], true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return open_.pop_back(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  /// The parsed value.
  Json take() { return std::move(root_); }

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (!open_.back()->is_array()) return &(*member_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool put(Json value) { return place(std::move(value)) != nullptr; }
  bool open(Json value) { return open_.push_back(place(std::move(value))), true; }

  Json root_, *member_ = nullptr;
  std::vector<Json*> open_;
};

namespace detail {

template <class Json>
bool read_exact(std::string_view json, Json& value) {
  exact_json_reader<Json> reader;
  if (!Json::sax_parse(json, &reader)) return false;
  value = reader.take();
  return true;
}

RLCORE_INLINE bool read_exact_json(std::string_view json, nlohmann::json& value) { return read_exact(json, value); }
RLCORE_INLINE bool read_exact_json(std::string_view json, nlohmann::ordered_json& value) {
  return read_exact(json, value);
}

}  // namespace detail
}  // namespace text
RLCORE_END
