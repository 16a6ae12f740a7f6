// JSON parsing: nlohmann's parser with a nesting limit. It is slow to compile: with RLCORE_COMPILED it is that of
// src/json.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// The maximum nesting depth of lists and objects. Later traversals of a value (copies, writers, templates) recurse
/// once per level; Python's json module stops at about the same depth.
inline constexpr std::size_t json_depth_limit = 1000;

/// The byte, counted from 1, of the bracket that opens a level too many; 0 if there is none. Linear, without recursion;
/// takes the text as it is, valid JSON or not.
constexpr std::size_t too_deep_at(std::string_view json) noexcept {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      if (++depth > json_depth_limit) return i + 1;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return 0;
}

/// Throws Error "<where>: JSON nested deeper than 1000 (at byte N of M)".
template <class Error>
void check_json_depth(std::string_view json, const std::string& where) {
  if (const std::size_t byte = too_deep_at(json); byte != 0)
    throw Error(where + ": JSON nested deeper than " + std::to_string(json_depth_limit) + " (at byte " +
                std::to_string(byte) + " of " + std::to_string(json.size()) + ")");
}

/// The position of the first zero byte, which no JSON has: nlohmann's parser takes it for the end of the text and reads
/// nothing behind it. npos if there is none.
inline std::size_t zero_byte_at(std::string_view json) noexcept { return json.find('\0'); }

namespace detail {

/// Calls nlohmann's parser and writer; `strict`: invalid JSON throws nlohmann's exception. Otherwise that, and what is
/// nested too deep, becomes a discarded value; the reading ends where the text is known to be neither.
void read_json(std::string_view json, nlohmann::json& value, bool strict);
void read_json(std::string_view json, nlohmann::ordered_json& value, bool strict);
std::string write_json(const nlohmann::json& value, int indent);
std::string write_json(const nlohmann::ordered_json& value, int indent);
/// False if the bytes are nested too deep.
bool read_cbor(std::string_view bytes, nlohmann::json& value);

}  // namespace detail

/// One JSON value. Throws Error, which starts with `where`, for anything else and for one that is nested too deep. Use
/// nlohmann::ordered_json as Json to keep the order of keys.
template <class Error, class Json = nlohmann::json>
Json parse_json(std::string_view json, const std::string& where) {
  check_json_depth<Error>(json, where);
  if (const std::size_t zero = zero_byte_at(json); zero != json.npos)
    throw Error(where + ": not valid JSON (at byte " + std::to_string(zero + 1) + " of " + std::to_string(json.size()) +
                ")");
  Json value;
  try {
    detail::read_json(json, value, true);
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where + ": not valid JSON (at byte " + std::to_string(e.byte) + " of " + std::to_string(json.size()) +
                ")");
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": not valid JSON (a number is out of range)");
  }
  return value;
}

/// The same for text that may not be JSON: returns a discarded value instead of throwing.
template <class Json = nlohmann::json>
Json try_parse_json(std::string_view json) {
  Json value(nlohmann::detail::value_t::discarded);
  if (zero_byte_at(json) == json.npos) detail::read_json(json, value, false);
  return value;
}

/// The text of a value; bytes that are not UTF-8, such as those of a file's name, become U+FFFD. `indent` as in dump().
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return detail::write_json(value, indent);
}

/// One CBOR value. Throws Error as parse_json does.
template <class Error>
nlohmann::json parse_cbor(std::string_view bytes, const std::string& where) {
  nlohmann::json value;
  try {
    if (!detail::read_cbor(bytes, value))
      throw Error(where + ": CBOR nested deeper than " + std::to_string(json_depth_limit));
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where + ": not valid CBOR (at byte " + std::to_string(e.byte) + " of " + std::to_string(bytes.size()) +
                ")");
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": not valid CBOR (a number is out of range)");
  }
  return value;
}

/// The value of `key` inside the object `parent`, null when the key is absent. `where` is the place in the file, for
/// messages. Throws format_error when `parent` is not an object.
inline const nlohmann::json& field(const nlohmann::json& parent, const char* key, std::string_view where) {
  static const nlohmann::json absent;
  if (!parent.is_object()) throw format_error(std::string(where) + ": expected an object, found " + parent.type_name());
  const auto found = parent.find(key);
  return found == parent.end() ? absent : *found;
}

/// A string field that must be there.
inline std::string string_field(const nlohmann::json& parent, const char* key, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_string()) return value.get<std::string>();
  throw format_error(std::string(where) + '.' + key + ": expected a string, found " + value.type_name());
}

