// JSON integers beyond 64 bits; keeps their digits, as Python does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/base64.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

/// The subtype of the binary value that stands for a big integer; JSON text makes no binary values.
inline constexpr std::uint64_t big_integer_subtype = 0x1A7E;

/// A value with the digits, and a sign, of an integer of any size.
template <class Json>
Json big_integer(std::string_view digits) {
  return Json::binary({digits.begin(), digits.end()}, big_integer_subtype);
}

/// Whether a value was made by big_integer().
template <class Json>
bool is_big_integer(const Json& value) {
  return value.is_binary() && value.get_binary().has_subtype() && value.get_binary().subtype() == big_integer_subtype;
}

/// The digits of any integer, big or not.
template <class Json>
std::string integer_digits(const Json& value) {
  if (!is_big_integer(value)) return json_text(value);
  return {value.get_binary().begin(), value.get_binary().end()};
}

namespace detail {

/// Parses a text with nlohmann's parser, keeping the digits of integers beyond 64 bits; false for invalid JSON.
bool read_exact_json(std::string_view json, nlohmann::json& value);
bool read_exact_json(std::string_view json, nlohmann::ordered_json& value);

}  // namespace detail

/// As parse_json, with the digits of integers that 64 bits do not hold.
template <class Error, class Json>
Json parse_exact_json(std::string_view json, const std::string& where) {
  check_json_depth<Error>(json, where);
  Json value;
  if (detail::read_exact_json(json, value)) return value;
  return parse_json<Error, Json>(json, where);  // throws with the reason
}

/// The same for text that may not be JSON: returns a discarded value instead of throwing.
template <class Json>
Json try_parse_exact_json(std::string_view json) {
  Json value;
  if (too_deep_at(json) == 0 && detail::read_exact_json(json, value)) return value;
  return Json(nlohmann::json::value_t::discarded);
}

namespace detail {

template <class Json>
void append_exact(std::string& out, const Json& value) {
  if (is_big_integer(value)) {
    out += integer_digits(value);
  } else if (value.is_binary()) {
    ((out += '"') += to_base64(value.get_binary())) += '"';
  } else if (!value.is_structured()) {
    out += json_text(value);
  } else {
    const char* separator = value.is_object() ? "{" : "[";
    if (value.empty()) out += separator;
    for (const auto& [key, part] : value.items()) {
      out += separator;
      separator = ",";
      if (value.is_object()) (out += json_text(Json(key))) += ':';
      append_exact(out, part);
    }
    out += value.is_object() ? '}' : ']';
  }
}

}  // namespace detail

/// value.dump() with the digits of big integers and base64 of other bytes; text that is no UTF-8 becomes U+FFFD.
template <class Json>
std::string exact_dump(const Json& value) {
  std::string out;
  detail::append_exact(out, value);
  return out;
}

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/json_builder.hpp"

RLCORE_BEGIN
namespace text {

/// Makes a value of what nlohmann's parser reads; an integer beyond 64 bits, which it calls a float, keeps its digits.
template <class Json>
class exact_json_reader final : public json_builder<Json> {
 public:
  using string_t = typename Json::string_t;

  exact_json_reader() : json_builder<Json>(false) {}
  bool number_float(typename Json::number_float_t x, const string_t& text) override {
    return this->put(text.find_first_of(".eE") == string_t::npos ? big_integer<Json>(text) : Json(x));
  }
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
#endif
