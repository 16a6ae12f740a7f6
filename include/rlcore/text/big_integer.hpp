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

/// value.dump() with the digits of big integers and base64 of other bytes; text that is no UTF-8 becomes U+FFFD.
template <class Json>
std::string exact_dump(const Json& value) {
  if (is_big_integer(value)) return integer_digits(value);
  if (value.is_binary()) return '"' + to_base64(value.get_binary()) + '"';
  if (!value.is_structured()) return json_text(value);
  std::string out(1, value.is_object() ? '{' : '[');
  for (const auto& [key, part] : value.items()) {
    if (out.size() > 1) out += ',';
    if (value.is_object()) out += json_text(Json(key)) + ':';
    out += exact_dump(part);
  }
  return out + (value.is_object() ? '}' : ']');
}

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/text/exact_json_reader.hpp"
#endif