/// An integer, or a vector of integers, exactly: get() converts a number that the type cannot hold, and for one with a
/// fraction or an exponent the behaviour is undefined. Throws nlohmann's type_error for every other value.
template <class T, class Json>
T get_exactly(const Json& from) {
  if constexpr (std::is_integral_v<T>) {
    const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.template get<std::uint64_t>())
                                                : std::in_range<T>(from.template get_ref<const std::int64_t&>());
    if (!fits) static_cast<void>(from.template get_ref<const std::string&>());  // throws: it is a number
    return from.template get<T>();
  } else {
    T values;
    for (const Json& each : from.template get_ref<const typename Json::array_t&>())
      values.push_back(get_exactly<typename T::value_type>(each));
    return values;
  }
}

/// A true/false field, `otherwise` when absent or null.
inline bool bool_field(const nlohmann::json& parent, const char* key, bool otherwise, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.get<bool>();
  throw format_error(std::string(where) + '.' + key + ": expected true or false, found " + value.type_name());
}

/// A whole-number field that must be there.
inline long long integer_field(const nlohmann::json& parent, const char* key, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_number_integer()) return value.get<long long>();
  throw format_error(std::string(where) + '.' + key + ": expected a whole number, found " + value.type_name());
}

/// Whether the first CBOR value (RFC 8949) of `bytes` nests lists, maps and strings of pieces deeper than `limit`.
/// Nested string pieces count too, although they are invalid: a reader may detect this too late. Invalid CBOR is
/// scanned as far as possible. Linear time.
bool cbor_nests_deeper(std::string_view bytes, std::size_t limit);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include <limits>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/text/json_builder.hpp"

RLCORE_BEGIN
namespace text {

RLCORE_INLINE bool cbor_nests_deeper(std::string_view bytes, std::size_t limit) {
  constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();  // until a break
  std::vector<std::uint64_t> left;                                              // values, in each that is open
  for (std::size_t at = 0; at < bytes.size();) {
    const auto head = static_cast<unsigned char>(bytes[at++]);
    const int kind = head >> 5, info = head & 31;
    std::uint64_t n = static_cast<std::uint64_t>(info);
    if (info == 31) {
      n = endless;
    } else if (info >= 24) {
      if (info > 27) return false;
      n = 0;
      for (int k = 1 << (info - 24); k > 0 && at < bytes.size(); --k)
        n = n << 8 | static_cast<unsigned char>(bytes[at++]);
    }
    const bool is_string = kind == 2 || kind == 3, is_list = kind == 4 || kind == 5;
    if (kind == 6) continue;  // a tag stands before a value
    if (kind == 7 && n == endless) {
      if (left.empty() || left.back() != endless) return false;
      left.pop_back();
    } else if ((is_string && n == endless) || (is_list && n > 0)) {
      if (left.size() == limit) return true;
      if (kind == 5 && n != endless) n = n > endless / 2 - 1 ? endless - 1 : 2 * n;
      left.push_back(n);
      continue;
    } else if (is_string) {
      if (n > bytes.size() - at) return false;
      at += static_cast<std::size_t>(n);
    }
    // A value has ended, and every container whose last value it was.
    while (!left.empty() && left.back() != endless && --left.back() == 0) left.pop_back();
    if (left.empty()) return false;
  }
  return false;
}

namespace detail {

template <class Json>
void build_json(std::string_view json, Json& value, bool strict) {
  json_builder<Json> builder(strict, strict ? SIZE_MAX : json_depth_limit);
  const bool valid = Json::sax_parse(json, &builder);
  value = valid ? builder.take() : Json(nlohmann::json::value_t::discarded);
}

RLCORE_INLINE void read_json(std::string_view json, nlohmann::json& value, bool strict) {
  build_json(json, value, strict);
}
RLCORE_INLINE void read_json(std::string_view json, nlohmann::ordered_json& value, bool strict) {
  build_json(json, value, strict);
}
RLCORE_INLINE std::string write_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
RLCORE_INLINE std::string write_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
RLCORE_INLINE bool read_cbor(std::string_view bytes, nlohmann::json& value) {
  if (cbor_nests_deeper(bytes, json_depth_limit)) return false;
  value = nlohmann::json::from_cbor(bytes);
  return true;
}

}  // namespace detail
}  // namespace text
RLCORE_END
#endif
