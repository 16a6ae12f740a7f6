// The one place where JSON enters: nlohmann's parser behind a limit on nesting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// How many lists and objects may stand inside each other. Whatever walks a value later (copies, writers, templates)
/// recurses once per level; Python's json module stops at about the same depth.
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

/// One JSON value. Throws Error, which starts with `where`, for anything else and for one that is nested too deep. Use
/// nlohmann::ordered_json as Json to keep the order of keys.
template <class Error, class Json = nlohmann::json>
Json parse_json(std::string_view json, const std::string& where) {
  check_json_depth<Error>(json, where);
  try {
    return Json::parse(json);
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where + ": not valid JSON (at byte " + std::to_string(e.byte) + " of " + std::to_string(json.size()) +
                ")");
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": not valid JSON (a number is out of range)");
  }
}

/// The same for text that may be something else than JSON: a discarded value instead of an exception.
template <class Json = nlohmann::json>
Json try_parse_json(std::string_view json) {
  if (too_deep_at(json) != 0) return Json(nlohmann::json::value_t::discarded);
  return Json::parse(json, nullptr, false);
}

/// The text of a value; bytes that are not UTF-8, such as those of a file's name, become U+FFFD. `indent` as in dump().
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Counts the levels of a value while it is read; false ends the reading.
class json_depth_counter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= json_depth_limit; }
  bool start_array(std::size_t) override { return ++depth_ <= json_depth_limit; }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
  /// Whether a level too many ended the reading.
  bool too_deep() const noexcept { return depth_ > json_depth_limit; }

 private:
  std::size_t depth_ = 0;
};

/// One CBOR value. Throws Error as parse_json does.
template <class Error>
nlohmann::json parse_cbor(std::string_view bytes, const std::string& where) {
  json_depth_counter counter;
  nlohmann::json::sax_parse(bytes, &counter, nlohmann::json::input_format_t::cbor);
  if (counter.too_deep()) throw Error(where + ": CBOR nested deeper than " + std::to_string(json_depth_limit));
  try {
    return nlohmann::json::from_cbor(bytes);
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where + ": not valid CBOR (at byte " + std::to_string(e.byte) + " of " + std::to_string(bytes.size()) +
                ")");
  } catch (const nlohmann::json::exception&) {
    throw Error(where + ": not valid CBOR (a number is out of range)");
  }
}

}  // namespace text
RLCORE_END
