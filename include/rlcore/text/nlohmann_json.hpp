// What of nlohmann's parser and writer is slow to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

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

namespace detail {

RLCORE_INLINE void read_json(std::string_view json, nlohmann::json& value, bool strict) {
  value = nlohmann::json::parse(json, nullptr, strict);
}
RLCORE_INLINE void read_json(std::string_view json, nlohmann::ordered_json& value, bool strict) {
  value = nlohmann::ordered_json::parse(json, nullptr, strict);
}
RLCORE_INLINE std::string write_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
RLCORE_INLINE std::string write_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
RLCORE_INLINE bool read_cbor(std::string_view bytes, nlohmann::json& value) {
  json_depth_counter counter;
  nlohmann::json::sax_parse(bytes, &counter, nlohmann::json::input_format_t::cbor);
  if (counter.too_deep()) return false;
  value = nlohmann::json::from_cbor(bytes);
  return true;
}

}  // namespace detail
}  // namespace text
RLCORE_END
